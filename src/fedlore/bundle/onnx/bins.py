"""From probabilities of bins to a number and its interval inside the set, as nodes.

The arithmetic of `personal.distribution`, in double precision: every number given out is moved to
the nearest number of the set that the graph gives out too.
"""

import math
from typing import NamedTuple

import numpy as np

from ...answers import Bins
from ...kernel.graph.formulas import normal_below
from ...kernel.graph.numbers import NumberNodes, SetNodes, bound_rows, nearest
from ...kernel.graph.ops import DOUBLE, INT64, Node, Ops, Value


class BinNodes(NamedTuple):
    """Each set cut at the edges of the bins: ends of the pieces, (n, k, s), where there is one."""

    lower: Value
    upper: Value
    there: Value  # bool
    touched: Value  # (n, k) bool: the bins that have a number in the set
    sets: SetNodes
    bins: Bins


class SpreadNodes(NamedTuple):
    """A predictive distribution: even within pieces, plus the expert's number with a weight."""

    pieces: BinNodes
    share: Value  # (n, k, s), rows sum to 1
    said: Value | None = None  # (n, 1), any where the weight is 0
    weight: Value | None = None  # (n, 1)


def cut_nodes(o: Ops, known: NumberNodes, bins: Bins) -> BinNodes:
    """`Bins.pieces` of the set, or of the bounds where there is no range."""
    sets = known.sets or bound_rows(o, (bins.lower, bins.upper))
    edges = np.array(bins.edges)
    before = edges[None, 1:, None].copy()
    before[0, -1, 0] = np.nextafter(edges[-1], np.inf)  # the last bin has its end
    starts, stops = (o.constant(e[None, :, None], DOUBLE) for e in (edges[:-1], edges[1:]))
    absent, axis = o.isnan(sets.lower), o.constant([1], INT64)
    low, high = (
        o.op("Unsqueeze", o.where(absent, 0.0, end), axis) for end in (sets.lower, sets.upper)
    )
    met = (low < o.constant(before, DOUBLE)) & (high >= starts)
    there = met & ~o.op("Unsqueeze", absent, axis)
    touched = _sum_pieces(o, o.cast(there, DOUBLE)) > 0.0
    return BinNodes(o.larger(low, starts), o.smaller(high, stops), there, touched, sets, bins)


def own_bins(o: Ops, known: NumberNodes, cut: BinNodes, spread: float | None) -> Value:
    """The bin of the expert's number, (n, k) double, or a normal around it; zeros if silent."""
    silent = o.isnan(known.point)
    centre = o.where(silent, cut.bins.lower, known.point)
    own = _own_bin(o, centre, cut.bins)
    rows = own if spread is None else hard_nodes(o, centre, spread, cut)
    return o.where(silent, 0.0, rows)


def between_nodes(o: Ops, known: NumberNodes, bins: Bins) -> Value:
    """The expert's number shared by the bins beside it, (n, k) double, as `Measured.between`."""
    silent = o.isnan(known.point)
    centre = o.where(silent, bins.lower, known.point)
    edges, at = np.array(bins.edges), np.arange(bins.k, dtype=np.float64)[None]
    # of its own bin: how far from the lower end, as a share of the width, and which it is
    part = centre - o.constant(edges[None, :-1], DOUBLE)
    part = part / o.constant(np.diff(edges)[None], DOUBLE)
    place = o.total(_own_bin(o, centre, bins) * (part + o.constant(at - 0.5, DOUBLE)))  # (n, 1)
    place = o.between(place, 0.0, bins.k - 1.0)
    rows = o.larger(1.0 - abs(place - o.constant(at, DOUBLE)), 0.0)
    return o.where(silent, 0.0, rows)


def normal_nodes(o: Ops, centre: Value, spread: float, cut: BinNodes) -> tuple[Value, Value]:
    """The mass of a normal in each bin's part of the set, (n, k), rows sum to 1, and the sum."""
    at = o.op("Unsqueeze", centre, o.constant([2], INT64))  # (n, 1, 1)
    scale = spread * math.sqrt(2.0)
    below, above = (normal_below(o, (end - at) / scale) for end in (cut.lower, cut.upper))
    rows = _sum_pieces(o, o.where(cut.there, above - below, 0.0))
    total = o.total(rows)
    return rows / o.where(total > 0.0, total, 1.0), total


def hard_nodes(o: Ops, centre: Value, spread: float, cut: BinNodes) -> Value:
    """The same, or the bin of the number itself where all of it underflowed."""
    soft, total = normal_nodes(o, centre, spread, cut)
    return o.where(total > 0.0, soft, _own_bin(o, centre, cut.bins))


def softmax_nodes(o: Ops, logits: Value, cut: BinNodes) -> Value:
    """The network's probabilities inside the set, (n, k) double."""
    masked = o.where(cut.touched, o.cast(logits, DOUBLE), -math.inf)
    top = o.op("ReduceMax", masked, axes=[1], keepdims=1)
    # of a refused row that has no set the sum is 0
    return o.normalise(o.where(cut.touched, o.op("Exp", masked - top), 0.0), DOUBLE)


def spread_nodes(
    o: Ops, p: Value, cut: BinNodes, said: Value | None = None, weight: float | Node = 0.0
) -> SpreadNodes:
    """`Distribution.spread` of probabilities (n, k); a weight of each row is (n, 1)."""
    length = o.where(cut.there, cut.upper - cut.lower, 0.0)
    total = _sum_pieces(o, length, keep=True)
    even = o.where(
        total > 0.0, length / o.where(total > 0.0, total, 1.0), o.cast(cut.there, DOUBLE)
    )
    even = even / o.larger(_sum_pieces(o, even, keep=True), 1.0)
    share = o.op("Unsqueeze", p, o.constant([2], INT64)) * even
    if said is None or not weight:
        return SpreadNodes(cut, share)
    silent = o.isnan(said)
    own = o.like(weight, said)
    return SpreadNodes(cut, share, o.where(silent, 0.0, said), o.where(silent, 0.0, own))


def expected_nodes(o: Ops, found: SpreadNodes) -> Value:
    """The expected value without the expert's number, (n, 1), which may lie between pieces."""
    cut = found.pieces
    middle = cut.lower + (cut.upper - cut.lower) * 0.5
    return o.total(_flat(o, o.where(found.share > 0.0, found.share * middle, 0.0)))


def mean_nodes(o: Ops, found: SpreadNodes) -> Value:
    """The expected value, moved to the nearest number of the support, (n, 1)."""
    cut, w, said = found.pieces, found.weight, found.said
    value, kept = expected_nodes(o, found), _flat(o, found.share > 0.0)
    if w is not None:
        value = (1.0 - w) * value + w * said
        kept = kept & ~(w >= 1.0)  # (n, 1): the expert's number alone
    low, high = (o.where(kept, _flat(o, end), math.nan) for end in (cut.lower, cut.upper))
    near = nearest(o, SetNodes(low, high), value)
    if w is None:
        return near
    away, his = abs(near - value), abs(said - value)
    lower = o.equal(his, away) & (said < near)
    nearer = (~o.any(kept) | (his < away)) | lower
    return o.where((w > 0.0) & nearer, said, near)


def quantile_nodes(o: Ops, found: SpreadNodes, level: float) -> Value:
    """`Distribution.quantile`, (n, 1)."""
    w, t, q = found.weight, found.said, o.constant([[level]], DOUBLE)
    if w is None:
        return _inner(o, found, q)
    partly, silent = w < 1.0, o.equal(w, 0.0)
    rest = o.where(partly, 1.0 - w, 1.0)
    below = rest * _below(o, found, t, reached=False)
    upto = rest * _below(o, found, t, reached=True) + w
    before = silent | (partly & ((q <= below) & (below > 0.0)))
    after = (((w > 0.0) & partly) & (q > upto)) & ~before
    at = o.between(o.where(after, (q - w) / rest, q / rest), 0.0, 1.0)
    inner = _inner(o, found, at)
    ordered = o.where(after, o.larger(inner, t), o.smaller(inner, t))
    return o.where(silent, inner, o.where(before | after, ordered, t))


def _below(o: Ops, found: SpreadNodes, value: Value, *, reached: bool) -> Value:
    """The pieces' probability below a number, (n, 1)."""
    cut, v = found.pieces, o.op("Unsqueeze", value, o.constant([2], INT64))
    length = cut.upper - cut.lower
    wide = length > 0.0
    part = o.between((v - cut.lower) / o.where(wide, length, 1.0), 0.0, 1.0)
    point = v >= cut.lower if reached else v > cut.lower
    part = o.where(wide, part, o.cast(point, DOUBLE))
    mass = o.where(found.share > 0.0, found.share * part, 0.0)
    return o.smaller(o.total(_flat(o, mass)), 1.0)


def _inner(o: Ops, found: SpreadNodes, level: Value) -> Value:
    """Quantiles of the pieces alone, each row at its own level, (n, 1)."""
    share = _flat(o, found.share)
    reach = o.op("CumSum", share, o.constant(1, INT64))
    at = o.smaller(level, o.op("ReduceMax", reach, axes=[1], keepdims=1))
    first = (reach >= at) & (share > 0.0)
    which = o.op("ArgMax", o.cast(first, DOUBLE), axis=1, keepdims=1)
    mass, end, lower, upper = (
        o.op("GatherElements", part, which, axis=1)
        for part in (share, reach, _flat(o, found.pieces.lower), _flat(o, found.pieces.upper))
    )
    part = o.between(1.0 - (end - at) / o.where(mass > 0.0, mass, 1.0), 0.0, 1.0)
    return o.between(lower + part * (upper - lower), lower, upper)


def _own_bin(o: Ops, centre: Value, bins: Bins) -> Value:
    """1 for the bin of a number, (n, k) double."""
    place = o.total(o.cast(centre >= o.constant([bins.edges[1:-1]], DOUBLE), INT64))
    return o.cast(o.equal(place, o.constant([list(range(bins.k))], INT64)), DOUBLE)


def _flat(o: Ops, value: Value) -> Value:
    return o.op("Flatten", value, axis=1)


def _sum_pieces(o: Ops, values: Value, *, keep: bool = False) -> Value:
    """Sums over the pieces of each bin, (n, k, s) -> (n, k)."""
    return o.op("ReduceSum", values, o.constant([2], INT64), keepdims=int(keep))
