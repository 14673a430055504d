"""Branch and bound over a box of rows: is there a row that breaks a rule?

Boxes on which interval arithmetic shows the rule to hold are dropped, the others are tried at a few
points and halved, until a breaking row is found, nothing is left, or the budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...core.rng import stream
from ...core.tensors import torch
from .enclosure import Region

if TYPE_CHECKING:
    from torch import Tensor

ProofStatus = Literal["proved", "refuted", "unknown"]
BUDGET = 20_000  # boxes
_POINTS = 4_096  # tried before any box is halved
_FARTHEST = 1e6  # where points are tried on a side without a bound
_BATCH = 4_096  # boxes at a time
_HALVINGS = 100  # of one box: enough to find a single number along one feature


@dataclass(frozen=True)
class Verdict:
    """What is known of a rule over a whole box: it holds, a row breaks it, or neither was found.

    Both are about rows in single precision and what is computed from them, rounding included.
    """

    status: ProofStatus
    example: tuple[float, ...] | None = None  # a whole row that breaks the rule
    boxes: int = 0  # how many were looked at


def decide_claim(
    holds: Callable[[Tensor, Tensor], Tensor],
    broken: Callable[[Tensor], Tensor],
    *,
    box: Region,
    columns: Sequence[int],
    hints: Sequence[float] = (),
    budget: int = BUDGET,
) -> Verdict:
    """Whether a rule holds on the whole box, halving it along these columns.

    `hints` are numbers near which something happens, such as thresholds.

    `holds(low, high)`, (b, d) each -> (b,): the rule is sure to hold in the box.
    `broken(x)`, (n, d) -> (n,): the rule is broken in this row.
    """
    found = first(broken, points(box, hints), box)
    if found is not None:
        return Verdict("refuted", found)
    ruler = _Ruler(torch.tensor(box, dtype=torch.float64))
    low, high = ruler.sides[:, 0].unsqueeze(0), ruler.sides[:, 1].unsqueeze(0)
    halve = torch.tensor(sorted(columns), dtype=torch.int64)
    looked = 0
    for _ in range(_HALVINGS):
        if looked + len(low) > budget:
            break
        looked += len(low)
        batches = [slice(start, start + _BATCH) for start in range(0, len(low), _BATCH)]
        unsure = ~torch.cat([holds(low[rows], high[rows]) for rows in batches])
        low, high = low[unsure], high[unsure]
        if not len(low):
            return Verdict("proved", boxes=looked)
        middle = ruler.middle(low, high)
        found = first(broken, torch.cat([middle, _finite(low), _finite(high)]), box)
        if found is not None:
            return Verdict("refuted", found, looked)
        share = ruler.share(low, high)
        share = share.masked_fill((middle <= low) | (middle >= high), 0.0)[:, halve]
        if not (share > 0).any(1).all():  # a box that cannot be halved
            break
        low, high = _halves(low, high, middle, halve[share.argmax(1)])
    return Verdict("unknown", boxes=looked)


def points(box: Region, hints: Sequence[float] = ()) -> Tensor:
    """Rows of a box to try first, (n, d): its middle, random ones, its corners or some of them."""
    sides = torch.tensor(box, dtype=torch.float64)
    low, high = _finite(sides[:, 0]), _finite(sides[:, 1])
    draw = stream("formula points")
    d = len(low)
    if d <= 10:
        ends = (torch.arange(1 << d).unsqueeze(1) >> torch.arange(d)) & 1
    else:
        ends = torch.randint(0, 2, (1 << 10, d), generator=draw)
    inside = _Ruler(sides).inside(low, high, torch.rand(_POINTS, d, generator=draw).double())
    middle = inside.new_zeros(1, d).clamp(low, high).where(sides.isinf().any(1), (low + high) / 2)
    info = torch.finfo(torch.float32)
    small = [sign * size for sign in (1, -1) for size in (info.tiny, info.tiny * info.eps)]
    near = torch.tensor([*hints, 0.0, *small], dtype=torch.float64)
    near = near[torch.randint(0, len(near), (_POINTS, d), generator=draw)].clamp(low, high)
    near = near.where(torch.rand(_POINTS, d, generator=draw) < 0.5, inside)
    return torch.cat([middle, inside, near, torch.where(ends.bool(), high, low)])


def first(broken: Callable[[Tensor], Tensor], x: Tensor, box: Region) -> tuple[float, ...] | None:
    """The first row that breaks the rule, in as few digits as will do; None if there is none."""
    bad = broken(x).nonzero()
    if not len(bad):
        return None
    row = x[int(bad[0])].tolist()
    sides = list(zip(row, box, strict=True))
    short = [
        [min(max(float(f"{value:.{digits}g}"), low), high) for value, (low, high) in sides]
        for digits in (2, 3, 4, 6)
    ]
    tidy = torch.tensor([*short, row], dtype=torch.float64)
    return tuple(tidy[int(broken(tidy).nonzero()[0])].tolist())


def _finite(side: Tensor) -> Tensor:
    return side.clamp(-_FARTHEST, _FARTHEST).where(side.isinf(), side)


def _halves(low: Tensor, high: Tensor, middle: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
    """Every box cut in two at its middle along one column, (b, d) -> (2b, d)."""
    rows = torch.arange(len(low))
    upper_low, lower_high = low.clone(), high.clone()
    upper_low[rows, column] = lower_high[rows, column] = middle[rows, column]
    return torch.cat([low, upper_low]), torch.cat([lower_high, high])


@dataclass(frozen=True, eq=False)
class _Ruler:
    """Measures boxes inside a large one; by order of magnitude where that has no bound."""

    sides: Tensor  # (d, 2)

    def middle(self, low: Tensor, high: Tensor) -> Tensor:
        return self.inside(low, high, torch.full_like(low, 0.5))

    def inside(self, low: Tensor, high: Tensor, share: Tensor) -> Tensor:
        """The number that lies this share of the way from low to high."""
        a, b = self._marks(low), self._marks(high)
        mark = a + (b - a) * share
        return torch.where(self._open, mark.sinh(), mark).clamp(low, high)

    def share(self, low: Tensor, high: Tensor) -> Tensor:
        """The width of each side as a share of the large box, 0 where that has none."""
        whole = self._marks(self.sides[:, 1]) - self._marks(self.sides[:, 0])
        return ((self._marks(high) - self._marks(low)) / whole).nan_to_num(0.0)

    @property
    def _open(self) -> Tensor:
        return (self.sides.abs() > _FARTHEST).any(1)

    def _marks(self, side: Tensor) -> Tensor:
        return torch.where(self._open, side.clamp(-1e38, 1e38).asinh(), side)
