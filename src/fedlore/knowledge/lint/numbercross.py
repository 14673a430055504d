"""Tables of numbers against formulas, over the whole scope: a rule is a box with room for both."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.findings import Finding, Severity
from ...kernel.prove import stays_between
from ...kernel.search import Verdict
from ..formulas.formula import Formula
from ..formulas.grading import FormulaRange
from ..intervals import Between
from ..missing import allow, hear
from ..tables.numbers import IntervalTable, NumberTable
from .crosschecks import BOXES_PER_RULE, RuleClash, cross_rules, rule_boxes

if TYPE_CHECKING:
    from torch import Tensor

NumberPairs = tuple[tuple[float, float], ...]
_NumberRules = NumberTable | IntervalTable


def cross_numbers(
    points: Sequence[Any], ranges: Sequence[Any], *, outside: Severity, empty: bool
) -> list[Finding]:
    """Where a table and formulas leave no number between them, or a prediction leaves the range.

    `outside` is how bad the latter is; `empty` whether the former is asked about. What a search
    suggests is only reported after the models themselves confirmed it on that very row.
    """
    found: list[Finding] = []
    left = RuleClash("outside-range", outside, "numbers")
    for point, limits in itertools.product(points, ranges):
        if isinstance(point, NumberTable) and isinstance(limits, Between):
            found += _check(point, (limits.lower, limits.upper), left, _Pair(point, limits, _left))
        elif isinstance(point, Formula) and isinstance(limits, IntervalTable):
            found += _check(limits, (point, point), left, _Pair(point, limits, _left))
    none = RuleClash("empty-range", "error", "numbers")
    for table, limits in itertools.product(ranges, ranges) if empty else ():
        if isinstance(table, IntervalTable) and isinstance(limits, Between):
            found += _check(table, (limits.lower, limits.upper), none, _Pair(table, limits, _empty))
    return found


def pair_limits(lower: Any, upper: Any) -> FormulaRange:
    """Two formulas as limits; where classes end does not matter to whether they cross."""
    schema = next(s.schema for s in (lower, upper) if isinstance(s, Formula))
    return FormulaRange(lower, upper, tuple(map(float, range(len(schema.classes) - 1))))


def rule_outcomes(model: _NumberRules) -> list[NumberPairs]:
    """What each outcome of a table names, as closed intervals."""
    if isinstance(model, NumberTable):
        return [((value, value),) for value in model.values]
    return list(model.sets)


@dataclass(frozen=True)
class _Pair:
    """Two models, and how they themselves say of a row that it goes wrong."""

    one: Any
    other: Any
    wrong: Callable[[Any, Any, Tensor], bool]

    def confirm(self, row: Sequence[float]) -> bool:
        try:
            return self.wrong(self.one, self.other, torch.tensor([row], dtype=torch.float32))
        except KnowledgeError:  # limits that cross: told elsewhere
            return False


def _check(
    model: _NumberRules, sides: tuple[Any, Any], clash: RuleClash, both: _Pair
) -> Iterator[Finding]:
    table, outcomes = model.table, rule_outcomes(model)

    def look(index: int) -> Iterator[Verdict]:
        return _verdicts(model, index, outcomes[table.rules[index].outcome[0]], sides)

    return cross_rules(table, look, both.confirm, clash)


def _verdicts(
    model: _NumberRules, index: int, pairs: NumberPairs, sides: tuple[Any, Any]
) -> Iterator[Verdict]:
    """Whether the lower side exceeds all that a rule names anywhere, or the upper side none."""
    least, most = min(low for low, _ in pairs), max(high for _, high in pairs)
    for box in rule_boxes(model.table, model.table.rules[index]):
        for side, end, below in ((sides[0], most, True), (sides[1], least, False)):
            if isinstance(side, Formula) and math.isfinite(end):
                pair = (side.tree, None) if below else (None, side.tree)
                yield stays_between(("number", end), pair, box, budget=BOXES_PER_RULE)


def _left(point: Any, limits: Any, x: Tensor) -> bool:
    said = hear(point, x)
    return bool((said.isfinite() & ~allow(limits, x).holds(said)).any())


def _empty(one: Any, other: Any, x: Tensor) -> bool:
    return bool(allow(one, x).meet(allow(other, x)).empty.any())
