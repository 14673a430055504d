"""R-KMs for numbers: between two formulas, a band around one, what was written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..answers import Line, Sets
from ..core.tensors import torch
from ..errors import KnowledgeError
from .kinds import RangeKind
from .missing import hear, join_columns, list_columns
from .protocols import Number

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Between:
    """All numbers from `lower` to `upper`, ends included, each a formula or a fixed number.

    A side that is absent, or undefined in a row (NaN), does not limit that row.
    """

    kind: ClassVar[RangeKind] = "certain"

    lower: Number | float | None = None
    upper: Number | float | None = None

    def __post_init__(self) -> None:
        if self.lower is None and self.upper is None:
            raise KnowledgeError("a range needs a lower or an upper side")

    def __call__(self, x: Tensor, /) -> Sets:
        low, high = _side(self.lower, x, -torch.inf), _side(self.upper, x, torch.inf)
        crossed = low > high
        if crossed.any():
            row = int(crossed.nonzero()[0])
            raise KnowledgeError(
                f"the lower side exceeds the upper one in {int(crossed.sum())} rows, first row "
                f"{row}: {float(low[row])!r} > {float(high[row])!r}"
            )
        return Sets.of(low, high)

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that either side looks at."""
        return join_columns([side for side in (self.lower, self.upper) if callable(side)], width)


@dataclass(frozen=True)
class Band:
    """All numbers at most `below` under and `above` over what a formula says, ends included.

    Where the formula is undefined every number is possible.
    """

    kind: ClassVar[RangeKind] = "certain"

    point: Number
    below: float
    above: float

    def __post_init__(self) -> None:
        for name, value in (("below", self.below), ("above", self.above)):
            if not value >= 0:
                raise KnowledgeError(f"{name} must not be negative, got {value}")

    def __call__(self, x: Tensor, /) -> Sets:
        middle = _values(self.point, x)
        low, high = middle - self.below, middle + self.above
        silent = ~middle.isfinite()
        return Sets.of(low.masked_fill(silent, -torch.inf), high.masked_fill(silent, torch.inf))

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that the formula looks at."""
        return list_columns(self.point, width)


@dataclass(frozen=True)
class Written:
    """The paper's hash map for numbers: sets written down for rows seen before, by features.

    A row that was never written down may be any number.
    """

    sets: Mapping[bytes, tuple[tuple[float, ...], tuple[float, ...]]]

    @staticmethod
    def of(x: Tensor, sets: Sets) -> Written:
        """Write down one set per row; rows with the same features share the union of theirs."""
        ends: dict[bytes, tuple[tuple[float, ...], tuple[float, ...]]] = {}
        for name, low, high in zip(_keys(x), sets.lower.tolist(), sets.upper.tolist(), strict=True):
            before = ends.get(name, ((), ()))
            ends[name] = (before[0] + tuple(low), before[1] + tuple(high))
        return Written(ends)

    def __call__(self, x: Tensor, /) -> Sets:
        anything = ((-torch.inf,), (torch.inf,))
        found = [self.sets.get(name, anything) for name in _keys(x)]
        width = max((len(low) for low, _ in found), default=1)

        def side(which: int) -> Tensor:
            rows = [[*ends[which], *[torch.nan] * (width - len(ends[which]))] for ends in found]
            return torch.tensor(rows, dtype=torch.float64, device=x.device).reshape(-1, width)

        return Sets.of(side(0), side(1))


def _side(side: Number | float | None, x: Tensor, absent: float) -> Tensor:
    if side is None:
        return torch.full((len(x),), absent, dtype=torch.float64, device=x.device)
    if isinstance(side, float | int):
        return torch.full((len(x),), float(side), dtype=torch.float64, device=x.device)
    value = _values(side, x)
    return torch.where(value.isfinite(), value, absent)


def _values(number: Number, x: Tensor) -> Tensor:
    return Line().prediction(hear(number, x), x)


def _keys(x: Tensor) -> list[bytes]:
    return [row.tobytes() for row in x.detach().cpu().flatten(1).numpy()]
