"""Tables against formulas, over the whole scope: a rule is a box on which the other must hold."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...core.tensors import torch
from ...kernel.findings import Finding, Severity
from ...kernel.knowledge import scope_of
from ...kernel.prove import stays_among, stays_between
from ...kernel.schema import Schema
from ...kernel.search import Scope, Verdict
from ...kernel.sheets import Rule
from ..bridge import tree_of
from ..formulas.formula import Formula
from ..formulas.grading import FormulaRange, GradedFormula
from ..tables.table import Table

BOXES_PER_RULE = 4_000  # boxes per rule
MOST_CROSSED = 500  # rules of one table
_MOST_BOXES = 64  # of one rule


@dataclass(frozen=True)
class RuleClash:
    """What may go wrong between a table and formulas."""

    kind: str
    severity: Severity
    about: Literal["classes", "numbers"]


_LEAVES = RuleClash("outside-range", "error", "classes")


def cross_check(
    predict: Sequence[Any], ranges: Sequence[Any], *, budget: int = BOXES_PER_RULE
) -> list[Finding]:
    """Where a table's prediction can leave a range of formulas, or a formula's a table's range.

    Two tables, or two formulas, are checked elsewhere. What a search suggests is only reported
    after the models themselves confirmed it on that very row.
    """
    findings: list[Finding] = []
    for expert, limits in itertools.product(predict, ranges):
        if isinstance(expert, Table) and _readable(limits):
            findings += _check(expert, expert, limits, budget)
        elif isinstance(limits, Table) and _readable(expert):
            findings += _check(limits, expert, limits, budget)
    return findings


def cross_rules(
    table: Table,
    look: Callable[[int], Iterable[Verdict]],  # what a search says of a rule
    confirm: Callable[[Sequence[float]], bool],  # whether the models themselves say so of a row
    clash: RuleClash,
) -> Iterator[Finding]:
    """One finding per rule of the table that goes wrong, and one for what was left open."""
    undecided: list[int] = []
    for index, rule in enumerate(table.rules[:MOST_CROSSED]):
        verdicts = list(look(index))
        rows = [v.example for v in verdicts if v.status == "refuted" and v.example]
        wrong = next((row for row in rows if confirm(row)), None)
        if wrong is not None:
            yield Finding(
                clash.severity,
                clash.kind,
                rule.place,
                {"rule": table.label(index)},
                "formula",
                counterexample=name_cells(table.schema, wrong),
            )
        elif any(v.status != "proved" for v in verdicts):
            undecided.append(index)
    open_ones = [*undecided, *range(MOST_CROSSED, len(table.rules))]
    if open_ones:
        rules = {"rules": table.labels(open_ones)}
        yield Finding("info", "gave-up", table.place, rules, clash.about)


def _check(table: Table, expert: Any, limits: Any, budget: int) -> Iterator[Finding]:
    def look(index: int) -> Iterator[Verdict]:
        rule = table.rules[index]
        return (_verdict(table, rule, b, expert, limits, budget) for b in rule_boxes(table, rule))

    return cross_rules(table, look, lambda row: _leaves(expert, limits, row), _LEAVES)


def _verdict(
    table: Table, rule: Rule, box: Scope, expert: Any, limits: Any, budget: int
) -> Verdict:
    if table is expert:
        edges, grade = np.array(limits.edges, np.float32), rule.outcome[0]
        number = edges[0] - 1 - abs(edges[0]) if grade == 0 else edges[grade - 1]
        sides = (tree_of(limits.lower), tree_of(limits.upper))
        return stays_between(("number", float(number)), sides, box, edges, budget)
    allowed = [grade in rule.outcome for grade in range(len(table.schema.classes))]
    edges = np.array(expert.edges, np.float32)
    return stays_among(expert.formula.tree, allowed, edges, box, budget)


def rule_boxes(table: Table, rule: Rule) -> list[Scope]:
    """The closed boxes that hold a rule's rows within the scope; their hull if they are many."""
    scope = scope_of(table.schema.features)
    whole = list(zip(scope.low.tolist(), scope.high.tolist(), strict=True))
    choices = [[side] for side in whole]
    for column, spans in rule.spans.items():
        low, high = whole[column]
        sides = [(max(a, low), min(b, high)) for a, b in spans]
        choices[column] = [(a, b) for a, b in sides if a <= b]
    count = 1
    for sides in choices:
        count *= len(sides)
    if count > _MOST_BOXES:
        choices = [[(sides[0][0], sides[-1][1])] for sides in choices]
    return [Scope.of(box, scope.levels) for box in itertools.product(*choices)]


def _leaves(expert: Any, limits: Any, row: Sequence[float]) -> bool:
    """Whether the models themselves disagree on a row; both speak for their whole file here."""
    x = torch.tensor([row], dtype=torch.float32)
    return bool(((expert(x) > 0) & ~limits(x)).any())


def _readable(model: Any) -> bool:
    if isinstance(model, GradedFormula):
        return isinstance(model.formula, Formula)
    if not isinstance(model, FormulaRange):
        return False
    return all(side is None or isinstance(side, Formula) for side in (model.lower, model.upper))


def name_cells(schema: Schema, row: Sequence[float]) -> dict[str, float | str]:
    return {
        feature.name: feature.levels[int(value)] if feature.levels else value
        for feature, value in zip(schema.features, row, strict=True)
    }
