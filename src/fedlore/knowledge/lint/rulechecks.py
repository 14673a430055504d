"""Faults of a decision table that show in its cells: doubles, scope, thresholds too close."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...kernel.cells import NumberSpans, Span, format_condition, number
from ...kernel.findings import Finding
from ..tables.table import Table
from .axes import axis_scope, holds_a_float


def check_cells(table: Table) -> Iterator[Finding]:
    """Everything that can be said without looking at two rules' overlap."""
    yield from _doubles(table)
    yield from _scope(table)
    yield from _close(table)
    for index, rule in enumerate(table.rules):
        if table.policy == "intersect" and len(rule.outcome) == len(table.schema.classes):
            yield Finding("info", "no-effect", rule.place, {"rule": table.label(index)})


def _doubles(table: Table) -> Iterator[Finding]:
    seen: dict[object, int] = {}
    for index, rule in enumerate(table.rules):
        before = seen.setdefault((rule.conditions, rule.outcome), index)
        if before != index:
            rules = {"rule": table.label(index), "before": table.label(before)}
            yield Finding("warning", "duplicate", rule.place, rules)


def _scope(table: Table) -> Iterator[Finding]:
    """Rules that no row inside the scope can satisfy, and thresholds beyond it, by column."""
    far: dict[int, list[int]] = {}
    for column, feature in enumerate(table.schema.features):
        start, stop = axis_scope(feature)
        for index, rule in enumerate(table.rules):
            condition = dict(rule.conditions).get(column)
            if not isinstance(condition, NumberSpans):
                continue
            spans = [Span(max(a, start), min(b, stop)) for a, b in condition.spans]
            if not any(span.start < span.stop and holds_a_float(span) for span in spans):
                args = {
                    "rule": table.label(index),
                    "feature": feature.name,
                    "cell": format_condition(condition, feature),
                    "low": number(feature.low),
                    "high": number(feature.high),
                }
                place = replace(rule.place, column=feature.name)
                yield Finding("warning", "outside-scope", place, args)
            elif any(
                not start <= end <= stop
                for span in condition.spans
                for end in span
                if math.isfinite(end.value)
            ):
                far.setdefault(column, []).append(index)
    for column, rules in far.items():
        name = table.schema.features[column].name
        place = replace(table.rules[rules[0]].place, column=name)
        args = {"feature": name, "rules": table.labels(rules)}
        yield Finding("info", "beyond-scope", place, args)


def _close(table: Table) -> Iterator[Finding]:
    """Thresholds that float32 data cannot tell apart; the other checks take them as they stand."""
    by_column: dict[int, set[float]] = {}
    for rule in table.rules:
        for column, condition in rule.conditions:
            if isinstance(condition, NumberSpans):
                ends = (end.value for span in condition.spans for end in span)
                by_column.setdefault(column, set()).update(ends)
    for column, found in sorted(by_column.items()):
        values = np.array(sorted(found))
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        for first in np.flatnonzero(single[1:] == single[:-1]).tolist():
            one, other = values[first : first + 2].tolist()
            place = replace(table.place, column=table.schema.features[column].name)
            args = {"one": number(one), "other": number(other)}
            yield Finding("warning", "same-in-float32", place, args)
