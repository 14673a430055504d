"""Whether the set and the number of an expert move along a feature as a shape says."""

from typing import Any

import numpy as np

from .directions import Direction
from .graded import Limits
from .movement import along, has_holes, looks, moves
from .numberproofs import number_inside
from .numbersets import (
    NamedNumber,
    NumberKnown,
    bands_of,
    number_within,
    points_of,
    refused_rows,
    sets_of,
)
from .proofs import Verdict
from .tables import Table

Array = Any  # of numpy


def number_range_moves(known: NumberKnown, shape: Direction) -> Verdict:
    """Intervals whose ends move as the shape says, or sets that stay the same."""
    side = known.range
    if not looks(side.sources, shape.column):
        return Verdict("proved")
    if all(isinstance(source, Table) for source in side.sources):
        return along(known, shape, side.sources, lambda x: _pieces(known, x), _rises)
    kept = all(
        not looks([source], shape.column)
        or (isinstance(source, Limits) and all(moves(tree, shape) for tree in source.trees))
        for source in side.sources
    )
    # between rising ends, what all sources leave has rising ends; a set that a policy opens has not
    whole = all(isinstance(source, Limits) for source in side.sources)
    strict = side.combine == "all" and side.empty == "error"
    return Verdict("proved" if kept and whole and strict and not has_holes(known) else "unknown")


def number_prediction_moves(known: NumberKnown, shape: Direction) -> Verdict:
    """A number that moves as the shape says and is never silenced on the way."""
    sources = known.predict.sources
    around = [*sources, *known.range.sources]
    if not looks(around, shape.column):
        return Verdict("proved")
    if all(isinstance(source, Table) for source in around):
        return along(known, shape, around, lambda x: _points(known, x), _climbs)
    first = sources[0]
    kept = isinstance(first, NamedNumber) and moves(first.tree, shape) and not has_holes(known)
    if known.conflict == "abstain":
        kept = kept and number_inside(known).status == "proved"
    return Verdict("proved" if kept else "unknown")


def _pieces(known: NumberKnown, x: Array) -> Array | None:
    """The pieces of the line in each row's set, (n, p); None where a row is refused."""
    sets = sets_of(known, x)
    if refused_rows(known, x).any():
        return None
    found = np.zeros((len(x), len(known.pieces)), bool)
    for allowed, low, high in sets.parts:
        inner = (known.pieces[None, :, 0] >= low[:, None]) & (
            known.pieces[None, :, 1] <= high[:, None]
        )
        found |= allowed & inner
    return found


def _points(known: NumberKnown, x: Array) -> Array | None:
    """The number that counts in each row, (n,); NaN where the expert is silent."""
    if refused_rows(known, x).any():
        return None
    return number_within(known, points_of(known, x)[0], bands_of(known, x))


def _rises(low: Array, high: Array) -> Array:
    """Sets that stay the same, or intervals that rise by both ends, (n, p) each."""
    p = low.shape[1]
    at = np.arange(p)
    ends = [(np.where(s, at, p).min(1), np.where(s, at, -1).max(1)) for s in (low, high)]
    whole = [
        s.sum(1) == last - first + 1 for s, (first, last) in zip((low, high), ends, strict=True)
    ]
    (a, b), (c, d) = ends
    return (low == high).all(1) | (whole[0] & whole[1] & (a <= c) & (b <= d))


def _climbs(low: Array, high: Array) -> Array:
    return (low <= high) | (np.isnan(low) & np.isnan(high))
