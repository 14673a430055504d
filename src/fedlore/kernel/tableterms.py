"""What a graph must compute for a decision table: columns looked up, rules that hit, classes."""

from typing import Any, NamedTuple

import numpy as np

from .cells import before
from .tables import Table
from .terms import INT64, SINGLE, Lazy, Mismatch, Needed, Nodes, Term, Terms

Array = Any  # of numpy


class Said(NamedTuple):
    """Rows (n, k), and where they are refused, (n, 1), or never."""

    rows: Needed
    refused: Needed | None = None


def _perhaps(t: Terms, x: Needed, table: Table, hits: Needed) -> Said:
    """What a table says where rules on missing values may hit or not."""
    may_hit = hit_terms(t, x, table, perhaps=True)
    if table.policy in ("first", "priority"):
        before = t.op("CumSum", hits, t.constant(1, INT64))
        may_hit = t.op("Mul", may_hit, t.cast(t.op("Equal", before, hits), SINGLE))
    named, some = _meet(t, may_hit, table.named), t.any(hits)
    if table.policy == "union":
        return Said(t.op("Or", named, t.op("Not", some)))
    one = t.op("Equal", t.total(t.cast(named, SINGLE)), t.constant(1.0))
    rows = t.cast(t.op("And", named, t.op("And", some, one)), SINGLE)
    if table.policy != "unique":
        return Said(rows)
    sure = t.total(t.cast(_meet(t, hits, table.named), SINGLE))
    return Said(rows, t.op("Greater", sure, t.constant(1.0)))


def table_terms(t: Terms, x: Needed, table: Table, holes: bool) -> Said:
    hits = hit_terms(t, x, table)
    if holes and table.policy != "intersect":
        return _perhaps(t, x, table, hits)
    if table.policy in ("first", "priority"):
        which = t.op("ArgMax", hits, axis=1, keepdims=0)
        row = t.op("Gather", t.constant(table.named, SINGLE), which, axis=0)
        return Said(t.op("Mul", row, t.op("ReduceMax", hits, axes=[1], keepdims=1)))
    if table.policy == "intersect":
        allowed = t.op("Not", _meet(t, hits, ~table.named))
        return Said(allowed, t.op("Not", t.any(allowed)))
    named = _meet(t, hits, table.named)
    if table.policy == "union":
        return Said(t.op("Or", named, t.op("Not", t.any(named))))
    rows = t.cast(named, SINGLE)
    return Said(rows, t.op("Greater", t.total(rows), t.constant(1.0)))


def _meet(t: Terms, hits: Needed, classes: Array) -> Term:
    return t.op("Greater", t.op("MatMul", hits, t.constant(classes, SINGLE)), t.constant(0.0))


def hit_terms(t: Terms, x: Needed, table: Table, *, perhaps: bool = False) -> Needed:
    """Which rule hits which row, or may hit it: a product over the columns."""
    hits: Needed | None = None
    for column in table.columns:
        found = _look_up(t, x, table, column, perhaps)
        hits = found if hits is None else t.op("Mul", hits, found)
    if hits is None:
        count = t.op("Shape", x, start=0, end=1)
        shape = t.op("Concat", count, t.constant([len(table.rules)], INT64), axis=0)
        hits = t.op("Expand", t.constant([[1.0]]), shape)
    return hits


def _look_up(t: Terms, x: Needed, table: Table, column: int, perhaps: bool) -> Lazy:
    """Thresholds may be more than are needed: any that give each rule its spans will do."""

    def make(graph: Nodes, name: str) -> Needed:
        cuts, satisfied = _lookup(graph, name)
        _check_buckets(table, column, cuts, satisfied, perhaps)
        value = t.op("Gather", x, t.constant(column, INT64), axis=1)
        bucket: Needed = t.constant(0, INT64)
        if len(cuts):
            wide = t.op("Unsqueeze", value, t.constant([1], INT64))
            beyond = t.cast(t.op("GreaterOrEqual", wide, t.constant(cuts)), INT64)
            bucket = t.op("ReduceSum", beyond, t.constant([1], INT64), keepdims=0)
        missing = t.constant(len(cuts) + 1, INT64)
        bucket = t.op("Where", t.op("IsNaN", value), missing, bucket)
        return t.op("Gather", t.constant(satisfied), bucket, axis=0)

    return Lazy(make)


def _lookup(graph: Nodes, name: str) -> tuple[Array, Array]:
    """The thresholds (m,) and the table (m + 2, rules) of a column, where a graph has them."""
    try:
        table, bucket = graph.made[name].input
        inner = graph.made[bucket].input[2]
        cuts = np.zeros(0, SINGLE)
        if inner not in graph.constants:
            beyond = graph.made[graph.made[inner].input[0]].input[0]
            cuts = graph.constants[graph.made[beyond].input[1]]
        satisfied = graph.constants[table]
    except (LookupError, ValueError):
        raise Mismatch(f"'{name}' does not look a column up in a table") from None
    good = cuts.dtype == satisfied.dtype == SINGLE and cuts.ndim == 1 and satisfied.ndim == 2
    if not good or not (cuts[:-1] < cuts[1:]).all() or np.isnan(cuts).any():
        raise Mismatch(f"'{name}' has thresholds that are not in order")
    return cuts, satisfied


def _check_buckets(table: Table, column: int, cuts: Array, satisfied: Array, perhaps: bool) -> None:
    """That between two thresholds each rule holds everywhere or nowhere, and as the table says."""
    if satisfied.shape != (len(cuts) + 2, len(table.rules)):
        raise Mismatch(f"the lookup of column {column + 1} has another size than its table")
    first = np.array([-np.inf, *cuts.tolist()])
    last = np.array([*(before(cut) for cut in cuts.tolist()), np.inf])
    for place, rule in enumerate(table.rules):
        wanted = np.ones(len(cuts) + 2, bool)
        spans = rule.spans.get(column)
        if spans is not None:
            inside, met = np.zeros(len(first), bool), np.zeros(len(first), bool)
            for start, stop in spans:
                inside |= (start <= first) & (last <= stop)
                met |= (start <= last) & (first <= stop)
            if (inside != met).any():
                raise Mismatch(f"column {column + 1} lacks a threshold of rule {place + 1}")
            wanted = np.append(inside, perhaps)  # a missing value meets no condition for sure
        if not np.array_equal(satisfied[:, place], wanted.astype(SINGLE)):
            raise Mismatch(f"column {column + 1} is not looked up as rule {place + 1} says")
