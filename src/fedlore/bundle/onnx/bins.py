"""From probabilities of bins to a number and its interval inside the set, as nodes.

The arithmetic of `personal.distribution`, in double precision: every number given out is moved to
the nearest number of the set that the graph gives out too.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...answers import Bins
from ...kernel.graph.formulas import normal_below
from ...kernel.graph.numbers import NumberNodes, SetNodes, bound_rows, nearest
from ...kernel.graph.ops import DOUBLE, INT64, Value
from .builder import Builder


@dataclass(frozen=True)
class BinNodes:
    """Each set cut at the edges of the bins: ends of the pieces, (n, k, s), where there is one."""

    lower: str
    upper: str
    there: str  # bool
    touched: str  # (n, k) bool: the bins that have a number in the set
    sets: SetNodes
    bins: Bins


@dataclass(frozen=True)
class SpreadNodes:
    """A predictive distribution: even within pieces, plus the expert's number with a weight."""

    pieces: BinNodes
    share: str  # (n, k, s), rows sum to 1
    said: str | None  # (n, 1), any where the weight is 0
    weight: str | None  # (n, 1)


def cut_nodes(build: Builder, known: NumberNodes, bins: Bins) -> BinNodes:
    """`Bins.pieces` of the set, or of the bounds where there is no range."""
    sets = known.sets
    if sets is None:
        sets = bound_rows(build, (bins.lower, bins.upper))
    edges = np.array(bins.edges)
    starts, stops = edges[None, :-1, None], edges[None, 1:, None]
    before = stops.copy()
    before[0, -1, 0] = np.nextafter(stops[0, -1, 0], np.inf)  # the last bin has its end
    absent = build.op("IsNaN", sets.lower)
    zero = build.constant(0.0, DOUBLE)
    axis = build.constant([1], INT64)
    low, high = (
        build.op("Unsqueeze", build.op("Where", absent, zero, end), axis)
        for end in (sets.lower, sets.upper)
    )
    begins = build.op("Less", low, build.constant(before, DOUBLE))
    ends_after = build.op("GreaterOrEqual", high, build.constant(starts, DOUBLE))
    met = build.op("And", begins, ends_after)
    there = build.op("And", met, build.op("Not", build.op("Unsqueeze", absent, axis)))
    lower = build.op("Max", low, build.constant(starts, DOUBLE))
    upper = build.op("Min", high, build.constant(stops, DOUBLE))
    count = build.op("ReduceSum", build.cast(there, DOUBLE), _axis(build, 2), keepdims=0)
    touched = build.op("Greater", count, zero)
    return BinNodes(lower, upper, there, touched, sets, bins)


def own_bins(build: Builder, known: NumberNodes, cut: BinNodes, spread: float | None) -> Value:
    """The bin of the expert's number, (n, k) double, or a normal around it; zeros if silent."""
    assert known.point is not None
    silent = build.op("IsNaN", known.point)
    centre = build.op("Where", silent, build.constant(cut.bins.lower, DOUBLE), known.point)
    rows = _own_bin(build, centre, cut.bins)
    if spread is not None:
        soft, total = normal_nodes(build, centre, spread, cut)
        rows = build.op("Where", build.op("Greater", total, _zero(build)), soft, rows)
    return build.op("Where", silent, _zero(build), rows)


def between_nodes(build: Builder, known: NumberNodes, bins: Bins) -> Value:
    """The expert's number shared by the bins beside it, (n, k) double, as `Measured.between`."""
    assert known.point is not None
    silent = build.op("IsNaN", known.point)
    centre = build.op("Where", silent, build.constant(bins.lower, DOUBLE), known.point)
    edges = np.array(bins.edges)
    own = _own_bin(build, centre, bins)
    # of its own bin: how far from the lower end, as a share of the width, and which it is
    part = build.op("Sub", centre, build.constant(edges[None, :-1], DOUBLE))
    part = build.op("Div", part, build.constant(np.diff(edges)[None], DOUBLE))
    at = np.arange(bins.k, dtype=np.float64)[None]
    place = build.op("Add", part, build.constant(at - 0.5, DOUBLE))
    place = build.total(build.op("Mul", own, place))  # (n, 1)
    place = build.op("Max", place, _zero(build))
    place = build.op("Min", place, build.constant(bins.k - 1.0, DOUBLE))
    away = build.op("Abs", build.op("Sub", place, build.constant(at, DOUBLE)))
    rows = build.op("Max", build.op("Sub", build.constant(1.0, DOUBLE), away), _zero(build))
    return build.op("Where", silent, _zero(build), rows)


def normal_nodes(build: Builder, centre: str, spread: float, cut: BinNodes) -> tuple[str, str]:
    """The mass of a normal in each bin's part of the set, (n, k), rows sum to 1, and the sum."""
    at = build.op("Unsqueeze", centre, build.constant([2], INT64))  # (n, 1, 1)
    scale = build.constant(spread * math.sqrt(2.0), DOUBLE)
    below, above = (
        normal_below(build, build.op("Div", build.op("Sub", end, at), scale))
        for end in (cut.lower, cut.upper)
    )
    mass = build.op("Where", cut.there, build.op("Sub", above, below), _zero(build))
    rows = build.op("ReduceSum", mass, _axis(build, 2), keepdims=0)
    total = build.total(rows)
    some = build.op("Greater", total, _zero(build))
    whole = build.op("Where", some, total, build.constant(1.0, DOUBLE))
    return build.op("Div", rows, whole), total


def hard_nodes(build: Builder, centre: str, spread: float, cut: BinNodes) -> Value:
    """The same, or the bin of the number itself where all of it underflowed."""
    soft, total = normal_nodes(build, centre, spread, cut)
    some = build.op("Greater", total, _zero(build))
    return build.op("Where", some, soft, _own_bin(build, centre, cut.bins))


def softmax_nodes(build: Builder, logits: str, cut: BinNodes) -> Value:
    """The network's probabilities inside the set, (n, k) double."""
    wide = build.cast(logits, DOUBLE)
    masked = build.op("Where", cut.touched, wide, build.constant(-np.inf, DOUBLE))
    top = build.op("ReduceMax", masked, axes=[1], keepdims=1)
    raised = build.op(
        "Where", cut.touched, build.op("Exp", build.op("Sub", masked, top)), _zero(build)
    )
    total = build.total(raised)
    some = build.op("Greater", total, _zero(build))  # not where a refused row has no set
    return build.op("Div", raised, build.op("Where", some, total, build.constant(1.0, DOUBLE)))


def spread_nodes(
    build: Builder, p: str, cut: BinNodes, said: str | None = None, weight: float | str = 0.0
) -> SpreadNodes:
    """`Distribution.spread` of probabilities (n, k); a weight of each row is (n, 1)."""
    zero, one = _zero(build), build.constant(1.0, DOUBLE)
    length = build.op("Where", cut.there, build.op("Sub", cut.upper, cut.lower), zero)
    total = build.op("ReduceSum", length, _axis(build, 2), keepdims=1)
    wide = build.op("Greater", total, zero)
    even = build.op("Div", length, build.op("Where", wide, total, one))
    even = build.op("Where", wide, even, build.cast(cut.there, DOUBLE))
    several = build.op("ReduceSum", even, _axis(build, 2), keepdims=1)
    even = build.op("Div", even, build.op("Max", several, one))
    share = build.op("Mul", build.op("Unsqueeze", p, build.constant([2], INT64)), even)
    if said is None or not weight:
        return SpreadNodes(cut, share, None, None)
    silent = build.op("IsNaN", said)
    own = weight if isinstance(weight, str) else build.constant(weight, DOUBLE)
    w = build.op("Where", silent, zero, own)
    return SpreadNodes(cut, share, build.op("Where", silent, zero, said), w)


def expected_nodes(build: Builder, found: SpreadNodes) -> Value:
    """The expected value without the expert's number, (n, 1), which may lie between pieces."""
    cut, zero = found.pieces, _zero(build)
    half = build.op("Mul", build.op("Sub", cut.upper, cut.lower), build.constant(0.5, DOUBLE))
    middle = build.op("Add", cut.lower, half)
    some = build.op("Greater", found.share, zero)
    parts = build.op("Where", some, build.op("Mul", found.share, middle), zero)
    return build.total(build.op("Flatten", parts, axis=1))


def mean_nodes(build: Builder, found: SpreadNodes) -> Value:
    """The expected value, moved to the nearest number of the support, (n, 1)."""
    cut, zero = found.pieces, _zero(build)
    value = expected_nodes(build, found)
    some = build.op("Greater", found.share, zero)
    nothing = build.constant(math.nan, DOUBLE)
    if found.weight is None or found.said is None:
        low, high = (
            _flat(build, build.op("Where", some, end, nothing)) for end in (cut.lower, cut.upper)
        )
        return nearest(build, SetNodes(low, high), value)
    one = build.constant(1.0, DOUBLE)
    rest = build.op("Mul", build.op("Sub", one, found.weight), value)
    value = build.op("Add", rest, build.op("Mul", found.weight, found.said))
    whole = build.op("GreaterOrEqual", found.weight, one)  # (n, 1): the expert's number alone
    flat = _flat(build, some)
    kept = build.op("And", flat, build.op("Not", whole))
    low, high = (
        build.op("Where", kept, _flat(build, end), nothing) for end in (cut.lower, cut.upper)
    )
    near = nearest(build, SetNodes(low, high), value)
    alone = build.op("Not", build.any(kept))
    away, his = (build.op("Abs", build.op("Sub", one_, value)) for one_ in (near, found.said))
    lower = build.op("And", build.op("Equal", his, away), build.op("Less", found.said, near))
    nearer = build.op("Or", build.op("Or", alone, build.op("Less", his, away)), lower)
    heard = build.op("Greater", found.weight, zero)
    return build.op("Where", build.op("And", heard, nearer), found.said, near)


def quantile_nodes(build: Builder, found: SpreadNodes, level: float) -> Value:
    """`Distribution.quantile`, (n, 1)."""
    if found.weight is None or found.said is None:
        return _inner(build, found, build.constant([[level]], DOUBLE))
    w, t, zero, one = found.weight, found.said, _zero(build), build.constant(1.0, DOUBLE)
    q = build.constant([[level]], DOUBLE)
    partly = build.op("Less", w, one)
    rest = build.op("Where", partly, build.op("Sub", one, w), one)
    below = build.op("Mul", rest, _below(build, found, t, reached=False))
    upto = build.op("Add", build.op("Mul", rest, _below(build, found, t, reached=True)), w)
    silent = build.op("Equal", w, zero)
    early = build.op("And", build.op("LessOrEqual", q, below), build.op("Greater", below, zero))
    before = build.op("Or", silent, build.op("And", partly, early))
    after = build.op("And", build.op("Greater", w, zero), partly)
    after = build.op("And", after, build.op("Greater", q, upto))
    after = build.op("And", after, build.op("Not", before))
    late = build.op("Div", build.op("Sub", q, w), rest)
    at = build.op("Where", after, late, build.op("Div", q, rest))
    at = build.op("Min", build.op("Max", at, zero), one)
    inner = _inner(build, found, at)
    ordered = build.op("Where", after, build.op("Max", inner, t), build.op("Min", inner, t))
    ensemble = build.op("Where", build.op("Or", before, after), ordered, t)
    return build.op("Where", silent, inner, ensemble)


def _below(build: Builder, found: SpreadNodes, value: str, *, reached: bool) -> Value:
    """The pieces' probability below a number, (n, 1)."""
    cut, zero, one = found.pieces, _zero(build), build.constant(1.0, DOUBLE)
    v = build.op("Unsqueeze", value, build.constant([2], INT64))
    length = build.op("Sub", cut.upper, cut.lower)
    wide = build.op("Greater", length, zero)
    part = build.op("Div", build.op("Sub", v, cut.lower), build.op("Where", wide, length, one))
    part = build.op("Min", build.op("Max", part, zero), one)
    point = build.op("GreaterOrEqual" if reached else "Greater", v, cut.lower)
    part = build.op("Where", wide, part, build.cast(point, DOUBLE))
    some = build.op("Greater", found.share, zero)
    mass = build.op("Where", some, build.op("Mul", found.share, part), zero)
    return build.op("Min", build.total(_flat(build, mass)), one)


def _inner(build: Builder, found: SpreadNodes, level: str) -> Value:
    """Quantiles of the pieces alone, each row at its own level, (n, 1)."""
    cut, zero, one = found.pieces, _zero(build), build.constant(1.0, DOUBLE)
    share = _flat(build, found.share)
    reach = build.op("CumSum", share, build.constant(1, INT64))
    last = build.op("ReduceMax", reach, axes=[1], keepdims=1)
    at = build.op("Min", level, last)
    enough = build.op("GreaterOrEqual", reach, at)
    first = build.op("And", enough, build.op("Greater", share, zero))
    which = build.op("ArgMax", build.cast(first, DOUBLE), axis=1, keepdims=1)
    mass, end, lower, upper = (
        build.op("GatherElements", part, which, axis=1)
        for part in (share, reach, _flat(build, cut.lower), _flat(build, cut.upper))
    )
    some = build.op("Where", build.op("Greater", mass, zero), mass, one)
    part = build.op("Sub", one, build.op("Div", build.op("Sub", end, at), some))
    part = build.op("Min", build.op("Max", part, zero), one)
    value = build.op("Add", lower, build.op("Mul", part, build.op("Sub", upper, lower)))
    return build.op("Min", build.op("Max", value, lower), upper)


def _own_bin(build: Builder, centre: str, bins: Bins) -> Value:
    """1 for the bin of a number, (n, k) double."""
    inner = build.constant([bins.edges[1:-1]], DOUBLE)
    beyond = build.cast(build.op("GreaterOrEqual", centre, inner), INT64)
    place = build.op("ReduceSum", beyond, build.constant([1], INT64), keepdims=1)
    return build.cast(
        build.op("Equal", place, build.constant([list(range(bins.k))], INT64)), DOUBLE
    )


def _flat(build: Builder, value: str) -> Value:
    return build.op("Flatten", value, axis=1)


def _axis(build: Builder, axis: int) -> Value:
    return build.constant([axis], INT64)


def _zero(build: Builder) -> Value:
    return build.constant(0.0, DOUBLE)
