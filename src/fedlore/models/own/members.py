"""Members of a site's ensemble: what they see of a row and say of it, and how they are kept."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from ...answers import Measured
from ...checker.forms import MEMBERS, member_fault, tree_depth
from ...core.examples import Examples
from ...core.inject import guard
from ...core.lipschitz import columns_of_features
from ...core.scaler import Inputs
from ...errors import FedloreError
from ...kernel.cells import single
from ...kernel.knowledge import HEARD_OF_ORDER, HEARD_PLACES
from ...knowledge.models import Knowledge
from ...knowledge.shapes.shape import ears_for
from .bent import Bent
from .gaussian import Waves
from .linear import STRAIGHT, Linear, log_masses
from .trees import Trees


@dataclass(frozen=True, eq=False)
class Sight:
    """Features in raw units and what the expert says, both in float32: trees compare in it."""

    x: Tensor  # (n, d) float32
    heard: Tensor  # (n, h) float32
    start: Tensor  # (n,) float64  the expert's number or place; 0 where classes have no order

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Tensor) -> "Sight":
        return Sight(self.x[rows], self.heard[rows], self.start[rows])

    def inputs(self, *, hears: bool) -> Tensor:
        """The columns of a learner that hears the expert or does not, (n, i) float32."""
        return torch.cat([self.x, self.heard], 1) if hears else self.x

    def withhold(self, signs: Tensor) -> "Sight":
        """The same rows with nothing in the columns whose sign is NaN, so that nobody uses them."""
        lost = signs[0].isnan()
        d = self.x.shape[1]
        x, heard = (
            part.masked_fill(away, 0.0)
            for part, away in ((self.x, lost[:d]), (self.heard, lost[d:]))
        )
        return Sight(x, heard, self.start)


def see_numbers(known: Measured) -> Sight:
    """Rows with a number to predict: the expert's number, middle and half width of the range.

    Where the expert is silent the middle of the range stands for the number, and where there is no
    range the bounds are one.
    """
    bins = known.bins
    low = torch.full((len(known),), bins.lower, dtype=torch.float64, device=known.x.device)
    high = torch.full_like(low, bins.upper)
    if known.sets is not None:
        low = known.sets.lower.nan_to_num(nan=bins.upper).amin(1)
        high = known.sets.upper.nan_to_num(nan=bins.lower).amax(1)
    return _see(known.x, known.said, low, high)


def see_order(known: Examples, classes: int) -> Sight:
    """Rows of ordered classes: the place of the expert's class, middle and half width of the range.

    A soft prior names its mean place, numbers that are stated theirs.
    """
    places = torch.arange(classes, dtype=torch.float64, device=known.x.device)
    low, high = places.new_zeros(len(known)), places.new_full((len(known),), classes - 1.0)
    if known.allowed is not None:
        low = torch.where(known.allowed, places, classes - 1.0).amin(1)
        high = torch.where(known.allowed, places, 0.0).amax(1)
    if known.stated is not None:
        ends = known.stated[:, 1:]
        low, high = torch.where(ends.isnan(), torch.stack([low, high], 1), ends).unbind(1)
    said = None
    if known.prior is not None:
        mass = known.prior.double()
        said = mass @ places / mass.sum(1)  # 0 / 0: NaN where the expert is silent
        if known.stated is not None:
            said = torch.where(known.stated[:, 0].isnan(), said, known.stated[:, 0])
    return _see(known.x, said, low, high)


def see_classes(known: Examples) -> Sight:
    """Rows of classes without order: the rows of prior and range as they are."""
    parts = [t.float() for t in (known.prior, known.allowed) if t is not None]
    x = _flat(known.x)
    heard = torch.cat(parts, 1) if parts else x.new_zeros(len(x), 0)
    return Sight(x, heard, torch.zeros(len(x), dtype=torch.float64, device=x.device))


def _see(x: Tensor, said: Tensor | None, low: Tensor, high: Tensor) -> Sight:
    middle, half = (low + high) / 2, (high - low) / 2
    start = middle if said is None else torch.where(said.isnan(), middle, said)
    return Sight(_flat(x), torch.stack([start, middle, half], 1).float(), start)


def _flat(x: Tensor) -> Tensor:
    return x.flatten(1).float()


Body = Linear | Bent | Trees | Waves  # (n, i) -> (n, o) float64
SMOOTH = 0.02  # of each row of a forest's votes is spread over all classes


class ClassPredictor(Protocol):
    """A member of a mixture over classes."""

    def log_probs(self, known: Examples) -> Tensor:
        """Log-probabilities, (n, k), -inf outside the range."""


class NumberPredictor(Protocol):
    """A member of a mixture over numbers."""

    def number(self, known: Measured) -> Tensor:
        """Numbers inside S(x), (n,) float64."""


@dataclass(frozen=True, eq=False)
class NumberMember:
    """A number of the site's own, and how far it misses on rows it has not seen."""

    name: str
    body: Body
    hears: bool  # the expert's word is among its inputs
    over: bool  # what it says is added to the expert's number
    width: float  # σ, in the units of the number

    def number(self, known: Measured) -> Tensor:
        return within(self.free_number(known), known)

    def free_number(self, known: Measured) -> Tensor:
        """The number before it is moved into S(x), (n,)."""
        return _place(self, see_numbers(known))


@dataclass(frozen=True, eq=False)
class OrderMember:
    """A place on the line of ordered classes, and a width: a discretised normal."""

    name: str
    body: Body
    hears: bool
    over: bool
    width: float  # σ, in classes
    classes: int  # k

    def log_probs(self, known: Examples) -> Tensor:
        place = _place(self, see_order(known, self.classes))
        return mask_logits(log_masses(place, self.width, self.classes), known.allowed)

    def with_temperature(self, factor: float) -> "OrderMember":
        """Log-probabilities so many times as steep: a bell less wide by the root."""
        return replace(self, width=self.width / math.sqrt(factor))


@dataclass(frozen=True, eq=False)
class ClassMember:
    """A score for each class without order."""

    name: str
    body: Body
    hears: bool
    votes: bool  # the body gives shares of votes, not logits
    inverse_temperature: float  # what logits are multiplied by: calibrated on rows it has not seen

    def log_probs(self, known: Examples) -> Tensor:
        outputs = self.body(see_classes(known).inputs(hears=self.hears))
        return mask_logits(
            self.inverse_temperature * (smooth_votes(outputs) if self.votes else outputs),
            known.allowed,
        )

    def with_temperature(self, factor: float) -> "ClassMember":
        """Log-probabilities so many times as steep."""
        return replace(self, inverse_temperature=self.inverse_temperature * factor)


OwnMember = NumberMember | OrderMember | ClassMember


def _place(member: NumberMember | OrderMember, sight: Sight) -> Tensor:
    """The number or place that a member names, not yet inside any range, (n,)."""
    found = member.body(sight.inputs(hears=member.hears)).squeeze(1)
    return found + sight.start if member.over else found


def within(numbers: Tensor, known: Measured) -> Tensor:
    """Numbers moved into S(x), or into the bounds where there is no range; NaN is the expert's."""
    if known.sets is not None:
        ends = known.sets
        safe = torch.where(numbers.isfinite(), numbers, see_numbers(known).start)
        return ends.nearest(safe)
    safe = torch.where(numbers.isfinite(), numbers, see_numbers(known).start)
    return safe.clamp(known.bins.lower, known.bins.upper)


def mask_logits(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Log-probabilities with exactly no mass outside the range, whatever the logits are."""
    logits = guard(logits)
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    return logits.log_softmax(-1)


def smooth_votes(votes: Tensor) -> Tensor:
    """The log of shares of votes, none of them 0."""
    return ((1.0 - SMOOTH) * votes + SMOOTH / votes.shape[1]).log()


def input_signs(known: Knowledge, inputs: Inputs | None) -> Tensor | None:
    """For each input of a member and what it hears behind: 1, -1, 0 (free), NaN (withheld).

    (4, i + h): where an input has an arch or a valley it is the direction before the turn, and the
    ends of the turn stand below it, NaN elsewhere. Last comes -1 where a number is concave in an
    input, 1 where it is convex, 2 where only a line keeps what bends before it is heard, else 0. A
    feature that raises here and lowers there in another way is withheld: a member knows no regions.
    """
    shapes, orders = known.shapes, known.orders
    if shapes is None or orders is None:
        return None
    d = len(shapes.schema.features)
    found = torch.zeros(4, d if inputs is None else inputs.width, dtype=torch.float64)
    found[1:3] = torch.nan
    places = columns_of_features(d, inputs)
    for column in shapes.columns:
        every = [s for s in shapes if shapes.schema.column(s.feature) == column]
        own = [s for s in every if not s.bend]
        found[3, places[column]] = float(sum(s.bend for s in every))
        if not own:
            continue
        if len({s.pieces for s in own}) > 1:
            found[0, places[column]] = torch.nan
            continue
        pieces = own[0].pieces
        found[0, places[column]] = float(pieces[0].sign)
        if len(pieces) > 1:
            ends = [single(piece.turn) for piece in pieces]
            found[1:3, places[column]] = found.new_tensor(ends)
    middle, told = ears_for(found.new_zeros(1, 0), orders)[0, -HEARD_PLACES:].tolist()
    # how wide a range is follows no order where its ends move
    wide = 0.0 if orders.range == "constant" and orders.range_stays else torch.nan
    heard = found.new_full((4, HEARD_OF_ORDER), torch.nan)
    heard[0], heard[3] = found.new_tensor([told, middle, wide]), 0.0
    heard[3, 0] = 0.0 if orders.prediction_stays else STRAIGHT
    return torch.cat([found, heard], 1)


def keeps_signs(member: object, signs: Tensor) -> bool:
    """Whether a member moves as the signs say for every row: read off its weights and trees."""
    if not isinstance(member, NumberMember | OrderMember):
        return False
    if member.over and bool(signs[0, -HEARD_OF_ORDER].isnan()):
        return False
    return member.body.keeps(signs if member.hears else signs[:, :-HEARD_OF_ORDER])


MOST_BYTES = 20_000_000  # of all own members of a bundle
KINDS: dict[str, type[NumberMember] | type[OrderMember] | type[ClassMember]] = {
    "number": NumberMember,
    "order": OrderMember,
    "classes": ClassMember,
}
BODIES: dict[str, type[Body]] = {
    "linear": Linear,
    "bent": Bent,
    "trees": Trees,
    "waves": Waves,
}


def write_own_members(
    members: Sequence[OwnMember],
) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """Members as values for JSON and as tensors by name, `0.feature` and so on."""
    said, tensors = [], {}
    for place, member in enumerate(members):
        body = member.body
        own = {f.name: getattr(body, f.name) for f in fields(body)}
        for name, value in own.items():
            if isinstance(value, Tensor):
                tensors[f"{place}.{name}"] = value.contiguous()
        plain = {f.name: getattr(member, f.name) for f in fields(member) if f.name != "body"}
        shape = {"quadratic": own["quadratic"]} if "quadratic" in own else {}
        said.append({"kind": _name(KINDS, member), "body": _name(BODIES, body), **shape, **plain})
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    if size > MOST_BYTES:
        raise FedloreError(f"own members may take {MOST_BYTES} bytes, these take {size}")
    return said, tensors


def read_own_members(
    said: Sequence[Mapping[str, Any]], tensors: Mapping[str, Tensor], *, columns: int, heard: int
) -> list[OwnMember]:
    """The members again; `columns` are the features of a row and `heard` the expert's numbers."""
    if sum(t.numel() * t.element_size() for t in tensors.values()) > MOST_BYTES:
        raise FedloreError(f"own members may take {MOST_BYTES} bytes")
    left = dict(tensors)
    made: list[OwnMember] = []
    for place, one in enumerate(said):
        own = {n.partition(".")[2]: t for n, t in left.items() if n.startswith(f"{place}.")}
        left = {n: t for n, t in left.items() if not n.startswith(f"{place}.")}
        odd = [f"'{place}.{name}' cannot be {t.dtype}" for name, t in own.items() if _is_odd(t)]
        if odd:
            raise FedloreError(odd[0])
        arrays = {name: t.numpy() for name, t in own.items()}
        fault = member_fault(place, one, arrays, columns, heard)
        if fault:
            raise FedloreError(fault)
        more: dict[str, Any] = {}
        if one["body"] == "linear":
            more = {"quadratic": one.get("quadratic", False)}
        elif one["body"] == "trees":
            more = {"depth": tree_depth(arrays)}
        body: Any = BODIES[one["body"]]
        plain = {name: one[name] for name in MEMBERS[one["kind"]]}
        made.append(KINDS[one["kind"]](body=body(**own, **more), **plain))
    if left:
        raise FedloreError(f"no member has the tensor '{min(left)}'")
    return made


def _is_odd(t: Tensor) -> bool:
    """Whether a tensor is of a type that numpy has not, such as bfloat16."""
    return t.dtype not in (torch.float64, torch.float32, torch.int16, torch.int32)


def _name(table: Mapping[str, type], one: OwnMember | Body) -> str:
    return next(name for name, kind in table.items() if type(one) is kind)
