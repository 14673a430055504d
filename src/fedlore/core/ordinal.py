"""Server models for ordered classes: a place and a width in place of k free logits.

Class c of k covers [c - 1/2, c + 1/2], the first and the last are open. The bell of a network is
logistic, where all is a sum of log-sigmoids; that of a model with doubts in closed form is normal,
worked out from the log of its upper tail Q times e^{z²/2}, which is tame wherever z is. Neither
overflows, underflows or cancels, however far out the place lies and however narrow the bell is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from ..errors import ConfigError
from .nets import initialise, perceptron

STEEP = math.pi / math.sqrt(3.0)  # scales of a logistic in one standard deviation

_FARTHEST = 1e15  # widths: beyond it z² would leave float32


def log_cells(place: Tensor, width: Tensor, classes: int) -> Tensor:
    """log[F((c + 1/2 - m)/s) - F((c - 1/2 - m)/s)] of every class, (...) -> (..., k).

    F is logistic, and the width s its standard deviation.

    >>> log_cells(torch.tensor([1.0]), torch.tensor([0.5]), 3).exp()
    tensor([[0.1402, 0.7196, 0.1402]])
    """
    m, rate = place.unsqueeze(-1), STEEP / width.unsqueeze(-1)
    at = torch.arange(classes - 1, dtype=m.dtype, device=m.device)
    z = (at + 0.5 - m) * rate
    below = logsigmoid(z)  # log of the share below each inner edge
    above = below - z
    open_ = torch.zeros_like(z[..., :1])
    # σ(b) - σ(a) = σ(b)·σ(-a)·(1 - e^{a-b}), and nothing cancels in the product
    between = (-torch.expm1(-rate)).log().expand(*z.shape[:-1], classes - 2)
    between = torch.cat([open_, between, open_], -1)
    return torch.cat([below, open_], -1) + torch.cat([open_, above], -1) + between


def normal_cells(place: Tensor, width: Tensor, classes: int) -> Tensor:
    """The same under a normal, for answers alone: nothing is trained through it.

    With R(z) = log(Q(|z|)·e^{z²/2}), n the edge nearer to the place and f the farther,
    p = Q(n) - Q(f) = e^{R(n) - n²/2}·(1 - e^{-D}),  D = (f² - n²)/2 + R(n) - R(f).

    >>> normal_cells(torch.tensor([1.0]), torch.tensor([0.5]), 3).exp()
    tensor([[0.1587, 0.6827, 0.1587]])
    """
    m, rate = place.unsqueeze(-1), 1.0 / width.unsqueeze(-1)
    at = torch.arange(classes, dtype=m.dtype, device=m.device)
    z = ((at[:-1] + 0.5 - m) * rate).clamp(-_FARTHEST, _FARTHEST)
    middle = ((at - m) * rate).clamp(-_FARTHEST, _FARTHEST)
    ratio = torch.special.erfcx(z.abs() * math.sqrt(0.5)).mul(0.5).log()
    tail = ratio - 0.5 * z.square()  # log Q(|z|)
    none = torch.full_like(m, -torch.inf)  # Q at the open ends
    ratio, tail = (torch.cat([none, t, none], -1) for t in (ratio, tail))
    inner = (middle * rate)[..., 1:-1] + ratio[..., 1:-2] - ratio[..., 2:-1]
    open_ = torch.full_like(m, torch.inf)
    gap = torch.cat([open_, inner.abs(), open_], -1)  # D
    holds = torch.cat([-open_, z], -1).lt(0) & torch.cat([z, open_], -1).gt(0)
    share = (-torch.expm1(-torch.where(holds, 1.0, gap))).log()
    beside = torch.maximum(tail[..., :-1], tail[..., 1:]) + share
    # the class that holds the place: 1 - Q(|lower|) - Q(|upper|), never near 0 but for wide normals
    tiny = torch.finfo(m.dtype).tiny
    around = (1.0 - tail[..., :-1].exp() - tail[..., 1:].exp()).clamp(min=tiny).log()
    return torch.where(holds, around, beside)


Start = Literal["none", "middle", "expert"]
Centre = Literal["middle", "expert"]

PLACES_HEARD = 3  # the middle of the range, the expert's place, and how far apart they are


def check_start(start: str) -> None:
    """Refuse what a network's output cannot be added to."""
    if start not in get_args(Start):
        raise ConfigError(f"start must be one of {', '.join(get_args(Start))}, got '{start}'")


@dataclass(frozen=True)
class Link:
    """How a site's range bends what all sites have in common: T for ordered answers."""

    around: Centre = "middle"  # c: the middle of the range, or the expert's place
    share: float = 0.9  # U, of half the width of the range

    def __post_init__(self) -> None:
        if self.around not in get_args(Centre):
            raise ConfigError(f"around must be middle or expert, got '{self.around}'")
        if not 0.0 < self.share < math.inf:
            raise ConfigError(f"share must be positive and finite, got {self.share}")


@dataclass(frozen=True, eq=False)
class Bend:
    """A link at the rows of a site, or at one of them."""

    centre: Tensor  # (n,) c, less the start
    width: Tensor  # (n,) U


def bend_place(z: Tensor, bend: Bend | None) -> tuple[Tensor, Tensor]:
    """Where z comes to lie, and how much of a step of z is left there: place and slope, (n,)."""
    if bend is None:
        return z, torch.ones_like(z)
    t = torch.tanh((z - bend.centre) / bend.width)
    return bend.centre + bend.width * t, 1.0 - t.square()


def make_bend(
    link: Link,
    middle: Tensor,
    expert: Tensor,
    allowed: Tensor | None,
    *,
    classes: int,
    stated: Tensor | None = None,
) -> Bend:
    """A link at rows of this middle and expert's place, (...) each; without a range all count."""
    wide = torch.full_like(middle, float(classes))
    wide = wide if allowed is None else allowed.to(wide).sum(-1)
    if stated is not None:
        between = stated[..., 2] - stated[..., 1]
        wide = torch.where(between.isnan(), wide, between)
    centre = {"middle": middle, "expert": expert}[link.around]
    return Bend(centre, link.share * wide / 2.0)


@dataclass(frozen=True)
class Ordinal:
    """Settings of an ordinal head."""

    start: Start = "none"  # what the network's output is added to
    linear: bool = True  # a linear part beside the hidden layers
    width: float = 0.7  # sd of the bell before training, in classes
    hears: bool = True  # whether the network gets the expert's three numbers as inputs
    reach: float | None = None  # share of all classes in one unit of output; None: the usual
    between: bool = False  # of a number: it hears where in its bin the expert's number lies

    def __post_init__(self) -> None:
        check_start(self.start)
        if not 0.0 < self.width < math.inf:
            raise ConfigError(f"width must be positive and finite, got {self.width}")
        if self.reach is not None and not 0.0 < self.reach < math.inf:
            raise ConfigError(f"reach must be positive and finite, got {self.reach}")

    def unit(self, classes: int) -> float:
        """How many classes one unit of the network's output is."""
        if self.reach is not None:
            return self.reach * classes
        return classes / 4.0 if self.start == "none" else 1.0


class HeadAtHome(nn.Module):
    """What a site may keep to itself: a shift of the place, and a factor on the width (log)."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1))
        self.width = nn.Parameter(torch.zeros(1))


class Ordered(nn.Module):
    """A server model for ordered classes: logits are log[F((e_{c+1}-m)/s) - F((e_c-m)/s)].

    m = start + unit·(shift + head(seen, heard) + line(seen, heard)). FedPer(private=("own",)) keeps
    shift and width at home.
    """

    def __init__(
        self,
        trunk: nn.Module,  # (n, *features) -> (n, h)
        head: nn.Module,  # (n, h), or (n, h + PLACES_HEARD) where it hears -> (n, 1)
        classes: int,
        options: Ordinal | None = None,
        *,
        line: nn.Linear | None = None,  # the same -> (n, 1)
    ) -> None:
        super().__init__()
        if classes < 2:
            raise ConfigError(f"ordered classes must be at least 2, got {classes}")
        self.trunk = trunk
        self.head = head
        self.line = line
        self.own = HeadAtHome()
        self.classes = classes
        self.options = options or Ordinal()
        self.hears = self.options.hears or self.options.start != "none"

    def extra_repr(self) -> str:
        return f"classes={self.classes}, {self.options}"

    def forward(
        self, x: Tensor, prior: Tensor | None = None, allowed: Tensor | None = None
    ) -> Tensor:
        place, width = self.normal(x, prior, allowed)
        return log_cells(place, width, self.classes)

    def normal(
        self, x: Tensor, prior: Tensor | None = None, allowed: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Place and width of each row, (n,) each, on the scale of the class numbers."""
        seen, options = self.trunk(x), self.options  # (n, h)
        start = seen.new_full((len(seen),), (self.classes - 1) / 2)
        if self.hears:
            heard = self.listen(prior, allowed, start)
            if options.start != "none":
                column = 0 if options.start == "middle" else 1
                start = start + self.classes / 4 * heard[:, column]
            if options.hears:
                seen = torch.cat([seen, heard], 1)
        moved = self.head(seen)[:, 0] + self.own.shift
        if self.line is not None:
            moved = moved + self.line(seen)[:, 0]
        width = options.width * self.own.width.exp()
        place = start + options.unit(self.classes) * moved
        return place, width.expand_as(start)

    def listen(self, prior: Tensor | None, allowed: Tensor | None, like: Tensor) -> Tensor:
        """All that the model uses of what the expert says, (..., k) -> (..., PLACES_HEARD)."""
        middle, expert = find_places(prior, allowed, like=like, classes=self.classes)
        return heard_numbers(middle, expert, self.classes)


def reads_between(model: nn.Module) -> bool:
    """Whether a network of a number hears where in its bin the expert's number lies."""
    return bool(getattr(getattr(model, "options", None), "between", False))


def find_places(
    prior: Tensor | None,
    allowed: Tensor | None,
    *,
    like: Tensor,
    classes: int,
    stated: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The middle of the range and the expert's place, (..., k) -> (...) each, like `like` (...).

    Without a range the middle is that of all classes; where the expert is silent he stands in
    the middle of the range. Numbers that are `stated` (..., 3) say more than their classes.
    """
    at = torch.arange(classes, dtype=like.dtype, device=like.device)
    middle = torch.full_like(like, (classes - 1) / 2)
    if allowed is not None:
        inside = allowed.to(like.dtype)
        middle = (inside @ at) / inside.sum(-1)
    if stated is not None:
        halfway = stated[..., 1:].mean(-1)
        middle = torch.where(halfway.isnan(), middle, halfway)
    expert = middle
    if prior is not None:
        said = prior.to(like.dtype)
        total = said.sum(-1)
        spoken = total > 0
        expert = torch.where(spoken, (said @ at) / torch.where(spoken, total, 1.0), middle)
    if stated is not None:
        expert = torch.where(stated[..., 0].isnan(), expert, stated[..., 0])
    return middle, expert


def place_among(numbers: Tensor, edges: Sequence[float]) -> Tensor:
    """Where numbers lie among the classes that edges cut them into, in float64: middles are whole.

    The first and the last class are open, and taken to be as wide as their neighbours.

    >>> place_among(torch.tensor([0.0, 15.0, 20.0, 55.0]), (10.0, 20.0, 30.0)).tolist()
    [-0.5, 1.0, 1.5, 5.0]
    """
    at = torch.tensor(edges, dtype=torch.float64, device=numbers.device)
    share = (numbers.double().unsqueeze(-1) - at[:-1]) / at.diff()
    low, high = torch.zeros_like(at[1:]), torch.ones_like(at[1:])
    low[0], high[-1] = -torch.inf, torch.inf
    return 0.5 + share.clamp(low, high).sum(-1)


def heard_numbers(middle: Tensor, expert: Tensor, classes: int) -> Tensor:
    """What a network hears of a row, (..., PLACES_HEARD), each of the size of a scaled feature."""
    centre, unit = (classes - 1) / 2, classes / 4
    return torch.stack([(middle - centre) / unit, (expert - centre) / unit, expert - middle], -1)


def lay_between(place: Tensor, classes: int) -> Tensor:
    """An expert's number on the scale of the classes as a row of a P-KM, (n,) -> (n, k).

    The two classes beside the number share the row, so that its mean is the number and its
    largest entry the class that the number falls into.

    >>> lay_between(torch.tensor([1.25]), 3)
    tensor([[0.0000, 0.7500, 0.2500]])
    """
    place = place.clamp(0.0, classes - 1.0).unsqueeze(-1)
    at = torch.arange(classes, dtype=place.dtype, device=place.device)
    return (1.0 - (place - at).abs()).clamp(min=0.0)


def ordered_mlp(
    features: int,
    classes: int,
    *,
    hidden: Sequence[int] = (32,),
    options: Ordinal | None = None,
    seed: int = 0,
) -> Ordered:
    """A multi-layer perceptron with ReLU under an ordinal head."""
    return with_ordinal_head(
        nn.Flatten(), features, classes, hidden=hidden, options=options, seed=seed
    )


def with_ordinal_head(
    trunk: nn.Module,
    width: int,
    classes: int,
    *,
    hidden: Sequence[int] = (32,),
    options: Ordinal | None = None,
    seed: int = 0,
) -> Ordered:
    """Any trunk that gives rows of `width` numbers as a server model for ordered classes.

    Without hidden layers the head is the linear part itself. The linear part starts at 0: what
    the features say by themselves is then learned before what they say together.
    """
    options = options or Ordinal()
    wide = width + PLACES_HEARD * options.hears
    head = perceptron(wide, hidden, 1)
    line = nn.Linear(wide, 1, bias=False) if options.linear and hidden else None
    model = Ordered(trunk, head, classes, options, line=line)
    initialise(model, seed)
    start = line if line is not None else head[-1]
    if line is not None or not hidden:
        with torch.no_grad():
            for values in start.parameters():
                values.zero_()
    return model
