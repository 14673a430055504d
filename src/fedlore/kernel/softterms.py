"""What a graph must compute where rules hold in most cases only: their odds, inside the range."""

import math
from typing import Any, NamedTuple

from .graded import Graded
from .soft import Soft
from .terms import BOOL, DOUBLE, INT64, SINGLE, Needed, Terms

Array = Any  # of numpy


class Lean(NamedTuple):
    """What is added to the log weight of each class, (n, k), and where anything is, (n, 1)."""

    rows: Needed
    heard: Needed


class Seen(NamedTuple):
    """The range, (n, k), and where a value is missing that it looks at, (n, 1), or never."""

    allowed: Needed
    lacking: Needed | None


class Hits(NamedTuple):
    """Which rules hit, and which may, (n, rules); the latter where values may be missing."""

    sure: Needed
    perhaps: Needed | None


def every_class(t: Terms, x: Needed, k: int) -> Needed:
    """A range that excludes nothing."""
    wide = t.op("Concat", t.op("Shape", x, start=0, end=1), t.constant([k], INT64), axis=0)
    return t.op("Expand", t.constant([[True]], BOOL), wide)


def rule_lean(t: Terms, source: Soft, hits: Hits, allowed: Needed) -> Lean:
    """The soft rules of a table that are heard."""
    named = source.inner.named.astype(DOUBLE)
    softly = t.constant(source.shares[None] < 1, SINGLE)
    speaking = t.op("Mul", _speaking(t, source, hits), softly)
    inside = t.op("MatMul", t.cast(allowed, DOUBLE), t.constant(named.T, DOUBLE))
    hit = t.op("Greater", speaking, t.constant(0.0))
    toward, against, heard = _odds(t, source.shares, inside, allowed, hit)
    lean = t.op(
        "Add",
        t.op("MatMul", toward, t.constant(named, DOUBLE)),
        t.op("MatMul", against, t.constant(1.0 - named, DOUBLE)),
    )
    return Lean(t.op("Mul", lean, t.cast(allowed, DOUBLE)), t.any(heard))


def rule_rows(t: Terms, source: Soft, hits: Hits, seen: Seen) -> Needed:
    """A soft table as a prediction: a rule that always holds names its class outright."""
    certain = source.inner.named * (source.shares == 1)[:, None]
    sure = t.op("MatMul", t.cast(_speaking(t, source, hits), DOUBLE), t.constant(certain, DOUBLE))
    soft = lean_rows(t, rule_lean(t, source, hits, seen.allowed), seen.allowed, seen.lacking)
    outright = t.any(t.op("Greater", sure, t.constant(0.0, DOUBLE)))
    return t.cast(t.op("Where", outright, sure, soft), SINGLE)


def formula_lean(t: Terms, source: Soft, said: Needed, allowed: Needed) -> Lean:
    """What formulas name, with one confidence."""
    if isinstance(source.inner, Graded):
        said = t.op("Greater", said, t.constant(0.0))
    inside = t.total(t.cast(t.op("And", said, allowed), DOUBLE))
    toward, against, heard = _odds(t, source.shares, inside, allowed, None)
    lean = t.op("Where", said, toward, against)
    rows = t.op("Where", t.op("And", heard, allowed), lean, t.constant(0.0, DOUBLE))
    return Lean(rows, heard)


def lean_rows(t: Terms, lean: Lean, allowed: Needed, unsure: Needed | None) -> Needed:
    """Distributions over the range; zero rows where nothing is heard for sure."""
    masked = t.op("Where", allowed, lean.rows, t.constant(-math.inf, DOUBLE))
    shares = t.op("Softmax", masked, axis=1)
    heard = lean.heard
    if unsure is not None:
        heard = t.op("And", heard, t.op("Not", unsure))
    return t.op("Where", heard, shares, t.constant(0.0, DOUBLE))


def undecided(t: Terms, hits: Hits) -> Needed | None:
    """Rows in which a missing value leaves open whether a rule hits, (n, 1); None: never."""
    return None if hits.perhaps is None else t.any(t.op("Greater", hits.perhaps, hits.sure))


def weighed_rows(
    t: Terms, said: Needed | None, leans: list[Lean], allowed: Needed, unsure: Needed | None
) -> Needed:
    """An expert's rows with the odds of all soft ranges multiplied in."""
    lean = leans[0]
    for more in leans[1:]:
        lean = Lean(t.op("Add", lean.rows, more.rows), t.op("Or", lean.heard, more.heard))
    alone = lean_rows(t, lean, allowed, unsure)
    if said is None:
        return t.cast(alone, SINGLE)
    zero, one = t.constant(0.0, DOUBLE), t.constant(1.0, DOUBLE)
    said = t.cast(said, DOUBLE)
    top = t.op("ReduceMax", lean.rows, axes=[1], keepdims=1)
    moved = t.op("Mul", said, t.op("Exp", t.op("Sub", lean.rows, top)))
    total = t.total(moved)
    some = t.op("Greater", total, zero)
    kept = t.op("Div", moved, t.op("Where", some, total, one))
    kept = t.op("Where", t.op("And", some, lean.heard), kept, said)
    if unsure is not None:
        outright = t.any(t.op("Equal", said, one))
        kept = t.op("Where", t.op("And", unsure, t.op("Not", outright)), zero, kept)
    spoken = t.any(t.op("Not", t.op("Equal", said, zero)))
    return t.cast(t.op("Where", spoken, kept, alone), SINGLE)


def _speaking(t: Terms, source: Soft, hits: Hits) -> Needed:
    if source.inner.policy == "intersect":
        return hits.sure
    may_hit = hits.sure if hits.perhaps is None else hits.perhaps
    count = t.op("CumSum", may_hit, t.constant(1, INT64))
    first = t.cast(t.op("Equal", count, t.constant(1.0)), SINGLE)
    return t.op("Mul", hits.sure, first)


def _odds(
    t: Terms, shares: Array, inside: Needed, allowed: Needed, hit: Needed | None
) -> tuple[Needed, Needed, Needed]:
    zero, one = t.constant(0.0, DOUBLE), t.constant(1.0, DOUBLE)
    every = t.total(t.cast(allowed, DOUBLE))
    outside = t.op("Sub", every, inside)
    heard: Needed = t.op("And", t.op("Greater", inside, zero), t.op("Greater", outside, zero))
    heard = heard if hit is None else t.op("And", hit, heard)
    sides = []
    for share, count in ((shares, inside), (1.0 - shares, outside)):
        mass = t.op("Mul", t.constant(share[None], DOUBLE), every)
        ratio = t.op("Log", t.op("Div", mass, t.op("Max", count, one)))
        sides.append(t.op("Where", heard, ratio, zero))
    return sides[0], sides[1], heard
