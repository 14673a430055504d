"""Sources over boxes of rows: which classes they surely allow, may name, and where they refuse.

A table is settled where each of its rules surely hits or surely does not; of a formula its bounds
are known. What is neither has no view here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.tensors import torch
from ..formulas.enclosure import enclose
from ..formulas.formula import Formula
from ..formulas.grading import FormulaRange, GradedFormula, Grading
from ..formulas.intervals import Interval
from ..formulas.proofs import never_exceeds
from ..tables.bitwords import spans
from ..tables.table import Table
from .single import LARGEST_SINGLE, single_table

if TYPE_CHECKING:
    from torch import Tensor

Flags = NDArray[np.bool_]
Corners = NDArray[np.float64]


class Over(Protocol):
    """A source, and what it says of rows (n, d) and of boxes with corners (b, d)."""

    @property
    def columns(self) -> Sequence[int]:
        """Where halving a box may settle it."""

    def says(self, x: Corners) -> tuple[Flags, Flags]:
        """Rows, (n, k), and which rows are refused, (n,)."""

    def safe(self, low: Corners, high: Corners) -> Flags:
        """The boxes in which no row is refused, (b,)."""

    def cuts(self, column: int) -> Sequence[float]:
        """The numbers from which on a condition on a column begins or ceases to hold."""

    def unsettled(self, low: Corners, high: Corners) -> Corners:
        """How much hangs on cutting a box along each column, (b, d)."""


class RangeOver(Over, Protocol):
    """A range."""

    def sure(self, low: Corners, high: Corners) -> Flags:
        """The classes that every row of a box is allowed, (b, k)."""


class PredictionOver(Over, Protocol):
    """A prediction."""

    def may(self, low: Corners, high: Corners) -> Flags:
        """The classes that some row of a box may get, (b, k)."""

    def speaks(self, low: Corners, high: Corners) -> Flags:
        """The boxes in which every row gets a class, (b,)."""


def view_prediction(model: object) -> PredictionOver | None:
    """A prediction as it is seen over boxes; None where nothing can be said of it."""
    if isinstance(model, Table):
        return TableOver(model)
    if isinstance(model, GradedFormula) and isinstance(model.formula, Formula):
        return GradedOver(model, model.formula)
    return None


def view_range(model: object) -> RangeOver | None:
    """A range as it is seen over boxes; None where nothing can be said of it."""
    if isinstance(model, Table):
        return TableOver(model)
    if isinstance(model, FormulaRange):
        sides = [side for side in (model.lower, model.upper) if side is not None]
        formulas = tuple(side for side in sides if isinstance(side, Formula))
        return LimitsOver(model, formulas) if len(formulas) == len(sides) else None
    return None


@dataclass(frozen=True, eq=False)
class TableOver:
    """A table; its thresholds are those of single precision."""

    table: Table

    @cached_property
    def _single(self) -> Table | None:
        return single_table(self.table)

    @cached_property
    def _rules(self) -> list[tuple[list[tuple[int, list[tuple[float, float]]]], Flags]]:
        """For each rule its spans by column, ends included, and the classes it names."""
        if self._single is None:
            return []
        table, found = self._single, []
        for index in table.order:
            rule = table.rules[index]
            named = np.isin(np.arange(len(table.schema.classes)), rule.outcome)
            sides = [
                (column, [self._ends(column, *span) for span in spans(condition)])
                for column, condition in rule.conditions
            ]
            found.append((sides, named))
        return found

    def _ends(self, column: int, start: Any, stop: Any) -> tuple[float, float]:
        if self.table.schema.features[column].levels:
            return start.value, stop.value
        first = after_single(start.value) if start.after else start.value
        return first, stop.value if stop.after else before_single(stop.value)

    @property
    def columns(self) -> Sequence[int]:
        return ()  # cut at its thresholds, not halved

    def cuts(self, column: int) -> Sequence[float]:
        step = 1.0 if self.table.schema.features[column].levels else None
        found = set()
        for sides, _ in self._rules:
            for at, ends in sides:
                for first, last in ends if at == column else ():
                    found |= {first, last + step if step else after_single(last)}
        return sorted(cut for cut in found if np.isfinite(cut))

    def _hits(self, low: Corners, high: Corners) -> tuple[Flags, Flags]:
        """Which rules may hit somewhere in a box, and which do everywhere, (b, rules)."""
        may = np.ones((len(low), len(self._rules)), bool)
        sure = may.copy()
        for place, (sides, _) in enumerate(self._rules):
            for column, ends in sides:
                touched, inside = _meets(ends, low[:, column], high[:, column])
                may[:, place] &= touched
                sure[:, place] &= inside
        return may, sure

    def unsettled(self, low: Corners, high: Corners) -> Corners:
        may, _ = self._hits(low, high)
        found = np.zeros_like(low)
        for place, (sides, _) in enumerate(self._rules):
            parts = []
            for column, ends in sides:
                touched, inside = _meets(ends, low[:, column], high[:, column])
                parts.append((column, touched & ~inside & may[:, place]))
            count = np.sum([some for _, some in parts], axis=0) if parts else 0
            for column, some in parts:
                found[:, column] += some * 0.5**count
        return found

    @cached_property
    def _named(self) -> Flags:
        k = len(self.table.schema.classes)
        return np.array([named for _, named in self._rules], bool).reshape(-1, k)

    def says(self, x: Corners) -> tuple[Flags, Flags]:
        if self.table.kind == "range":
            return self.sure(x, x), ~self.safe(x, x)
        return self.may(x, x), ~self.safe(x, x)

    def sure(self, low: Corners, high: Corners) -> Flags:
        may, sure = self._hits(low, high)
        if self.table.policy == "intersect":
            return np.asarray(~(may @ ~self._named))
        return np.asarray((sure @ self._named) | ~may.any(1, keepdims=True))

    def may(self, low: Corners, high: Corners) -> Flags:
        may, sure = self._hits(low, high)
        if self.table.policy in ("first", "priority"):
            may &= np.cumsum(sure, axis=1) - sure == 0  # behind a sure rule none speaks
        return np.asarray(may @ self._named)

    def speaks(self, low: Corners, high: Corners) -> Flags:
        return np.asarray(self._hits(low, high)[1].any(1))

    def safe(self, low: Corners, high: Corners) -> Flags:
        if self.table.policy == "intersect":
            return np.asarray(self.sure(low, high).any(1))
        if self.table.policy == "unique":
            return np.asarray(self.may(low, high).sum(1) <= 1)
        return np.ones(len(low), bool)


@dataclass(frozen=True, eq=False)
class LimitsOver:
    """A range between formulas."""

    limits: FormulaRange
    formulas: tuple[Formula, ...]

    @cached_property
    def columns(self) -> Sequence[int]:
        return columns_of(self.formulas)

    def cuts(self, column: int) -> Sequence[float]:
        return ()

    def unsettled(self, low: Corners, high: Corners) -> Corners:
        return np.zeros_like(low)

    def says(self, x: Corners) -> tuple[Flags, Flags]:
        rows = torch.from_numpy(x).float()
        refused = self.limits.cross(rows).numpy()
        calm = replace(self.limits, crossed="all")
        return calm(rows).numpy(), refused & (self.limits.crossed == "error")

    def sure(self, low: Corners, high: Corners) -> Flags:
        grading = Grading(self.limits.edges)
        grades = torch.arange(grading.classes)
        left = torch.ones(len(low), grading.classes, dtype=torch.bool)
        if isinstance(self.limits.lower, Formula):
            top = _bound(self.limits.lower, low, high)[1].unsqueeze(1)
            left &= (grading(top) <= grades) | top.isnan()
        if isinstance(self.limits.upper, Formula):
            bottom = _bound(self.limits.upper, low, high)[0].unsqueeze(1)
            left &= (grading(bottom) >= grades) | bottom.isnan()
        return left.numpy()

    def safe(self, low: Corners, high: Corners) -> Flags:
        if self.limits.crossed != "error" or len(self.formulas) < 2:
            return np.ones(len(low), bool)
        lower, upper = self.formulas
        return never_exceeds(lower, upper, torch.from_numpy(low), torch.from_numpy(high)).numpy()


@dataclass(frozen=True, eq=False)
class GradedOver:
    """A prediction by a formula."""

    graded: GradedFormula
    formula: Formula

    @cached_property
    def columns(self) -> Sequence[int]:
        return columns_of((self.formula,))

    def cuts(self, column: int) -> Sequence[float]:
        return ()

    def unsettled(self, low: Corners, high: Corners) -> Corners:
        return np.zeros_like(low)

    def says(self, x: Corners) -> tuple[Flags, Flags]:
        rows = self.graded(torch.from_numpy(x).float())
        return (rows > 0).numpy(), np.zeros(len(x), bool)

    def may(self, low: Corners, high: Corners) -> Flags:
        grading = Grading(self.graded.edges)
        least, most = (end.unsqueeze(1) for end in _bound(self.formula, low, high))
        grades = torch.arange(grading.classes)
        found = (grading(least) <= grades) & (grades <= grading(most)) & ~least.isnan()
        return found.numpy()

    def speaks(self, low: Corners, high: Corners) -> Flags:
        return ~_enclose(self.formula, low, high).undefined.numpy()

    def safe(self, low: Corners, high: Corners) -> Flags:
        return np.ones(len(low), bool)


def _enclose(formula: Formula, low: Corners, high: Corners) -> Interval:
    return enclose(formula.steps, torch.from_numpy(low), torch.from_numpy(high))


def _bound(formula: Formula, low: Corners, high: Corners) -> tuple[Tensor, Tensor]:
    found = _enclose(formula, low, high)
    return found.low, found.high


def _meets(ends: Sequence[tuple[float, float]], low: Corners, high: Corners) -> tuple[Flags, Flags]:
    """Whether spans touch the sides of boxes, and whether one holds them whole, (b,) each."""
    touched, inside = np.zeros(len(low), bool), np.zeros(len(low), bool)
    for first, last in ends:
        touched |= (first <= high) & (last >= low)
        inside |= (first <= low) & (last >= high)
    return touched, inside


def columns_of(formulas: Sequence[Formula]) -> list[int]:
    """The features that formulas use."""
    return sorted({s.column for f in formulas for s in f.steps if s.op == "column"})


def after_single(value: float) -> float:
    """The next number of single precision."""
    return min(float(np.nextafter(np.float32(value), np.float32(np.inf))), LARGEST_SINGLE)


def before_single(value: float) -> float:
    return max(float(np.nextafter(np.float32(value), np.float32(-np.inf))), -LARGEST_SINGLE)
