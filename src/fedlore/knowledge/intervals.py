"""R-KMs for numbers: between two formulas, or a band around one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..answers import Sets
from ..core.tensors import torch
from ..errors import KnowledgeError
from .formulas import Limits, end_values, values_of
from .missing import list_columns
from .protocols import Number

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Between(Limits):
    """All numbers from `lower` to `upper`, ends included, each a formula or a fixed number.

    A side that is absent, or undefined in a row (NaN), does not limit that row.
    """

    edges: ClassVar[tuple[float, ...]] = ()  # it allows no classes
    crossed: ClassVar[str] = "error"  # where lower > upper it refuses the row

    lower: Number | float | None = None
    upper: Number | float | None = None

    def __post_init__(self) -> None:
        if self.lower is None and self.upper is None:
            raise KnowledgeError("a range needs a lower or an upper side")

    def __call__(self, x: Tensor, /) -> Sets:
        ends = (self.lower, -torch.inf), (self.upper, torch.inf)
        low, high = (end_values(side, x, absent).double() for side, absent in ends)
        crossed = low > high
        if crossed.any():
            row = int(crossed.nonzero()[0])
            raise KnowledgeError(
                f"the lower side exceeds the upper one in {int(crossed.sum())} rows, first row "
                f"{row}: {float(low[row])!r} > {float(high[row])!r}",
                row=row,
            )
        return Sets.of(low, high)

    def entry(self) -> dict[str, Any]:
        texts = super().entry()
        if texts is None:
            raise KnowledgeError(
                "a Between with fixed numbers or functions cannot be written to a file: give its "
                "sides as formulas, Formula.parse('55', schema)"
            )
        return texts


@dataclass(frozen=True)
class Band:
    """All numbers at most `below` under and `above` over what a formula says, ends included.

    Where the formula is undefined every number is possible.
    """

    point: Number
    below: float
    above: float

    def __post_init__(self) -> None:
        for name, value in (("below", self.below), ("above", self.above)):
            if not value >= 0:
                raise KnowledgeError(f"{name} must not be negative, got {value}")

    def __call__(self, x: Tensor, /) -> Sets:
        middle = values_of(self.point, x).double()
        low, high = middle - self.below, middle + self.above
        silent = ~middle.isfinite()
        return Sets.of(low.masked_fill(silent, -torch.inf), high.masked_fill(silent, torch.inf))

    def looks_at(self, width: int) -> tuple[int, ...]:
        return list_columns(self.point, width)
