"""A server model for ordered answers that keeps each site's private shapes, whatever its weights.

Kitouni, Nolte, Williams (2023), Expressive Monotonic Neural Networks: a trunk whose slope in every
input is at most κ, plus a linear part. Here the linear part is shared, and each site clamps it in
private: where it has a shape of sign s the coefficient c becomes s·κ·(1 + softplus(s·c/κ - 1)), so
that the trunk cannot turn it. Sites without shapes use c as it is; all share the same weights.
Softplus is log(1 + e^2z)/2: a softer one moves coefficients that need no clamp and so those of the
other sites, a harder one holds those that start at 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, softplus

from ..errors import ConfigError, FedloreError
from ..kernel.knowledge import HEARD_PLACES
from .examples import Examples
from .nets import initialise
from .ordinal import HeadAtHome, Start, check_start, find_places, log_cells
from .scaler import Inputs, Scaler

#: The trunk stays this much below κ, so that rounding cannot turn what is flat.
SLACK = 1.0 / 64.0
SHARP = 2.0  # of the softplus that clamps


@dataclass(frozen=True)
class Shaping:
    """Settings of a model that keeps shapes."""

    features: int  # inputs of a row, without what it hears of the expert
    hears: bool = False  # whether it gets the middle of the range and the expert's place
    start: Start = "none"  # what the network's output is added to
    slope: float = 0.1  # κ: how steep the trunk may be, in quarters of all classes
    width: float = 0.7  # sd of the bell before training, in classes
    between: ClassVar[bool] = True  # of a number it hears where in its bin the expert's lies

    def __post_init__(self) -> None:
        if self.features < 1:
            raise ConfigError(f"features must be at least 1, got {self.features}")
        check_start(self.start)
        for name, value in (("slope", self.slope), ("width", self.width)):
            if not 0.0 < value < math.inf:
                raise ConfigError(f"{name} must be positive and finite, got {value}")

    @property
    def wide(self) -> int:
        """Inputs of trunk and linear part: the features and what is heard."""
        return self.features + HEARD_PLACES

    @property
    def heard_inputs(self) -> int:
        """Columns behind the features: what is heard, the start, and three parts of every input."""
        return 1 + HEARD_PLACES + 3 * self.wide


class Sorted(nn.Module):
    """The larger half of paired units, then the smaller: it loses no slope (Anil et al. 2019)."""

    def forward(self, h: Tensor) -> Tensor:
        half = h.shape[-1] // 2
        a, b, odd = h[..., :half], h[..., half : 2 * half], h[..., 2 * half :]
        return torch.cat([torch.maximum(a, b), torch.minimum(a, b), odd], -1)


class Lipschitz(nn.Module):
    """Logits of ordered answers, (n, features), or what it hears behind them, -> (n, classes).

    place = start + unit·(shift + κ·trunk(seen, heard) + Σ c'(1)·up + c'(-1)·down + c·free),
    where c'(s) is a coefficient clamped to a sign and up + down + free = input: one of them is all
    of it, or, where it has an arch or a valley, its part in front of the turn, behind and between.
    """

    hears = False  # what it hears comes as columns, see `lay_shapes`

    def __init__(self, hidden: Sequence[int], classes: int, options: Shaping) -> None:
        super().__init__()
        if classes < 2:
            raise ConfigError(f"ordered classes must be at least 2, got {classes}")
        widths = [options.wide, *hidden, 1]
        self.trunk = nn.ModuleList(
            nn.Linear(a, b) for a, b in zip(widths, widths[1:], strict=False)
        )
        self.line = nn.Linear(options.wide, 1, bias=False)
        self.own = HeadAtHome()
        self.sort = Sorted()
        self.hidden, self.classes, self.options = tuple(hidden), classes, options

    def extra_repr(self) -> str:
        return f"classes={self.classes}, {self.options}"

    @property
    def unit(self) -> float:
        """How many classes one unit of the network's output is."""
        return self.classes / 4.0

    def forward(
        self, x: Tensor, prior: Tensor | None = None, allowed: Tensor | None = None
    ) -> Tensor:
        place, width = self.normal(x)
        return log_cells(place, width, self.classes)

    def normal(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Place and width of each row, (n,) each, on the scale of the class numbers."""
        about = self.options
        wide = about.wide
        if x.ndim > 2:
            x = x.flatten(1)
        if x.shape[1] == about.features:  # nothing is known of these rows, all inputs are free
            x = torch.cat([pad(x, (0, HEARD_PLACES + 1 + 2 * wide)), pad(x, (0, HEARD_PLACES))], 1)
        if x.shape[1] != about.features + about.heard_inputs:
            raise RuntimeError(f"rows must have {about.features} inputs, got {x.shape[1]}")
        inputs, start, up, down, free = torch.split(x, [wide, 1, wide, wide, wide], 1)
        c = self.line.weight[0]
        # what is heard with a sign stays out of the trunk: nothing there is to be outweighed
        own = (torch.arange(wide, device=x.device) < about.features).to(c)
        rising, falling = (
            sign * about.slope * (softplus(sign * c / about.slope - 1.0, SHARP) + own)
            for sign in (1.0, -1.0)
        )
        bent = self.bend(torch.where(own > 0, inputs, free))[:, 0]
        moved = bent + (rising * up + falling * down + c * free).sum(1) + self.own.shift
        width = about.width * self.own.width.exp()
        place = (self.classes - 1) / 2 + self.unit * (start[:, 0] + moved)
        return place, width.expand_as(place)

    def bend(self, inputs: Tensor) -> Tensor:
        """The trunk, whose slope in every single input is below κ, (n, wide) -> (n, 1)."""
        h = inputs
        for place, layer in enumerate(self.trunk):
            assert isinstance(layer, nn.Linear)
            h = linear(h if place == 0 else self.sort(h), tame(layer.weight, place), layer.bias)
        return self.options.slope * (1.0 - SLACK) * h


def tame(weight: Tensor, place: int) -> Tensor:
    """A layer's weights so that no input changes an output by more than the input changes.

    From an input's own size (the first layer, l1) or the largest of its inputs (l∞) to the largest
    of its outputs: rows are divided by their largest entry, or by the sum of their entries.
    """
    size = weight.abs()
    norm = size.amax(1, keepdim=True) if place == 0 else size.sum(1, keepdim=True)
    return weight / norm.clamp(min=1.0)


def keeps_shapes(model: nn.Module) -> TypeGuard[Lipschitz]:
    """Whether a network keeps shapes for any weights: whoever inherits from it may do anything."""
    return type(model) is Lipschitz


def lay_shapes(model: nn.Module, data: Examples, scaler: Scaler | None = None) -> Examples:
    """Scaled rows with all that a model which keeps shapes is told of them behind the features.

    `data.signs`, (n, 3d + 2), holds -1, 0 or 1 for each feature as it moves the answer, then both
    ends of where it turns round, in raw units, NaN where it does not; and for the middle of the
    range and the expert's place 1 where they move as all shapes say, 0 where they do not move with
    them, and NaN where they are withheld. Other models get the rows as they are.
    """
    if not keeps_shapes(model):
        if data.signs is not None and bool((_parts_of(data.signs)[0] != 0).any()):
            raise FedloreError(
                "shapes need a network that keeps them: set [model] lipschitz = true at every site "
                f"(no bound on the slopes of a {type(model).__name__} is known)"
            )
        return data
    about, x = model.options, data.x.flatten(1)
    inputs = None if scaler is None else scaler.inputs
    n = len(x)
    if x.shape[1] != about.features:
        return data  # laid before, or refused by the network itself
    signs, (start, end) = x.new_zeros(n, about.wide), x.new_full((2, n, about.wide), torch.nan)
    ears = x.new_zeros(HEARD_PLACES)
    if data.signs is not None:
        ways, *turns, heard_signs = _parts_of(data.signs)
        own = ways.shape[1] if inputs is None else inputs.width
        if own != about.features:
            raise FedloreError(
                f"a network that keeps shapes takes the {own} inputs of the features alone, this "
                f"one takes {about.features}"
            )
        ears = heard_signs[0].to(x) if n else ears
        places = columns_of_features(ways.shape[1], inputs)
        signs[:, places] = ways.to(x)
        signs[:, about.features :] = ears.nan_to_num(nan=0.0)
        if bool(turns[0].isfinite().any()):
            for laid, raw in zip((start, end), turns, strict=True):
                filled = raw.nan_to_num(nan=0.0)
                scaled = (filled if scaler is None else scaler(filled)).to(x)[:, places]
                laid[:, places] = scaled.masked_fill(raw.isnan(), torch.nan)
    heard = x.new_zeros(n, HEARD_PLACES)
    begin = x.new_zeros(n, 1)
    if (about.hears or about.start != "none") and n:
        both = _heard_places(data, x, model)
        both = torch.where(ears.isnan(), 0.0, both)
        if about.start != "none":
            begin = both[:, [0 if about.start == "middle" else 1]]
        heard = both if about.hears else heard
    whole = torch.cat([x, heard], 1)
    return replace(data, x=torch.cat([whole, begin, *_cut(whole, signs, start, end)], 1))


def _cut(x: Tensor, signs: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The part of each input that raises the answer, that lowers it, and that is free to do either.

    They add up to it. Where it turns, the part in front of the turn ends there and the part behind
    begins there, both measured from 0, so that a turn far from all rows changes nothing for them.
    """
    turns = ~start.isnan()
    before = torch.where(turns, torch.minimum(x, start) - start.clamp(max=0.0), x)
    behind = torch.where(turns, torch.maximum(x, end) - end.clamp(min=0.0), 0.0)
    between = torch.clamp(x, start, end) - (start.clamp(min=0.0) + end.clamp(max=0.0))
    up = torch.where(signs > 0, before, torch.where(signs < 0, behind, 0.0))
    down = torch.where(signs < 0, before, torch.where(signs > 0, behind, 0.0))
    return up, down, torch.where(signs == 0, x, torch.where(turns, between, 0.0))


def _parts_of(signs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What is said of each feature: its way, both ends of its turn; and of what is heard."""
    d = (signs.shape[1] - HEARD_PLACES) // 3
    way, start, end, heard = torch.split(signs, [d, d, d, HEARD_PLACES], 1)
    return way, start, end, heard


def _heard_places(data: Examples, x: Tensor, model: Lipschitz) -> Tensor:
    """The middle of the range and the expert's place, (n, 2), in the network's units."""
    k = model.classes
    places = find_places(data.prior, data.allowed, like=x[:, 0], classes=k)
    return (torch.stack(places, 1) - (k - 1) / 2) / model.unit


def columns_of_features(features: int, inputs: Inputs | None) -> list[int]:
    """The input in which each feature's own number stands."""
    if inputs is None or inputs.width == len(inputs.features):
        return list(range(features))
    found, place = [], 0
    for one in inputs.features[:features]:
        found.append(place)
        place += one.width
    return found


def lipschitz_mlp(
    classes: int, options: Shaping, *, hidden: Sequence[int] = (32,), seed: int = 0
) -> Lipschitz:
    """A perceptron that keeps shapes; its linear part starts at 0, as in `with_ordinal_head`."""
    model = Lipschitz(hidden, classes, options)
    initialise(model, seed)
    with torch.no_grad():
        model.line.weight.zero_()
    return model
