"""The sources of a file over the whole scope: each alone, in pairs, and as they act together.

Classes and numbers go one way: a class is a cell; the line is cut at every end that a rule names
and at the bounds, into points and what lies between them, and a rule allows those that its outcome
holds. What is no table or formula (a simulation, say) cannot be looked into.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...answers import Bins
from ...answers.axis import axis_of
from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.enclosure import Boxes
from ...kernel.expressions import Tree
from ...kernel.findings import Finding, Place, Severity
from ...kernel.graph.knowledge import see_rows
from ...kernel.graph.ops import Numpy
from ...kernel.knowledge import Known, scope_of
from ...kernel.prove import always_defined, ask_sources, leaves_range, stays_inside
from ...kernel.schema import Schema
from ...kernel.search import BUDGET, Scope, Verdict
from ...kernel.sheets import Rule
from ..formulas import (
    Formula,
    FormulaRange,
    GradedFormula,
    GradeEdges,
    SoftFormula,
    sides_of,
    tree_of,
)
from ..intervals import Between
from ..missing import allow, hear
from ..regions import never_crossed, never_reached, stays_among, stays_between
from ..tables.numbers import NumberTable
from ..tables.table import Table
from .tables import lint_tables

if TYPE_CHECKING:
    from torch import Tensor
from ...kernel.sources import Side


def source_of(model: object) -> Any | None:
    """A source about classes; None where nothing can be said of it over a scope."""
    return getattr(model, "kernel_source", None)


def known_of(
    schema: Schema,
    predict: Sequence[Any],
    ranges: Sequence[Any],
    *,
    alternatives: bool = False,
    empty: str = "error",
    averaged: bool = False,
) -> Known:
    """Sources of the kernel as they act together; `alternatives`: of the ranges one is enough."""
    combine = "average" if averaged else "first"
    return Known(
        tuple(schema.features),
        tuple(schema.classes),
        0.0,
        "abstain",
        Side(list(predict), combine, weights=(1.0,) * len(predict)),
        Side(list(ranges), "any" if alternatives else "all", empty),
    )


BOXES_PER_RULE = 4_000
MOST_CROSSED = 500  # rules of one table that are held against formulas
_MOST_BOXES = 64  # of one rule
_OUTSIDE = "outside-range"
_SEVERITY: dict[str, Severity] = {"error": "error", "abstain": "warning", "project": "info"}


@dataclass(frozen=True)
class Sources:
    """The sources of a file and how they act together, about classes or about a number."""

    schema: Schema
    predict: Sequence[Any]
    ranges: Sequence[Any]
    combine: str = "all"  # of the ranges: all must allow an answer, or any
    empty: str = "error"  # what happens where the ranges leave nothing
    averaged: bool = False  # all predictions speak, not the first one alone
    conflict: str = "abstain"  # what happens where the prediction leaves the range
    bins: Bins | None = None  # of a number

    @property
    def conflict_severity(self) -> Severity:
        """How bad it is that a prediction leaves the range."""
        return "error" if self.bins is None else _SEVERITY[self.conflict]

    @property
    def empty_severity(self) -> Severity:
        """How bad it is that the ranges leave nothing."""
        return "error" if self.empty == "error" else "info"

    @cached_property
    def line(self) -> list[tuple[float, float]]:
        """Of a number: points and what lies between them, from bound to bound."""
        assert self.bins is not None
        tables = [one for one in (*self.predict, *self.ranges) if _rules_in(one) is not None]
        pairs = [pair for one in tables for outcome in one.sets for pair in outcome]
        inner = {end for pair in pairs for end in pair if self.bins.lower < end < self.bins.upper}
        edges = [self.bins.lower, *sorted(inner), self.bins.upper]
        between = [piece for a, b in itertools.pairwise(edges) for piece in ((a, b), (b, b))]
        return [(edges[0], edges[0]), *between]

    def tables(self, models: Sequence[Any]) -> list[Table]:
        """The tables among some models; those of a number name pieces of the line."""
        found = [one for one in models if _rules_in(one) is not None]
        return found if self.bins is None else [self._cut(one) for one in found]

    def _cut(self, model: NumberTable) -> Table:
        """Rules about pieces of the line; the last class stands for all beyond the bounds."""
        names = [f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in self.line]
        apart = names if len(set(names)) == len(names) else [str(i) for i in range(len(names))]
        held = [
            tuple(
                i for i, (a, b) in enumerate(self.line) if any(p <= a and b <= q for p, q in pairs)
            )
            or (len(self.line),)
            for pairs in model.sets
        ]
        rules = tuple(replace(rule, outcome=held[rule.outcome[0]]) for rule in model.table.rules)
        schema = replace(self.schema, classes=(*apart, "beyond the bounds"))
        return replace(model.table, schema=schema, rules=rules)


def lint_sources(sources: Sources, place: Place) -> list[Finding]:
    """All that is wrong or odd in the sources of a file, over the whole declared scope."""
    found = [*_beyond_bounds(sources), *_tables(sources)]
    together = sources.combine == "all"
    formulas = [one for one in sources.predict if _formula_in(one) is not None]
    for one in formulas:
        found += lint_formula(one, place=place)
    for limits in sources.ranges:
        if hasattr(limits, "sides"):
            found += lint_limits(limits, place=place, bins=sources.bins, empty=sources.empty)
            for one in formulas if together else ():
                found += _between(sources, one, limits, place)
    if together:
        found += [*cross_rules(sources), *_limits_apart(sources, place)]
    return found if sources.bins is not None else _as_they_act(sources, found, place)


def lint_formula(
    model: GradedFormula | Formula, *, place: Place | None = None, budget: int = BUDGET
) -> list[Finding]:
    """Where a formula that predicts has no value, and classes that it never names."""
    formula, spot = _formula_in(model), place or Place()
    if formula is None:
        return []
    scope = scope_of(formula.schema.features)
    found = [_undefined(formula, "prediction", spot, budget)]
    if not model.edges:  # of a number
        return [one for one in found if one is not None and one.kind != "gave-up"]
    grading, edges = GradeEdges(model.edges), np.array(model.edges, np.float32)
    for grade, verdict in enumerate(never_reached(formula.tree, edges, scope, budget)):
        low, high = grading.interval(grade)
        args = {"name": formula.schema.classes[grade], "low": low, "high": high}
        unreached = Finding("warning", "unreached", spot, args)
        if verdict.status != "refuted":
            found.append(unreached if verdict.status == "proved" else undecided_claim(unreached))
    return [one for one in found if one is not None]


def lint_limits(
    limits: FormulaRange | Between,
    *,
    place: Place | None = None,
    bins: Bins | None = None,
    empty: str = "error",
    budget: int = BUDGET,
) -> list[Finding]:
    """Limits that have no value, cross each other, or lie beyond the bounds of a number."""
    spot, sides = place or Place(), zip(("lower", "upper"), limits.sides, strict=True)
    formulas = {name: side for name, side in sides if hasattr(side, "tree")}
    found = [_undefined(side, name, spot, budget) for name, side in formulas.items()]
    lower, upper = tree_of(limits.lower), tree_of(limits.upper)
    pairs: list[tuple[str, Tree | None, Tree | None]] = [("limits", lower, upper)]
    if bins is not None and empty == "error":
        pairs += [("above", lower, tree_of(bins.upper)), ("below", tree_of(bins.lower), upper)]
    for case, small, large in pairs if formulas else ():
        if small is not None and large is not None:
            schema = next(iter(formulas.values())).schema
            verdict = never_crossed(small, large, scope_of(schema.features), budget)
            refuted = Finding("error", "empty-range", spot, case=case)
            found.append(report_verdict(verdict, refuted, schema))
    return [one for one in found if one is not None]


def _undefined(formula: Formula, of: str, place: Place, budget: int) -> Finding | None:
    verdict = always_defined(formula.tree, scope_of(formula.schema.features), budget)
    args = {"formula": formula.text}
    return report_verdict(verdict, Finding("warning", "undefined", place, args, of), formula.schema)


def _between(
    sources: Sources, model: GradedFormula | Formula, limits: FormulaRange | Between, place: Place
) -> list[Finding]:
    """Where a formula that predicts leaves the limits of a range."""
    formula, sides = _formula_in(model), sides_of(limits)
    if formula is None or sides is None:
        return []
    if limits.edges != model.edges:
        raise KnowledgeError(
            f"prediction and range must have the same edges, got {model.edges} and {limits.edges}"
        )
    edges = np.array(model.edges, np.float32) if model.edges else None
    scope, pair = scope_of(sources.schema.features), (tree_of(sides[0]), tree_of(sides[1]))
    asked = [pair] if edges is not None else [(pair[0], None), (None, pair[1])]
    refuted = Finding(sources.conflict_severity, _OUTSIDE, place)
    verdicts = [stays_between(formula.tree, one, scope, edges) for one in asked if any(one)]
    found = [report_verdict(verdict, refuted, sources.schema) for verdict in verdicts]
    return [one for one in found if one is not None]


def _tables(sources: Sources) -> list[Finding]:
    """The tables: each alone, ranges together where all of them count, predictions inside those."""
    named, limits = sources.tables(sources.predict), sources.tables(sources.ranges)
    together = sources.combine == "all"
    found = lint_tables(named, limits if together else ())
    for one in () if together else limits:
        found += lint_tables((), (one,))
    severity = {_OUTSIDE: sources.conflict_severity, "empty-range": sources.empty_severity}
    found = [replace(f, severity=severity.get(f.kind, f.severity)) for f in found]
    if sources.bins is None or sources.empty == "error":
        return found
    return [f for f in found if f.kind != _OUTSIDE]  # where ranges clash, all numbers are allowed


def _beyond_bounds(sources: Sources) -> Iterator[Finding]:
    """Rules that say nothing within the bounds of a number."""
    for model in (*sources.predict, *sources.ranges):
        if sources.bins is None or _rules_in(model) is None:
            continue
        low, high = sources.bins.lower, sources.bins.upper
        for index, rule in enumerate(model.table.rules):
            if not any(p <= high and low <= q for p, q in model.sets[rule.outcome[0]]):
                text = model.table.schema.classes[rule.outcome[0]]
                args = {"rule": model.table.label(index), "text": text, "lower": low, "upper": high}
                yield Finding("error", "beyond-bounds", rule.place, args)


def _limits_apart(sources: Sources, place: Place) -> Iterator[Finding]:
    """Where the lower limit of one range of a number lies above the upper one of another."""
    limits = [m for m in sources.ranges if hasattr(m, "sides")] if sources.bins is not None else []
    finding = Finding(sources.empty_severity, "empty-range", place, case="limits")
    for one, other in itertools.permutations(limits, 2):
        lower, upper = tree_of(one.lower), tree_of(other.upper)
        if lower is not None and upper is not None:
            verdict = never_crossed(lower, upper, scope_of(sources.schema.features), BUDGET)
            found = report_verdict(verdict, finding, sources.schema)
            yield from [] if found is None else [found]


def cross_rules(sources: Sources) -> Iterator[Finding]:
    """Where rules and formulas do not fit each other: a rule is a box on which the other must hold.

    Two tables, or two formulas, are checked elsewhere. What a search suggests is only reported
    after the models themselves confirmed it on that very row.
    """
    for expert, limits in itertools.product(sources.predict, sources.ranges):
        finding = Finding(sources.conflict_severity, _OUTSIDE)
        if _rules_in(expert) is not None and sides_of(limits) is not None:
            yield from _cross(expert, limits, finding, partial(_leaves_range, expert, limits))
        elif _rules_in(limits) is not None and _formula_in(expert) is not None:
            yield from _cross(limits, expert, finding, partial(_leaves_range, expert, limits))
    numbers = sources.ranges if sources.bins is not None else ()
    for one, other in itertools.product(numbers, numbers):
        if _rules_in(one) is not None and hasattr(other, "sides"):
            finding = Finding(sources.empty_severity, "empty-range")
            yield from _cross(one, other, finding, partial(_leaves_nothing, one, other))


def _cross(
    model: Any, other: Any, refuted: Finding, wrong: Callable[[Tensor], bool]
) -> Iterator[Finding]:
    """One finding per rule of a table that goes wrong, and one for what was left open."""
    table = _rules_in(model)
    assert table is not None
    undecided: list[int] = []
    for index, rule in enumerate(table.rules[:MOST_CROSSED]):
        verdicts = [
            verdict
            for box in _rule_boxes(table, rule)
            for verdict in _rule_claims(model, rule, other, box)
        ]
        rows = [v.example for v in verdicts if v.status == "refuted" and v.example]
        row = next((row for row in rows if wrong(torch.tensor([row], dtype=torch.float32))), None)
        if row is not None:
            args, named = {"rule": table.label(index)}, name_row(table.schema, row)
            yield replace(
                refuted, place=rule.place, args=args, case="formula", counterexample=named
            )
        elif any(v.status != "proved" for v in verdicts):
            undecided.append(index)
    open_ones = [*undecided, *range(MOST_CROSSED, len(table.rules))]
    if open_ones:
        about = "classes" if other.edges else "numbers"
        yield Finding("info", "gave-up", table.place, {"rules": table.labels(open_ones)}, about)


def _rule_claims(model: Any, rule: Rule, other: Any, box: Scope) -> Iterator[Verdict]:
    """What must hold between a rule and formulas on the rule's box."""
    if other.edges:  # of classes
        edges, formula = np.array(other.edges, np.float32), _formula_in(other)
        if formula is not None:
            fine = [grade in rule.outcome for grade in range(len(edges) + 1)]
            yield stays_among(formula.tree, fine, edges, box, BOXES_PER_RULE)
            return
        grade = rule.outcome[0]
        number = edges[0] - 1 - abs(edges[0]) if grade == 0 else edges[grade - 1]
        sides = (tree_of(other.lower), tree_of(other.upper))
        yield stays_between(("number", float(number)), sides, box, edges, BOXES_PER_RULE)
        return
    pairs = model.sets[rule.outcome[0]]
    least, most = min(low for low, _ in pairs), max(high for _, high in pairs)
    lower, upper = map(tree_of, other.sides)
    if lower is not None and math.isfinite(most):
        yield never_crossed(lower, ("number", most), box, BOXES_PER_RULE)
    if upper is not None and math.isfinite(least):
        yield never_crossed(("number", least), upper, box, BOXES_PER_RULE)


def _leaves_range(expert: Any, limits: Any, x: Tensor) -> bool:
    """Whether the models themselves say of a row that the prediction leaves the range."""
    try:
        said, allowed = hear(expert, x), allow(limits, x)
    except KnowledgeError:  # limits that cross: said elsewhere
        return False
    return bool(axis_of(said).find_conflicts(said, allowed).any())


def _leaves_nothing(one: Any, other: Any, x: Tensor) -> bool:
    """Whether two ranges leave a row no number."""
    try:
        return bool(allow(one, x).meet(allow(other, x)).empty.any())
    except KnowledgeError:
        return False


def _rule_boxes(table: Table, rule: Rule) -> list[Scope]:
    """The boxes that hold a rule's rows within the scope; their hull if they are many."""
    scope = scope_of(table.schema.features)
    whole = list(zip(scope.low.tolist(), scope.high.tolist(), strict=True))
    choices = [[side] for side in whole]
    for column, spans in rule.spans.items():
        low, high = whole[column]
        sides = [(max(a, low), min(b, high)) for a, b in spans]
        choices[column] = [(a, b) for a, b in sides if a <= b]
    if math.prod(map(len, choices)) > _MOST_BOXES:
        choices = [[(sides[0][0], sides[-1][1])] for sides in choices]
    return [Scope.of(box, scope.levels) for box in itertools.product(*choices)]


def _as_they_act(sources: Sources, found: list[Finding], place: Place) -> list[Finding]:
    """What was found of pairs, held against the whole, and what only the whole shows."""
    parts = [*_whole_prediction(sources, found, place), _whole_range(sources, place)]
    return [finding for finding in parts if finding is not None]


def never_apart(known: Known, budget: int) -> Verdict:
    """Whether all ranges share a class in every row of the scope, whatever `empty` says."""
    sources = known.range.sources

    def broken(x: Any) -> Any:
        with np.errstate(all="ignore"):
            view = see_rows(Numpy(x), known)
            rows = [view.answer(source).rows for source in sources]
        return ~np.all(rows, axis=0).any(1)

    def holds(boxes: Boxes) -> Any:
        return np.all([source.sure(boxes) for source in sources], axis=0).any(1)

    return ask_sources(known, holds, broken, sources, budget)


def _whole_range(sources: Sources, place: Place) -> Finding | None:
    """Ranges that exclude each other; tables alone are decided elsewhere."""
    tables = all(_rules_in(model) is not None for model in sources.ranges)
    if sources.combine == "any" or len(sources.ranges) < 2 or tables:
        return None
    finding = Finding(sources.empty_severity, "empty-range", place, case=sources.empty)
    seen = [source_of(model) for model in sources.ranges]
    for model, one in zip(sources.ranges, seen, strict=True):
        if one is None:
            return undecided_claim(finding, model)
    known = known_of(sources.schema, (), seen)
    return report_verdict(never_apart(known, BUDGET), finding, sources.schema)


def _whole_prediction(
    sources: Sources, found: list[Finding], place: Place
) -> Iterator[Finding | None]:
    """The prediction against the range: what pairs suggest counts only if the whole does it."""
    both = [*sources.predict, *sources.ranges]
    soft = any(isinstance(model, SoftFormula) for model in sources.predict)
    if not sources.predict or not sources.ranges or (soft and sources.conflict != "error"):
        yield from found
        return
    finding = Finding("error", _OUTSIDE, place)
    odd = [model for model in both if source_of(model) is None]
    if odd or len(both) == 2:  # two are held against each other elsewhere
        yield from found
        yield undecided_claim(finding, odd[0]) if odd else None
        return
    known = known_of(
        sources.schema,
        [source_of(model) for model in sources.predict],
        [source_of(model) for model in sources.ranges],
        alternatives=sources.combine == "any",
        empty=sources.empty,
        averaged=sources.averaged,
    )
    kept = [f for f in found if f.kind != _OUTSIDE or _leaves(known, f.counterexample)]
    yield from kept
    if not any(f.kind == _OUTSIDE for f in kept):
        yield report_verdict(stays_inside(known, BUDGET), finding, sources.schema)


def _leaves(known: Known, row: Mapping[str, float | str]) -> bool:
    """Whether the whole leaves the range in a row that a pair was found to leave it."""
    values = [
        float(feature.levels.index(str(row[feature.name])))
        if feature.levels
        else float(row[feature.name])
        for feature in known.columns
    ]
    return bool(leaves_range(known, np.array([values], np.float32))[0])


def report_verdict(verdict: Verdict, refuted: Finding, schema: Schema) -> Finding | None:
    """What a verdict means to an expert: nothing, a row that shows it, or that it is open."""
    if verdict.status == "proved":
        return None
    if verdict.example is None:
        return undecided_claim(refuted)
    return replace(refuted, counterexample=name_row(schema, verdict.example))


def undecided_claim(open_one: Finding, odd: object = None) -> Finding:
    """What could not be decided, for want of boxes or because a model cannot be looked into."""
    about = f"{open_one.kind}/{open_one.case}" if open_one.case else open_one.kind
    args = {**open_one.args, "about": about}
    if odd is None:
        return Finding("info", "gave-up", open_one.place, args, "boxes")
    args["model"] = type(odd).__name__
    return Finding("info", "gave-up", open_one.place, args, "model")


def name_row(schema: Schema, row: Sequence[float]) -> dict[str, float | str]:
    """A row as an expert would write it: levels by name."""
    return {
        feature.name: feature.levels[round(value)] if feature.levels else value
        for feature, value in zip(schema.features, row, strict=True)
    }


def _formula_in(model: object) -> Formula | None:
    """The formula that a prediction is made by."""
    sides = sides_of(model) or (None, None)
    return sides[0] if sides[0] is sides[1] else None


def _rules_in(model: object) -> Table | None:
    """The table that a model is made of."""
    return None if getattr(model, "confidences", ()) else getattr(model, "table", None)
