"""A decision table as nodes: columns into buckets, buckets into hits, hits into classes."""

from typing import NamedTuple

import numpy as np

from ..cells import before
from ..sources import Table
from .ops import INT64, SINGLE, Array, Ops, Value


class Answer(NamedTuple):
    """Rows of a prediction (float32) or a range (bool), (n, k), and where they are refused."""

    rows: Value
    refused: Value | None = None  # (n, 1), or never


def answer_table(o: Ops, x: Value, table: Table, holes: bool) -> Answer:
    """What a table says of rows x, float32 (n, d); with `holes` some values may be missing."""
    hits = hit_rules(o, x, table)
    if holes and table.policy != "intersect":
        return _answer_perhaps(o, x, table, hits)
    if table.policy in ("first", "priority"):
        which = o.op("ArgMax", hits, axis=1, keepdims=0)  # the first of equal ones
        row = o.op("Gather", o.constant(table.named, SINGLE), which, axis=0)
        return Answer(o.op("Mul", row, o.op("ReduceMax", hits, axes=[1], keepdims=1)))
    if table.policy == "intersect":
        allowed = o.op("Not", _named(o, hits, ~table.named))
        return Answer(allowed, o.op("Not", o.any(allowed)))
    named = _named(o, hits, table.named)
    if table.policy == "union":
        return Answer(o.op("Or", named, o.op("Not", o.any(named))))
    rows = o.cast(named, SINGLE)
    return Answer(rows, o.op("Greater", o.total(rows), o.constant(1.0)))


def _answer_perhaps(o: Ops, x: Value, table: Table, hits: Value) -> Answer:
    """The same where rules on missing values may hit or not."""
    may_hit = hit_rules(o, x, table, perhaps=True)
    if table.policy in ("first", "priority"):  # behind a sure rule none can speak
        count = o.op("CumSum", hits, o.constant(1, INT64))
        may_hit = o.op("Mul", may_hit, o.cast(o.op("Equal", count, hits), SINGLE))
    named, some = _named(o, may_hit, table.named), o.any(hits)
    if table.policy == "union":
        return Answer(o.op("Or", named, o.op("Not", some)))
    one = o.op("Equal", o.total(o.cast(named, SINGLE)), o.constant(1.0))
    rows = o.cast(o.op("And", named, o.op("And", some, one)), SINGLE)
    if table.policy != "unique":
        return Answer(rows)
    sure = o.total(o.cast(_named(o, hits, table.named), SINGLE))
    return Answer(rows, o.op("Greater", sure, o.constant(1.0)))


def _named(o: Ops, hits: Value, classes: Array) -> Value:
    """The classes that some hitting rule marks, (n, k) bool."""
    return o.op("Greater", o.op("MatMul", hits, o.constant(classes, SINGLE)), o.constant(0.0))


def hit_rules(o: Ops, x: Value, table: Table, *, perhaps: bool = False) -> Value:
    """Which rule hits which row, or with `perhaps` may hit it, (n, rules) of 0 and 1."""
    hits = None
    for column in table.columns:
        cuts, met = _buckets(table, column, perhaps)
        value = o.columns(x, column)  # (n,)
        bucket = o.constant(0, INT64)
        if len(cuts):
            wide = o.op("Unsqueeze", value, o.constant([1], INT64))
            beyond = o.cast(o.op("GreaterOrEqual", wide, o.constant(cuts)), INT64)
            bucket = o.op("ReduceSum", beyond, o.constant([1], INT64), keepdims=0)
        missing = o.constant(len(cuts) + 1, INT64)
        bucket = o.op("Where", o.op("IsNaN", value), missing, bucket)
        found = o.op("Gather", o.constant(met), bucket, axis=0)  # (n, rules)
        hits = found if hits is None else o.op("Mul", hits, found)
    # rules without conditions hit every row
    return o.fill(1.0, len(table.rules), like=x) if hits is None else hits


def _buckets(table: Table, column: int, perhaps: bool) -> tuple[Array, Array]:
    """The cuts of a column, (m,), and which rules each bucket satisfies, (m + 2, rules).

    Bucket b holds the values from cut b-1 to cut b; the last one is a missing value.
    """
    cuts = np.array(table.cuts(column), SINGLE) + SINGLE(0)  # no negative zero
    first = np.array([-np.inf, *cuts.tolist()])
    last = np.array([*(before(cut) for cut in cuts.tolist()), np.inf])
    met = np.ones((len(cuts) + 2, len(table.rules)), SINGLE)
    for place, rule in enumerate(table.rules):
        spans = rule.spans.get(column)
        if spans is not None:
            inside = np.zeros(len(first), bool)
            for start, stop in spans:
                inside |= (start <= first) & (last <= stop)
            met[:, place] = np.append(inside, perhaps)  # a missing value meets nothing for sure
    return cuts, met
