"""Knowledge about a number over the whole declared scope, and against measured rows.

To the logic of tables a number is a class: the line is cut at every end that a rule names and at
the bounds, into points and what lies between them, and a rule allows those that its outcome holds.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...answers import Bins, Line, Measured
from ...answers.scores import rmse
from ...core.still import without_gradient
from ...kernel.findings import Finding, Place, Severity
from ...kernel.schema import Schema
from ...kernel.sheets import Rule
from ..files import Document
from ..formulas.formula import Formula
from ..intervals import Between
from ..models import Knowledge
from ..policies import Conflict
from ..tables.numbers import IntervalTable, NumberTable
from ..tables.table import Table
from .arithmetic import gave_up, lint_formulas
from .logic import lint_tables
from .numbercross import NumberPairs, cross_numbers, pair_limits, rule_outcomes

_SEVERITY: dict[Conflict, Severity] = {
    "error": "error",
    "abstain": "warning",
    "project": "info",
}


@dataclass(frozen=True)
class NumberAudit:
    """Counts over one data set of measured numbers; None where it does not apply."""

    rows: int
    silent: int = 0  # rows on which the P-KM names no number, conflicts included
    conflicts: int = 0  # rows on which its number left the set
    outside: int = 0  # labels outside their set
    first_outside: int | None = None
    beyond: int = 0  # labels outside the bounds
    rmse: float | None = None  # of the P-KM where it speaks
    width: float | None = None  # mean length of the set
    span: float = 0.0  # of the bounds

    def __str__(self) -> str:
        parts = [f"{self.rows} rows"]
        if self.rmse is not None:
            parts.append(f"P-KM misses by {self.rmse:.4g} (RMSE), silent on {self.silent}")
        if self.conflicts:
            parts.append(f"P-KM outside the set on {self.conflicts}")
        if self.width is not None:
            parts.append(f"sets are {self.width:.4g} wide, the bounds {self.span:.4g}")
        if self.outside:
            parts.append(f"{self.outside} labels outside their set")
        if self.beyond:
            parts.append(f"{self.beyond} labels beyond the bounds")
        return "; ".join(parts)


def lint_numbers(
    document: Document, bins: Bins, points: Sequence[Any], ranges: Sequence[Any], place: Place
) -> list[Finding]:
    """Tables, formulas, and each against the other and the bounds, over the scope."""
    together = document.range.combine == "all"
    severity = _SEVERITY[document.conflict]
    found = _tables(points, ranges, document, bins)
    limits = [one for one in ranges if isinstance(one, Between)]
    formulas = [one for one in points if isinstance(one, Formula)]
    for formula in formulas:
        found += [
            f
            for f in lint_formulas(None, pair_limits(formula, None), place=place)
            if f.kind != "gave-up"
        ]
    for one in limits:
        found += lint_formulas(None, pair_limits(one.lower, one.upper), place=place)
        if document.range.empty == "error":
            found += _bounds(one, bins, place)
        for formula in formulas if together else ():
            found += _leaves(formula, one, severity, place)
    if together:
        empty = document.range.empty == "error"
        found += cross_numbers(points, ranges, outside=severity, empty=empty)
    return found


def _bounds(one: Between, bins: Bins, place: Place) -> Iterator[Finding]:
    """Formulas that leave no number of the bounds somewhere."""
    for lower, upper, end in (
        (one.lower, bins.upper, "above"),
        (bins.lower, one.upper, "below"),
    ):
        sides = [_fixed(side, one) for side in (lower, upper)]
        if all(isinstance(side, Formula) for side in sides):
            yield from _crossed(
                sides[0], sides[1], Finding("error", "empty-range", place, case=end)
            )


def _fixed(side: Any, one: Between) -> Any:
    schema = next(s.schema for s in (one.lower, one.upper) if isinstance(s, Formula))
    return Formula.parse(repr(side), schema) if isinstance(side, float) else side


def _crossed(lower: Formula, upper: Formula, refuted: Finding) -> Iterator[Finding]:
    """Where one formula exceeds another, said as the finding `refuted`, and what stayed open."""
    for found in lint_formulas(None, pair_limits(lower, upper), place=refuted.place):
        if found.kind == "empty-range":
            yield replace(refuted, counterexample=found.counterexample)
        elif found.kind == "gave-up":
            yield gave_up(refuted) if found.args["about"] == "empty-range/limits" else found


def _leaves(formula: Formula, one: Between, severity: Severity, place: Place) -> Iterator[Finding]:
    """Where what the expert names is not between the limits."""
    for lower, upper in ((one.lower, formula), (formula, one.upper)):
        if isinstance(lower, Formula) and isinstance(upper, Formula):
            yield from _crossed(lower, upper, Finding(severity, "outside-range", place))


def _tables(
    points: Sequence[Any], ranges: Sequence[Any], document: Document, bins: Bins
) -> list[Finding]:
    """The tables as tables of pieces of the line, and rules that say nothing within the bounds."""
    named = [one for one in points if isinstance(one, NumberTable)]
    limits = [one for one in ranges if isinstance(one, IntervalTable)]
    line = _cut(bins, [*map(rule_outcomes, named), *map(rule_outcomes, limits)])
    found = [finding for one in named for finding in _beyond(one, bins)]
    found += [finding for one in limits for finding in _beyond(one, bins)]
    first = [as_classes(one, line, document.schema) for one in named]
    second = [as_classes(one, line, document.schema) for one in limits]
    together = document.range.combine == "all" and document.range.empty == "error"
    found += lint_tables(first, second if together else ())
    for one in () if together else second:
        found += lint_tables((), (one,))
    severity = _SEVERITY[document.conflict]
    return [replace(f, severity=severity) if f.kind == "outside-range" else f for f in found]


def _cut(bins: Bins, outcomes: Sequence[Sequence[NumberPairs]]) -> list[tuple[float, float]]:
    """Points and what lies between them, from bound to bound."""
    ends = {end for some in outcomes for pairs in some for pair in pairs for end in pair}
    inner = sorted(end for end in ends if bins.lower < end < bins.upper)
    edges = [bins.lower, *inner, bins.upper]
    line = [(edges[0], edges[0])]
    for low, high in zip(edges, edges[1:], strict=False):
        line += [(low, high), (high, high)]
    return line


def as_classes(
    model: NumberTable | IntervalTable, line: Sequence[tuple[float, float]], schema: Schema
) -> Table:
    """The same rules about pieces of the line; the last class stands for all beyond the bounds."""
    names = [f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in line]
    apart = names if len(set(names)) == len(names) else [str(i) for i in range(len(names))]
    classes = (*apart, "beyond the bounds")
    held = [
        tuple(i for i, (a, b) in enumerate(line) if any(p <= a and b <= q for p, q in pairs))
        or (len(line),)
        for pairs in rule_outcomes(model)
    ]
    rules = tuple(replace(rule, outcome=held[rule.outcome[0]]) for rule in model.table.rules)
    return replace(model.table, schema=replace(schema, classes=classes), rules=rules)


def _beyond(model: NumberTable | IntervalTable, bins: Bins) -> Iterator[Finding]:
    pairs = rule_outcomes(model)
    for index, rule in enumerate(model.table.rules):
        inside = any(p <= bins.upper and bins.lower <= q for p, q in pairs[rule.outcome[0]])
        if not inside:
            text = model.table.schema.classes[rule.outcome[0]]
            yield Finding(
                "error",
                "beyond-bounds",
                rule.place if isinstance(rule, Rule) else Place(),
                {
                    "rule": model.table.label(index),
                    "text": text,
                    "lower": bins.lower,
                    "upper": bins.upper,
                },
            )


@without_gradient
def audit_numbers(numbers: Knowledge, data: Measured, bins: Bins) -> NumberAudit:
    """How well knowledge and measured numbers agree, counted."""
    lenient = replace(
        numbers, conflict="abstain" if numbers.conflict == "error" else numbers.conflict
    )
    told = lenient.annotate(data, Line(bins), training=False)
    out, said = told.missed, told.said
    y = data.numbers()
    spoken = None if said is None else ~said.isnan()
    heard = spoken is not None and bool(spoken.any())
    return NumberAudit(
        rows=len(data),
        silent=0 if spoken is None else int((~spoken).sum()),
        conflicts=told.conflicts,
        outside=int(out.sum()),
        first_outside=int(out.nonzero()[0]) if out.any() else None,
        beyond=int(((y < bins.lower) | (y > bins.upper)).sum()),
        rmse=rmse(said[spoken], y[spoken]) if heard and said is not None else None,
        width=None if told.sets is None else float(told.sets.length.mean()),
        span=bins.upper - bins.lower,
    )


def number_findings(
    numbers: Knowledge, audit: NumberAudit, data: Measured, bins: Bins, file: str
) -> Iterator[Finding]:
    """What measured rows say about the knowledge."""
    if audit.beyond:
        args = {"count": audit.beyond, "lower": bins.lower, "upper": bins.upper}
        yield Finding("error", "label-beyond", Place(file), args)
    if audit.outside:
        yield Finding(
            "error" if numbers.outside == "error" else "warning",
            "label-outside",
            Place(file, row=(audit.first_outside or 0) + 2),
            {"count": audit.outside, "policy": numbers.outside},
            "number",
        )
    if audit.conflicts:
        yield Finding(
            _SEVERITY[numbers.conflict],
            "outside-range",
            Place(file),
            {"count": audit.conflicts, "policy": numbers.conflict},
            "number-rows",
        )
    spread = float(data.numbers().std(correction=0)) if len(data) else math.nan
    if audit.rmse is not None and audit.rmse > spread:
        args = {"error": audit.rmse, "spread": spread}
        yield Finding("warning", "weak-expert", Place(file), args, "number")
