"""What a graph must compute for some knowledge: range, prediction, refusals and the class.

Everything is rebuilt here from the texts of the knowledge; `terms.expect` then holds a graph to it.
"""

from typing import Any, NamedTuple

import numpy as np

from .cells import before
from .formulaterms import Formulas
from .holes import hide, lack, may_lack, refuse
from .knowledge import Graded, Known, Limits
from .tables import Table
from .terms import BOOL, DOUBLE, INT64, SINGLE, Lazy, Mismatch, Named, Needed, Nodes, Term, Terms

Array = Any  # of numpy


class Said(NamedTuple):
    """Rows (n, k), and where they are refused, (n, 1), or never."""

    rows: Needed
    refused: Needed | None = None


class Demands(NamedTuple):
    """The terms of a graph's outputs, and of the prediction that goes into its probabilities."""

    allowed: Needed
    refused: Needed
    chosen: Needed
    prior: Needed | None
    trust: Needed | None = None  # λ, where a row has one of its own


def demands(known: Known, *, strict: bool = True) -> Demands:
    """All that a graph has to compute in a given way; the probabilities are read elsewhere.

    A graph of 0.1.0 is not `strict`: it refuses no row for what is no value in it. Such a row is
    outside of every scope.
    """
    t = Terms()
    x: Needed = t.cast(Named("rows"), SINGLE)
    unusable = refuse(t, x, known) if strict else None
    x = hide(t, x, known)
    formulas = Formulas(t, x)
    prior = _prediction(t, x, formulas, known) if known.predict.sources else None
    allowed = _range(t, x, formulas, known) if known.range.sources else None
    refused = t.either(unusable, *[part.refused for part in (prior, allowed) if part is not None])
    rows = None if prior is None else prior.rows
    if prior is not None and allowed is not None:
        rows, conflict = _inside(t, prior.rows, allowed.rows, known.conflict)
        refused = t.either(refused, conflict)
    count = t.op("Shape", Named("rows"), start=0, end=1)
    if allowed is None:
        wide = t.op("Concat", count, t.constant([known.k], INT64), axis=0)
        allowed = Said(t.op("Expand", t.constant([[True]], BOOL), wide))
    if refused is None:
        one = t.op("Concat", count, t.constant([1], INT64), axis=0)
        refused = t.op("Expand", t.constant([[False]], BOOL), one)
    axis = t.constant([1], INT64)
    leaning = known.leaning
    return Demands(
        t.op("And", allowed.rows, t.op("Not", refused)),
        t.op("Squeeze", refused, axis),
        t.op(
            "Squeeze", _median(t, refused) if known.directions else _choose(t, rows, refused), axis
        ),
        rows,
        None if leaning is None else leaning.term(t, formulas, known.trust),
    )


def _choose(t: Terms, prior: Needed | None, refused: Needed) -> Needed:
    """The most probable class; at an exact tie the expert's, else the lowest; -1 if refused."""
    p = Named("probabilities")
    chosen = t.op("ArgMax", p, axis=1, keepdims=1)
    if prior is not None:
        top = t.op("ReduceMax", p, axes=[1], keepdims=1)
        spoken = t.op("Greater", prior, t.constant(0.0))
        tied = t.op("And", t.op("Equal", p, top), spoken)
        theirs = t.op("ArgMax", t.cast(tied, SINGLE), axis=1, keepdims=1)
        chosen = t.op("Where", t.any(tied), theirs, chosen)
    return t.op("Where", refused, t.constant(-1, INT64), chosen)


def _median(t: Terms, refused: Needed) -> Needed:
    """Of knowledge with shapes: the first class with half of the probability below or at it."""
    share = t.cast(Named("probabilities"), DOUBLE)
    below = t.op("CumSum", share, t.constant(1, INT64))
    half = t.op("Mul", t.total(share), t.constant(0.5, DOUBLE))
    some = t.op("Greater", share, t.constant(0.0, DOUBLE))
    reached = t.op("And", t.op("GreaterOrEqual", below, half), some)
    chosen = t.op("ArgMax", t.cast(reached, SINGLE), axis=1, keepdims=1)
    return t.op("Where", refused, t.constant(-1, INT64), chosen)


def _inside(t: Terms, prior: Needed, allowed: Needed, policy: str) -> tuple[Needed, Needed | None]:
    """The prediction with nothing left outside the range: silenced, restricted or refused."""
    zero = t.constant(0.0)
    conflict = t.any(t.op("And", t.op("Greater", prior, zero), t.op("Not", allowed)))
    if policy != "restrict":
        return t.op("Where", conflict, zero, prior), conflict if policy == "error" else None
    inside = t.op("Where", allowed, prior, zero)
    left = t.total(inside)
    some = t.op("Greater", left, zero)
    inside = t.op("Div", inside, t.op("Where", some, left, t.constant(1.0)))
    return t.op("Where", conflict, inside, prior), None


def _source(t: Terms, x: Needed, formulas: Formulas, source: Any, holes: bool) -> Said:
    if isinstance(source, Table):
        return _table(t, x, source, holes)
    if isinstance(source, Limits):
        crossed = source.crossed == "error"
        lacking = None
        if holes and not crossed and len(source.trees) == 2:
            lacking = lack(t, x, [source])
        whole = None if lacking is None else t.op("Not", lacking)
        return Said(*formulas.between(source.lower, source.upper, source.edges, crossed, whole))
    assert isinstance(source, Graded)
    if source.spread is None:
        return Said(formulas.one_hot(source.tree, source.edges))
    return Said(formulas.blur(source.tree, source.written, source.spread))


def _range(t: Terms, x: Needed, formulas: Formulas, known: Known) -> Said:
    side, holes = known.range, may_lack(known)
    parts = [_source(t, x, formulas, source, holes) for source in side.sources]
    if len(parts) == 1:
        return parts[0]
    either = side.combine == "any"
    rows = parts[0].rows
    for part in parts[1:]:
        rows = t.op("Or" if either else "And", rows, part.rows)
    refused = t.either(*[part.refused for part in parts])
    if either:
        return Said(rows, refused)
    none = t.op("Not", t.any(rows))
    if side.empty == "error":
        return Said(rows, t.either(refused, none))
    lacking = lack(t, x, side.sources) if holes else None
    none = none if lacking is None else t.op("Or", none, lacking)
    instead = t.op("And", none, parts[0].rows) if side.empty == "first" else none
    return Said(t.op("Or", rows, instead), refused)


def _prediction(t: Terms, x: Needed, formulas: Formulas, known: Known) -> Said:
    side, holes = known.predict, may_lack(known)
    parts = [_source(t, x, formulas, source, holes) for source in side.sources]
    lacking = [lack(t, x, [source]) if holes else None for source in side.sources]
    rows, refused = parts[0].rows, t.either(*[part.refused for part in parts])
    if len(parts) > 1 and side.combine == "average":
        total = t.op("Mul", rows, t.constant(side.weights[0]))
        for part, weight in zip(parts[1:], side.weights[1:], strict=True):
            total = t.op("Add", total, t.op("Mul", part.rows, t.constant(weight)))
        rows = _normalise(t, total, SINGLE)
        for part, lacks in zip(parts, lacking, strict=True):
            if lacks is not None:
                silent = t.op("Equal", t.total(part.rows), t.constant(0.0))
                rows = t.op("Where", t.op("And", lacks, silent), t.constant(0.0), rows)
    else:
        over: Needed | None = None
        for part, lacks in zip(parts[1:], lacking, strict=False):
            spoken = t.any(t.op("Not", t.op("Equal", rows, t.constant(0.0))))
            over = t.either(over, lacks)
            spoken = spoken if over is None else t.op("Or", spoken, over)
            rows = t.op("Where", spoken, rows, part.rows)
    if known.confusion is not None:
        table = t.constant(known.confusion, DOUBLE)
        soft = t.op("MatMul", t.cast(rows, DOUBLE), table)
        rows = t.cast(_normalise(t, soft, DOUBLE), SINGLE)
    return Said(rows, refused)


def _normalise(t: Terms, rows: Needed, dtype: Any) -> Term:
    """Rows divided by their sums, where those are positive."""
    total = t.total(rows)
    some = t.op("Greater", total, t.constant(0.0, dtype))
    return t.op("Div", rows, t.op("Where", some, total, t.constant(1.0, dtype)))


def _perhaps(t: Terms, x: Needed, table: Table, hits: Needed) -> Said:
    """What a table says where rules on missing values may hit or not."""
    may_hit = _hits(t, x, table, perhaps=True)
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


def _table(t: Terms, x: Needed, table: Table, holes: bool) -> Said:
    hits = _hits(t, x, table)
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


def _hits(t: Terms, x: Needed, table: Table, *, perhaps: bool = False) -> Needed:
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
