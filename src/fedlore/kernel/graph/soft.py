"""Rules that hold in most cases only, as nodes: their odds, inside the range."""

import math
from typing import NamedTuple

import numpy as np

from ..sources import Soft
from .ops import DOUBLE, INT64, SINGLE, Array, Ops, Value


class Odds(NamedTuple):
    """What is added to the log weight of each class, (n, k), and where anything is, (n, 1)."""

    rows: Value
    heard: Value


class Hits(NamedTuple):
    """Which rules hit, and which may, (n, rules); the latter where values may be missing."""

    sure: Value
    perhaps: Value | None


def table_odds(o: Ops, source: Soft, hits: Hits, allowed: Value) -> Odds:
    """The soft rules of a table that are heard, each inside the range."""
    named = source.inner.named.astype(DOUBLE)
    softly = o.constant(source.shares[None] < 1, SINGLE)
    speaking = o.op("Mul", _speaking(o, source, hits), softly)
    inside = o.op("MatMul", o.cast(allowed, DOUBLE), o.constant(named.T, DOUBLE))
    hit = o.op("Greater", speaking, o.constant(0.0))
    toward, against, heard = _log_odds(o, source.shares, inside, allowed, hit)
    odds = o.op(
        "Add",
        o.op("MatMul", toward, o.constant(named, DOUBLE)),
        o.op("MatMul", against, o.constant(1.0 - named, DOUBLE)),
    )
    return Odds(o.op("Mul", odds, o.cast(allowed, DOUBLE)), o.any(heard))


def table_rows(o: Ops, source: Soft, hits: Hits, allowed: Value, unsure: Value | None) -> Value:
    """A soft table as a prediction: a rule that always holds names its class outright."""
    certain = source.inner.named * (source.shares == 1)[:, None]
    sure = o.op("MatMul", o.cast(_speaking(o, source, hits), DOUBLE), o.constant(certain, DOUBLE))
    soft = odds_rows(o, table_odds(o, source, hits, allowed), allowed, unsure)
    outright = o.any(o.op("Greater", sure, o.constant(0.0, DOUBLE)))
    return o.cast(o.op("Where", outright, sure, soft), SINGLE)


def set_odds(o: Ops, named: Value, confidence: float, allowed: Value) -> Odds:
    """What is said of named classes, (n, k) bool, with one confidence."""
    inside = o.total(o.cast(o.op("And", named, allowed), DOUBLE))
    toward, against, heard = _log_odds(o, np.array([confidence]), inside, allowed, None)
    odds = o.op("Where", named, toward, against)
    rows = o.op("Where", o.op("And", heard, allowed), odds, o.constant(0.0, DOUBLE))
    return Odds(rows, heard)


def odds_rows(o: Ops, odds: Odds, allowed: Value, unsure: Value | None) -> Value:
    """Distributions over the range, (n, k) double; zero rows where nothing is heard for sure."""
    masked = o.op("Where", allowed, odds.rows, o.constant(-math.inf, DOUBLE))
    shares = o.op("Softmax", masked, axis=1)
    heard = odds.heard
    if unsure is not None:
        heard = o.op("And", heard, o.op("Not", unsure))
    return o.op("Where", heard, shares, o.constant(0.0, DOUBLE))


def weigh_odds(
    o: Ops, expert: Value | None, parts: list[Odds], allowed: Value, unsure: Value | None
) -> Value:
    """An expert's rows with the odds of all soft ranges multiplied in, (n, k) float32."""
    odds = parts[0]
    for more in parts[1:]:
        odds = Odds(o.op("Add", odds.rows, more.rows), o.op("Or", odds.heard, more.heard))
    alone = odds_rows(o, odds, allowed, unsure)
    if expert is None:
        return o.cast(alone, SINGLE)
    zero, one = o.constant(0.0, DOUBLE), o.constant(1.0, DOUBLE)
    expert = o.cast(expert, DOUBLE)
    top = o.op("ReduceMax", odds.rows, axes=[1], keepdims=1)
    moved = o.op("Mul", expert, o.op("Exp", o.op("Sub", odds.rows, top)))
    total = o.total(moved)
    some = o.op("Greater", total, zero)
    kept = o.op("Div", moved, o.op("Where", some, total, one))
    kept = o.op("Where", o.op("And", some, odds.heard), kept, expert)
    if unsure is not None:
        outright = o.any(o.op("Equal", expert, one))
        kept = o.op("Where", o.op("And", unsure, o.op("Not", outright)), zero, kept)
    spoken = o.any(o.op("Not", o.op("Equal", expert, zero)))
    return o.cast(o.op("Where", spoken, kept, alone), SINGLE)


def _speaking(o: Ops, source: Soft, hits: Hits) -> Value:
    """Which rules are heard, (n, rules), in the order in which they speak."""
    if source.inner.policy == "intersect":
        return hits.sure
    may_hit = hits.sure if hits.perhaps is None else hits.perhaps
    count = o.op("CumSum", may_hit, o.constant(1, INT64))
    first = o.cast(o.op("Equal", count, o.constant(1.0)), SINGLE)
    return o.op("Mul", hits.sure, first)


def _log_odds(
    o: Ops, shares: Array, inside: Value, allowed: Value, hit: Value | None
) -> tuple[Value, Value, Value]:
    """Log weights against an even spread, 0 where nothing is heard, and where something is."""
    zero, one = o.constant(0.0, DOUBLE), o.constant(1.0, DOUBLE)
    every = o.total(o.cast(allowed, DOUBLE))
    outside = o.op("Sub", every, inside)
    heard = o.op("And", o.op("Greater", inside, zero), o.op("Greater", outside, zero))
    heard = heard if hit is None else o.op("And", hit, heard)
    sides = []
    for share, count in ((shares, inside), (1.0 - shares, outside)):
        mass = o.op("Mul", o.constant(share[None], DOUBLE), every)
        ratio = o.op("Log", o.op("Div", mass, o.op("Max", count, one)))
        sides.append(o.op("Where", heard, ratio, zero))
    return sides[0], sides[1], heard
