"""Tables as rows of single precision see them: every threshold rounded as the data were."""

import math
from dataclasses import replace

import numpy as np

from ...kernel.schema import Schema
from ..tables.cells import START, STOP, Condition, Cut, NumberSpans, Span
from ..tables.table import Rule, Table

LARGEST_SINGLE = float(np.finfo(np.float32).max)


def round_single(value: float) -> float:
    """The nearest number of single precision, infinite beyond the largest."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def scope_box(schema: Schema) -> tuple[tuple[float, float], ...]:
    """The scope as single precision has it; rows that are not finite are outside of it."""
    return tuple(
        (0.0, len(feature.levels) - 1.0)
        if feature.levels
        else (
            max(round_single(feature.low), -LARGEST_SINGLE),
            min(round_single(feature.high), LARGEST_SINGLE),
        )
        for feature in schema.features
    )


def single_table(table: Table) -> Table | None:
    """The table with rounded thresholds and scope; None where no rule is left that could hit."""
    rules = [rule for rule in map(_rule, table.rules) if rule is not None]
    if not rules:
        return None
    box = scope_box(table.schema)
    features = tuple(
        feature if feature.levels or low == high else replace(feature, low=low, high=high)
        for feature, (low, high) in zip(table.schema.features, box, strict=True)
    )
    return replace(table, schema=replace(table.schema, features=features), rules=tuple(rules))


def _rule(rule: Rule) -> Rule | None:
    conditions: list[tuple[int, Condition]] = []
    for column, condition in rule.conditions:
        if isinstance(condition, NumberSpans):
            spans = _spans(condition.spans)
            if not spans:
                return None
            condition = NumberSpans(spans)
        conditions.append((column, condition))
    return replace(rule, conditions=tuple(conditions))


def _spans(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """The spans between rounded cuts; those that touch are one, those that are empty gone."""
    joined: list[Span] = []
    for start, stop in (Span(_cut(a), _cut(b)) for a, b in spans):
        if start >= stop:
            continue
        if joined and start <= joined[-1].stop:
            joined[-1] = Span(joined[-1].start, max(joined[-1].stop, stop))
        else:
            joined.append(Span(start, stop))
    return tuple(joined)


def _cut(cut: Cut) -> Cut:
    if cut in (START, STOP):
        return cut
    value = round_single(cut.value)
    if math.isinf(value):  # beyond every finite number
        return Cut(LARGEST_SINGLE, True) if value > 0 else Cut(-LARGEST_SINGLE, False)
    return Cut(value, cut.after)
