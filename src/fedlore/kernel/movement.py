"""Whether range and prediction move along a feature as a shape says: tables cell by cell, formulas
by the sign of their slope, and nothing where values may be missing."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .answers import numbers_of, said_of, sets_of, value
from .cells import after, single
from .expressions import Tree, columns_in, numbers_in
from .knowledge import Direction, Known, scope_of
from .prove import always_defined, stays_inside
from .schema import Feature
from .search import Verdict
from .slopes import keeps_sign
from .sources import Limits, Predicted, Table

Array = Any  # of numpy
_MOST = 200_000  # rows of a grid


def looks(sources: Sequence[Any], column: int) -> bool:
    """Whether any of some sources looks at a column."""
    trees = [columns_in(tree) for source in sources for tree in source.trees]
    return any(column in source.columns for source in sources) or any(column in t for t in trees)


def range_moves(known: Known, shape: Direction) -> Verdict:
    """Whether what is allowed rises or falls as the shape says, all over the scope."""
    side = known.range
    if not looks(side.sources, shape.column):
        return Verdict("proved")
    if all(isinstance(source, Table) for source in side.sources):
        if known.line is not None:
            return _along(known, shape, side.sources, lambda x: _pieces(known, x), _intervals_rise)
        return _along(known, shape, side.sources, lambda x: said_of(known, x).allowed, sets_rise)
    kept = all(
        not looks([source], shape.column)
        or (
            isinstance(source, Limits)
            and source.crossed == "error"
            and all(_keeps(known, tree, shape) for tree in source.trees)
        )
        for source in side.sources
    )
    # between rising ends, what all sources leave has rising ends; a set that a policy opens has not
    strict = side.combine == "all" and side.empty == "error"
    if known.line is not None:
        kept = kept and all(isinstance(source, Limits) for source in side.sources)
    else:
        strict = strict or (side.combine == "all" and len(side.sources) == 1)
    return Verdict("proved" if kept and strict and not _has_holes(known) else "unknown")


def prediction_moves(known: Known, shape: Direction) -> Verdict:
    """Whether what the expert says moves as the shape says and is never silenced on the way."""
    sources = known.predict.sources
    soft = known.soft
    around = [*sources, *known.range.sources, *soft]
    if not looks(around, shape.column):
        return Verdict("proved")
    if all(isinstance(source, Table) for source in around):
        if known.line is not None:
            return _along(known, shape, around, lambda x: _points(known, x), numbers_rise)
        return _along(known, shape, around, lambda x: said_of(known, x).prior, dominates)
    # who always has a value is never passed over: behind the first nobody is asked
    heard = sources if known.predict.combine == "average" else sources[:1]
    formulas = heard and all(isinstance(source, Predicted) for source in heard)
    if soft or not formulas or _has_holes(known) or known.confusion is not None:
        return Verdict("unknown")
    if known.line is not None:
        silenced = known.conflict == "abstain"
    else:
        silenced = bool(known.range.sources) and known.conflict != "error"
    kept = all(_keeps(known, source.tree, shape) for source in heard)
    kept = kept and (not silenced or stays_inside(known).status == "proved")
    return Verdict("proved" if kept else "unknown")


def _keeps(known: Known, tree: Tree, shape: Direction) -> bool:
    """Whether a formula moves as a shape says, and has a value all over the scope."""
    if not keeps_sign(tree, shape.column, shape.sign):
        return False
    return always_defined(tree, scope_of(known.columns)).status == "proved"


def _has_holes(known: Known) -> bool:
    """Whether a value may be missing, or be none that anybody named."""
    return any(column.may_miss or column.other for column in known.columns)


def _along(
    known: Known,
    shape: Direction,
    sources: Sequence[Any],
    ask: Callable[[Array], Array | None],
    keeps: Callable[[Array, Array], Array],
) -> Verdict:
    """A row of every cell of some tables, line by line along the feature."""
    rows, steps = lay_grid(known.columns, shape.column, sources, shape.region)
    if rows is None or (shape.region is not None and not compares_columns(shape.region)):
        return Verdict("unknown")
    line = np.arange(len(rows)) // steps
    if shape.region is not None:
        within = value(shape.region, rows) > 0
        rows, line = rows[within], line[within]
    said = ask(rows)
    if said is None:  # of rows that are refused nothing follows for others
        return Verdict("unknown")
    here = np.flatnonzero(line[1:] == line[:-1])
    below, above = (here, here + 1) if shape.sign > 0 else (here + 1, here)
    bad = here[~keeps(said[below], said[above])]
    if len(bad):
        return Verdict("refuted", tuple(float(v) for v in rows[bad[0]]))
    return Verdict("proved")


def lay_grid(
    features: Sequence[Feature], column: int, tables: Sequence[Any], region: Tree | None = None
) -> tuple[Array | None, int]:
    """A row of every cell of some tables and of a region, and how many stand on a line.

    The column runs fastest; None where there are too many rows.
    """
    scope = scope_of(features)
    axes: list[list[float]] = []
    for place, feature in enumerate(features):
        cuts = {cut for table in tables if place in table.columns for cut in table.cuts(place)}
        if region is not None and place in columns_in(region):
            near = {single(number) for number in numbers_in(region)}
            cuts |= near | {after(number) for number in near}
        inner = sorted(cut for cut in cuts if scope.low[place] < cut <= scope.high[place])
        if feature.levels:
            inner = [float(level) for level in range(1, len(feature.levels))] if cuts else []
        hole = place != column and (feature.may_miss or feature.other)
        axes.append([float(scope.low[place]), *inner, *([math.nan] if hole else [])])
    if math.prod(map(len, axes)) > _MOST:
        return None, 0
    order = [i for i in range(len(axes)) if i != column] + [column]
    grid = np.array(list(itertools.product(*(axes[i] for i in order))), np.float32)
    rows = np.empty_like(grid)
    rows[:, order] = grid
    return rows, len(axes[column])


def compares_columns(tree: Tree) -> bool:
    """Whether a region only compares columns with numbers: two columns are compared in no cell."""
    op, *parts = tree
    if op in ("<", "<=", ">", ">=", "==", "!="):
        return sorted(part[0] for part in parts) == ["column", "number"]
    return op in ("number", "column") or all(compares_columns(part) for part in parts)


def _pieces(known: Known, x: Array) -> Array | None:
    """The pieces of the line in each row's set, (n, p); None where a row is refused."""
    if numbers_of(known, x)[1].any():
        return None
    sets, (first, last) = sets_of(known, x), known.number.pieces.T
    inside = (first >= sets.lower[:, :, None]) & (last <= sets.upper[:, :, None])
    found: Array = inside.any(1)
    return found


def _points(known: Known, x: Array) -> Array | None:
    """The number that counts in each row, (n,); NaN where the expert is silent."""
    point, refused = numbers_of(known, x)
    return None if refused.any() else point


def sets_rise(low: Array, high: Array) -> Array:
    """The strong set order of two ranges, (n, k) each."""
    at, k = np.arange(low.shape[1]), low.shape[1]
    lost = np.where(low & ~high, at, -1).max(1) < np.where(high, at, k).min(1)
    won = np.where(high & ~low, at, k).min(1) > np.where(low, at, -1).max(1)
    return lost & won


def _intervals_rise(low: Array, high: Array) -> Array:
    """Sets that stay the same, or intervals that rise by both ends, (n, p) each."""
    p = low.shape[1]
    at = np.arange(p)
    ends = [(np.where(s, at, p).min(1), np.where(s, at, -1).max(1)) for s in (low, high)]
    whole = [
        s.sum(1) == last - first + 1 for s, (first, last) in zip((low, high), ends, strict=True)
    ]
    (a, b), (c, d) = ends
    return (low == high).all(1) | (whole[0] & whole[1] & (a <= c) & (b <= d))


def dominates(low: Array, high: Array) -> Array:
    """First-order dominance, where both speak or neither does."""
    rises = (high.cumsum(1) <= low.cumsum(1) + 1e-6).all(1)
    return rises & (low.any(1) == high.any(1))


def numbers_rise(low: Array, high: Array) -> Array:
    """Numbers that do not fall, or silence on both sides."""
    return (low <= high) | (np.isnan(low) & np.isnan(high))
