"""Faults of a decision table that show in its cells: doubles, scope, thresholds too close."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from .axes import Axis, scope
from .cells import START, STOP, Condition, Levels, Numbers, format_condition, number
from .findings import Finding, Place
from .tables import Table


def check_cells(table: Table) -> Iterator[Finding]:
    """Everything that can be said without looking at two rules' overlap."""
    yield from _doubles(table)
    yield from _scope(table)
    yield from _close(table)
    for index, rule in enumerate(table.rules):
        if table.policy == "intersect" and len(rule.outcome) == len(table.schema.classes):
            yield Finding(
                "info",
                "no-effect",
                f"{table.label(index)} allows every class, so it narrows nothing",
                rule.place,
                suggestion="delete it, or name fewer classes",
            )


def _doubles(table: Table) -> Iterator[Finding]:
    seen: dict[object, int] = {}
    for index, rule in enumerate(table.rules):
        before = seen.setdefault((rule.conditions, rule.outcome), index)
        if before != index:
            yield Finding(
                "warning",
                "duplicate",
                f"{table.label(index)} repeats {table.label(before)}",
                rule.place,
                suggestion="delete one of the two",
            )


def _scope(table: Table) -> Iterator[Finding]:
    """Rules that no row inside the scope can satisfy, and thresholds beyond it."""
    features = table.schema.features
    seen: dict[tuple[int, Condition], str] = {}
    for index, rule in enumerate(table.rules):
        for column, condition in rule.conditions:
            feature = features[column]
            if isinstance(condition, Levels):
                continue
            key = (column, condition)
            if key not in seen:
                start, stop = scope(feature)
                ends = {end for span in condition.spans for end in span} - {START, STOP}
                far = not all(start <= end <= stop for end in ends)
                empty = not Axis.of(feature, [condition]).runs(condition)
                seen[key] = "outside-scope" if empty else "beyond-scope" if far else ""
            if not seen[key]:
                continue
            low, high = number(feature.low), number(feature.high)
            cell = f"'{feature.name}' {format_condition(condition, feature)}"
            where = Place(rule.place.file, rule.place.sheet, rule.place.row, feature.name)
            if seen[key] == "beyond-scope":
                message = f"{cell} reaches beyond the scope {low}..{high}"
                yield Finding("info", "beyond-scope", message, where)
            else:
                yield Finding(
                    "warning",
                    "outside-scope",
                    f"{table.label(index)} never applies: {cell} lies outside the scope "
                    f"{low}..{high}",
                    where,
                    suggestion="check the number and its unit, or widen the declared scope",
                )


def _close(table: Table) -> Iterator[Finding]:
    """Thresholds that float32 data cannot tell apart; the other checks take them as they stand."""
    by_column: dict[int, set[float]] = {}
    for rule in table.rules:
        for column, condition in rule.conditions:
            if isinstance(condition, Numbers):
                values = (end.value for span in condition.spans for end in span)
                by_column.setdefault(column, set()).update(values)
    for column, found in sorted(by_column.items()):
        for one, other in pairwise(sorted(found)):
            with np.errstate(over="ignore"):
                same = np.float32(one) == np.float32(other)
            if same:
                name = table.schema.features[column].name
                yield Finding(
                    "warning",
                    "same-in-float32",
                    f"{number(one)} and {number(other)} are one number in single precision",
                    Place(table.name, column=name),
                    suggestion="use one of the two, or keep the data in float64",
                )
