"""Numbers into classes: edges cut the line, formulas land between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from ...core.tensors import torch
from ...errors import KnowledgeError
from ..missing import find_lacking, hear, join_columns, list_columns
from ..protocols import RangeKind
from .formula import Formula

if TYPE_CHECKING:
    from torch import Tensor

_Number = Callable[["Tensor"], "Tensor"]  # (n, d) -> (n,), NaN where undefined; a Formula is one
Crossed = Literal["error", "all"]


@dataclass(frozen=True)
class Grading:
    """k - 1 increasing edges make k classes; a number on an edge belongs to the class above it."""

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        if not self.edges or not all(map(math.isfinite, self.edges)):
            raise KnowledgeError(f"there must be one or more finite edges, got {self.edges}")
        # in single precision, because rows come in it
        single = torch.tensor(self.edges, dtype=torch.float32).tolist()
        for (a, b), (low, high) in zip(
            itertools.pairwise(self.edges), itertools.pairwise(single), strict=True
        ):
            if not low < high:
                raise KnowledgeError(f"edges must increase, got {a!r} before {b!r}")

    @property
    def classes(self) -> int:
        return len(self.edges) + 1

    def __call__(self, values: Tensor, /) -> Tensor:
        """The class of each number, any shape; a NaN has no class and must be handled before."""
        edges = torch.tensor(self.edges, dtype=values.dtype, device=values.device)
        return torch.bucketize(values.contiguous(), edges, right=True)

    def interval(self, grade: int) -> tuple[float, float]:
        """Where a class begins (included) and ends (excluded)."""
        low = -math.inf if grade == 0 else self.edges[grade - 1]
        high = math.inf if grade == len(self.edges) else self.edges[grade]
        return low, high


@dataclass(frozen=True)
class GradedFormula:
    """A P-KM: the class in which a formula's value lies; it abstains where it is undefined.

    The formula may be any function that gives one number per row: a simulation is one.
    """

    formula: _Number
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", Grading(self.edges).edges)
        _check_classes(self.formula, self.edges)

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n, k), one-hot."""
        value = _values(self.formula, x)
        grading = Grading(self.edges)
        k = grading.classes
        rows = torch.eye(k + 1, k, dtype=value.dtype, device=x.device)  # the last one abstains
        return rows.index_select(0, grading(value).masked_fill_(~value.isfinite(), k))

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that the formula looks at."""
        return list_columns(self.formula, width)


@dataclass(frozen=True)
class SoftFormula:
    """A soft P-KM: the formula's value blurred by a normal error, cut at the edges.

    A soft row has a weaker property than a one-hot one: f_site >= λ·row, class by class.
    """

    formula: _Number
    edges: tuple[float, ...]
    spread: float  # standard deviation of the error

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", Grading(self.edges).edges)
        _check_classes(self.formula, self.edges)
        if not 0 < self.spread < math.inf:
            raise KnowledgeError(f"spread must be positive, got {self.spread:g}")

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n, k); rows sum to 1, or to 0 where the formula is undefined."""
        value = _values(self.formula, x)
        edges = torch.tensor(self.edges, dtype=torch.float64, device=x.device)
        below = torch.special.ndtr((edges - value.double().unsqueeze(1)) / self.spread)
        rows = torch.diff(
            below, prepend=torch.zeros_like(below[:, :1]), append=torch.ones_like(below[:, :1])
        )
        return rows.masked_fill(~value.isfinite().unsqueeze(1), 0.0).to(value.dtype)

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that the formula looks at."""
        return list_columns(self.formula, width)


@dataclass(frozen=True)
class FormulaRange:
    """An R-KM: all classes that meet [lower, upper].

    A side that is absent, or undefined in a row, does not limit that row. Where lower > upper by
    more than rounding the two contradict each other: `crossed` refuses, or allows all. Where it
    would allow all, it does so too where a value is missing that either looks at.
    """

    kind: ClassVar[RangeKind] = "certain"

    lower: _Number | None = None
    upper: _Number | None = None
    edges: tuple[float, ...] = ()
    crossed: Crossed = "error"

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", Grading(self.edges).edges)
        if self.lower is None and self.upper is None:
            raise KnowledgeError("a range needs a lower or an upper formula")
        for side in (self.lower, self.upper):
            if side is not None:
                _check_classes(side, self.edges)
        if self.crossed not in get_args(Crossed):
            raise KnowledgeError(f"crossed must be error or all, got '{self.crossed}'")

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n, k) bool."""
        low, high = self.limits(x)
        if (low > high).any():
            far = _apart(low, high)
            if self.crossed == "error" and far.any():
                row = int(far.nonzero()[0])
                raise KnowledgeError(
                    f"the lower formula exceeds the upper one in {int(far.sum())} rows, first row "
                    f"{row}: {float(low[row]):g} > {float(high[row]):g}"
                )
            low, high = torch.minimum(low, high), torch.maximum(low, high)
            low, high = low.masked_fill(far, -torch.inf), high.masked_fill(far, torch.inf)
        grading = Grading(self.edges)
        every = torch.ones(grading.classes, grading.classes, dtype=torch.bool, device=x.device)
        # rows looked up are several times faster than grades compared
        rows = every.triu().index_select(0, grading(low))
        return rows.logical_and_(every.tril().index_select(0, grading(high)))

    def cross(self, x: Tensor) -> Tensor:
        """Where the two contradict each other, (n,) bool."""
        return _apart(*self.limits(x))

    def limits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The two ends for each row, (n,); infinite where they do not limit."""
        low = None if self.lower is None else _values(self.lower, x)
        high = None if self.upper is None else _values(self.upper, x)
        one = low if low is not None else high
        assert one is not None  # for the type checker: checked at the door
        low = torch.full_like(one, -torch.inf) if low is None else low
        high = torch.full_like(one, torch.inf) if high is None else high
        low, high = low.to(x.device), high.to(x.device)
        limits, limited = low.isfinite(), high.isfinite()
        if self.crossed == "all" and self.lower is not None and self.upper is not None:
            whole = ~find_lacking(self, x)  # with the value they might cross
            limits, limited = limits & whole, limited & whole
        return torch.where(limits, low, -torch.inf), torch.where(limited, high, torch.inf)

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that either formula looks at."""
        return join_columns([s for s in (self.lower, self.upper) if s is not None], width)


def _apart(low: Tensor, high: Tensor) -> Tensor:
    """Where the lower end exceeds the upper one by more than rounding."""
    near = torch.finfo(low.dtype).eps * 16 * torch.maximum(low.abs(), high.abs())
    return (low > high) & (low - high > near)


def _values(number: _Number, x: Tensor) -> Tensor:
    value = hear(number, x)
    if value.shape != (len(x),) or not value.is_floating_point():
        raise KnowledgeError(
            f"a formula must give one number per row, shape ({len(x)},): "
            f"got {value.dtype} of shape {tuple(value.shape)}"
        )
    return value.to(x.device)


def _check_classes(number: _Number, edges: tuple[float, ...]) -> None:
    if isinstance(number, Formula) and len(number.schema.classes) != len(edges) + 1:
        raise KnowledgeError(
            f"{len(number.schema.classes)} classes need {len(number.schema.classes) - 1} edges, "
            f"got {len(edges)}"
        )
