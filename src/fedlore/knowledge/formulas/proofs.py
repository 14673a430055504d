"""What can be said of formulas over their whole declared scope, without data.

Each question is answered proved, refuted with a row, or unknown once the budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.schema import Schema
from .enclosure import Enclosure, Region, check_box, enclose, scope
from .formula import Formula
from .grading import FormulaRange, GradedFormula, Grading
from .intervals import Interval
from .linear import join_linear, keeps_order, least_gap
from .search import BUDGET, Verdict, decide_claim, first, points

if TYPE_CHECKING:
    from torch import Tensor

_LARGEST = (2 - 2**-23) * 2.0**127  # of float32
# how far min and max are taken apart: each level multiplies the work by their arguments
_DEEPEST, _WIDEST = 3, 6


def always_defined(formula: Formula, box: Region | None = None, *, budget: int = BUDGET) -> Verdict:
    """Whether a formula has a value in every row of the box (default: the scope)."""

    def holds(low: Tensor, high: Tensor) -> Tensor:
        return ~enclose(formula.steps, low, high).undefined

    def broken(x: Tensor) -> Tensor:
        return ~formula(x).isfinite()

    box = _box(formula.schema, box)
    return _decide(holds, broken, box, (formula,), budget)


def never_reached(
    graded: GradedFormula, box: Region | None = None, *, budget: int = BUDGET
) -> tuple[Verdict, ...]:
    """For each class whether no row of the box gets it; a refuted one comes with such a row."""
    formula = _formula(graded.formula)
    grading = Grading(graded.edges)
    box = _box(formula.schema, box)
    tried = points(box, _numbers(formula))

    def gets(grade: int, x: Tensor) -> Tensor:
        values = formula(x.float())
        return (grading(values) == grade) & values.isfinite()

    def verdict(grade: int) -> Verdict:
        found = first(partial(gets, grade), tried, box)
        if found is not None:
            return Verdict("refuted", found)
        others = [True] * grading.classes
        others[grade] = False
        return stays_within(graded, others, box, budget=budget)

    return tuple(verdict(grade) for grade in range(grading.classes))


def stays_within(
    graded: GradedFormula,
    allowed: FormulaRange | Sequence[bool],
    box: Region | None = None,
    *,
    budget: int = BUDGET,
) -> Verdict:
    """Whether a graded formula stays inside a range all over the box (the paper's Assumption).

    The range is another pair of formulas, or one fixed set of classes: a rule of a table is that
    on its box.
    """
    formula = _formula(graded.formula)
    box = _box(formula.schema, box)
    grading = Grading(graded.edges)
    if not isinstance(allowed, FormulaRange):
        return _stays_in_set(formula, grading, allowed, box, budget)
    if allowed.edges != graded.edges:
        raise KnowledgeError(
            f"prediction and range must have the same edges, got {graded.edges} and {allowed.edges}"
        )
    lower = None if allowed.lower is None else _formula(allowed.lower)
    upper = None if allowed.upper is None else _formula(allowed.upper)
    _same_schema(formula, lower, upper)
    pairs = ([] if lower is None else [(lower, formula)]) + (
        [] if upper is None else [(formula, upper)]
    )

    def holds(low: Tensor, high: Tensor) -> Tensor:
        inside = torch.ones(len(low), dtype=torch.bool)
        for small, large in pairs:
            inside &= never_exceeds(small, large, low, high, grading)
        return inside

    def broken(x: Tensor) -> Tensor:
        low, high = allowed.limits(x)
        number = formula(x)
        grade = grading(number)
        left = (grade < grading(low)) | (grade > grading(high))
        return left & number.isfinite()

    return _decide(holds, broken, box, [one for pair in pairs for one in pair], budget)


def always(schema: Schema, grade: int, edges: Sequence[float]) -> GradedFormula:
    """A prediction that is the same everywhere: a rule of a table is that on its box."""
    if not 0 <= grade <= len(edges):
        raise KnowledgeError(f"a class must lie in 0 to {len(edges)}, got {grade}")
    value = edges[0] - 1 - abs(edges[0]) if grade == 0 else edges[grade - 1]
    text = f"-{-value!r}" if value < 0 else repr(value)
    return GradedFormula(Formula.parse(text, schema), tuple(edges))


def never_crossed(
    limits: FormulaRange, box: Region | None = None, *, budget: int = BUDGET
) -> Verdict:
    """Whether the lower formula nowhere exceeds the upper one, so that no range is empty."""
    if limits.lower is None or limits.upper is None:
        return Verdict("proved")
    lower, upper = _formula(limits.lower), _formula(limits.upper)
    _same_schema(lower, upper)

    def holds(low: Tensor, high: Tensor) -> Tensor:
        return never_exceeds(lower, upper, low, high)

    def broken(x: Tensor) -> Tensor:
        return limits.cross(x)

    box = _box(lower.schema, box)
    return _decide(holds, broken, box, (lower, upper), budget)


def _stays_in_set(
    formula: Formula, grading: Grading, allowed: Sequence[bool], box: Region, budget: int
) -> Verdict:
    if len(allowed) != grading.classes:
        raise KnowledgeError(
            f"the set must say yes or no to {grading.classes} classes, got {len(allowed)}"
        )
    fine = torch.tensor(tuple(allowed), dtype=torch.bool)
    # how many forbidden classes lie before each one: none between two is a difference of 0
    before = torch.cat([torch.zeros(1, dtype=torch.int64), (~fine).cumsum(0)])

    def holds(low: Tensor, high: Tensor) -> Tensor:
        found = enclose(formula.steps, low, high)
        first, last = grading(found.low), grading(found.high)
        return (before[last + 1] == before[first]) | found.low.isnan()

    def broken(x: Tensor) -> Tensor:
        value = formula(x)
        return ~fine[grading(value)] & value.isfinite()

    return _decide(holds, broken, box, (formula,), budget)


def _decide(
    holds: Callable[[Tensor, Tensor], Tensor],
    broken: Callable[[Tensor], Tensor],
    box: Region,
    formulas: Sequence[Formula],
    budget: int,
) -> Verdict:
    columns = {s.column for formula in formulas for s in formula.steps if s.op == "column"}
    hints = _numbers(*formulas)

    def broken_single(x: Tensor) -> Tensor:
        return broken(x.float())  # rows come in it

    return decide_claim(
        holds, broken_single, box=box, columns=sorted(columns), hints=hints, budget=budget
    )


def never_exceeds(
    small: Formula, large: Formula, low: Tensor, high: Tensor, grading: Grading | None = None
) -> Tensor:
    """In which boxes one formula never exceeds another, or never by a whole class, (b,) bool."""
    steps, (one, other) = join_linear(small, large)
    return _order(Enclosure(steps, low, high), one, other, grading)


def _order(
    over: Enclosure, small: int, large: int, grading: Grading | None, depth: int = 0
) -> Tensor:
    """In which boxes one step never exceeds another, or never by a whole class.

    The structure helps: small <= min(a, b) needs both, small <= max(a, b) either.
    """
    if small == large:
        return torch.ones(len(over.low), dtype=torch.bool)
    sure = least_gap(over, small, large) >= 0
    a, b = over.number(small), over.number(large)
    sure |= _below(a, b, grading) | a.low.isnan() | b.low.isnan()
    if depth == _DEEPEST or bool(sure.all()):
        return sure
    for place, is_large in ((large, True), (small, False)):
        step = over.steps[place]
        if step.op in ("min", "max") and len(step.args) <= _WIDEST:
            pairs = [(small, arg) if is_large else (arg, large) for arg in step.args]
            parts = torch.stack([_order(over, *pair, grading, depth + 1) for pair in pairs])
            sure |= parts.all(0) if (step.op == "min") == is_large else parts.any(0)
    return sure | keeps_order(over, small, large)


def _below(a: Interval, b: Interval, grading: Grading | None) -> Tensor:
    if grading is None:
        return a.high <= b.low
    return (a.high <= b.low) | (grading(a.high) <= grading(b.low))


def _formula(number: object) -> Formula:
    if not isinstance(number, Formula):
        raise KnowledgeError(
            f"only formulas can be examined over their scope, got {type(number).__name__}"
        )
    return number


def _box(schema: Schema, box: Region | None) -> Region:
    """The box, as far as rows of single precision go."""
    sides = scope(schema) if box is None else check_box(box, schema)
    return tuple((max(low, -_LARGEST), min(high, _LARGEST)) for low, high in sides)


def _numbers(*formulas: Formula) -> list[float]:
    found = {s.value for formula in formulas for s in formula.steps if s.op == "number"}
    return sorted(found | {-value for value in found})


def _same_schema(*formulas: Formula | None) -> None:
    schemas = [formula.schema for formula in formulas if formula is not None]
    if any(schema != schemas[0] for schema in schemas):
        raise KnowledgeError("prediction and range must have the same schema")
