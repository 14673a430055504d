"""Whether range and prediction move along a feature as a shape says: tables cell by cell, formulas
by the sign of their slope, and nothing where values may be missing."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .answers import numbers_of, said_of, sets_of, value
from .cells import after, single
from .expressions import Tree, columns_in, constant_of, numbers_in
from .knowledge import Bend, Direction, Known, scope_of
from .prove import always_defined, stays_inside
from .schema import Feature
from .search import Verdict
from .sources import is_soft

Array = Any  # of numpy
Keeps = Callable[[Known, Tree, Direction], bool]  # a formula moves as a shape says
Bends = Callable[[Known, Tree, Bend], bool]  # a formula bends as a shape says
_MOST = 200_000  # rows of a grid


def looks(sources: Sequence[Any], column: int) -> bool:
    """Whether any of some sources looks at a column."""
    trees = [columns_in(tree) for source in sources for tree in source.trees]
    return any(column in source.columns for source in sources) or any(column in t for t in trees)


def keeps_order(known: Known, tree: Tree, shape: Direction) -> bool:
    """Whether a formula moves as a shape says, and has a value all over the scope."""
    if not keeps_sign(tree, shape.column, shape.sign):
        return False
    return always_defined(tree, scope_of(known.columns)).status == "proved"


def keeps_sign(tree: Tree, column: int, sign: int) -> bool:
    """Whether a formula moves with the sign wherever it does not overflow, rounding included."""
    found = _sign(tree, column)
    return found is not None and found * sign >= 0


def _sign(tree: Tree, column: int) -> float | None:
    """A number of the slope's sign; None where it is not known, or the value may be undefined."""
    op, *parts = tree
    if op == "number":
        return 0.0
    if op == "column":
        return float(parts[0] == column)
    if op in ("neg", "+", "-"):
        slopes = [slope for part in parts if (slope := _sign(part, column)) is not None]
        if len(slopes) < len(parts) or sum(slope != 0 for slope in slopes) > 1:
            return None  # where the feature stands twice rounding need not keep the order
        last = slopes[-1] if op == "+" else -slopes[-1]
        return last if len(slopes) == 1 or not slopes[0] else slopes[0]
    if op in ("*", "/"):
        factor, rest = constant_of(parts[1]), parts[0]
        if factor is None and op == "*":
            factor, rest = constant_of(parts[0]), parts[1]
        inner = _sign(rest, column)
        if factor is None or inner is None or (op == "/" and factor == 0):
            return None
        return inner * math.copysign(1.0, factor) if factor else 0.0
    return None


def range_moves(known: Known, shape: Direction, keeps: Keeps = keeps_order) -> Verdict:
    """Whether what is allowed rises or falls as the shape says, all over the scope.

    `keeps` says of which formulas it is known.
    """
    side = known.range
    if not looks(side.sources, shape.column):
        return Verdict("proved")
    if not any(source.trees for source in side.sources):
        ask, rise = (_pieces, intervals_rise) if known.line is not None else (_classes, sets_rise)
        return _along(known, shape, side.sources, ask, rise)
    moving = [source for source in side.sources if looks([source], shape.column)]
    kept = all(
        source.trees
        and source.crossed == "error"
        and all(keeps(known, tree, shape) for tree in source.trees)
        for source in moving
    )
    # between rising ends, what all sources leave has rising ends; a set that a policy opens has not
    strict = side.combine == "all" and side.empty == "error"
    if known.line is not None:
        kept = kept and all(source.trees for source in side.sources)
    else:
        strict = strict or (side.combine == "all" and len(side.sources) == 1)
    return Verdict("proved" if kept and strict and not _has_holes(known) else "unknown")


def prediction_moves(known: Known, shape: Direction, keeps: Keeps = keeps_order) -> Verdict:
    """Whether what the expert says moves as the shape says and is never silenced on the way."""
    sources = known.predict.sources
    around = [*sources, *known.range.sources, *known.soft]
    if not looks(around, shape.column):
        return Verdict("proved")
    if is_soft(known):
        return Verdict("unknown")
    if not any(source.trees for source in around):
        ask, rise = (numbers_of, numbers_rise) if known.line is not None else (_prior, dominates)
        return _along(known, shape, around, ask, rise)
    # who always has a value is never passed over: behind the first nobody is asked
    heard = sources if known.predict.combine == "average" else sources[:1]
    if (
        not all(source.trees for source in heard)
        or _has_holes(known)
        or known.confusion is not None
    ):
        return Verdict("unknown")
    if known.line is not None:
        silenced = known.conflict == "abstain"
    else:
        silenced = bool(known.range.sources) and known.conflict != "error"
    kept = all(keeps(known, source.tree, shape) for source in heard)
    kept = kept and (not silenced or stays_inside(known).status == "proved")
    return Verdict("proved" if kept else "unknown")


def keeps_line(known: Known, tree: Tree, bend: Bend) -> bool:
    """Whether a formula is a line in a column, but for rounding, all over the scope.

    A line is concave and convex; what bends is bounded by its slopes elsewhere.
    """
    line = _sign(tree, bend.column) is not None
    return line and always_defined(tree, scope_of(known.columns)).status == "proved"


def range_is_whole(known: Known) -> bool:
    """Whether all that is allowed in a row is one interval: a gap would bend a number."""
    side = known.range
    tables = [source for source in side.sources if not source.trees]
    rules = [one.outcome for table in tables for one in table.rules]
    united = [table for table in tables if table.policy != "intersect" and len(table.rules) > 1]
    united += side.sources if side.combine != "all" and len(side.sources) > 1 else []
    return not united and all(one[-1] - one[0] + 1 == len(one) for one in rules)


def range_bends(known: Known, bend: Bend, keeps: Bends = keeps_line) -> Verdict:
    """Whether the end of the range that a number is stopped at bends as a shape says.

    That is the upper end of what is concave, the lower one of what is convex: beyond the other one
    nothing is promised.
    """
    side = known.range
    if not looks(side.sources, bend.column):
        return Verdict("proved")
    moving = [source for source in side.sources if looks([source], bend.column)]
    kept = side.empty == "error" and not _has_holes(known)
    kept = kept and all(source.trees and source.crossed == "error" for source in moving)
    ends = [one.upper if bend.sign < 0 else one.lower for one in moving] if kept else []
    kept = kept and all(keeps(known, tree, bend) for tree in ends if tree is not None)
    return Verdict("proved" if kept else "unknown")


def prediction_bends(known: Known, bend: Bend, keeps: Bends = keeps_line) -> Verdict:
    """Whether what the expert says bends as the shape says and nothing changes it on the way."""
    sources = known.predict.sources
    if not looks([*sources, *known.range.sources, *known.soft], bend.column):
        return Verdict("proved")
    heard = sources if known.predict.combine == "average" else sources[:1]
    if is_soft(known) or _has_holes(known) or not all(source.trees for source in heard):
        return Verdict("unknown")
    kept = all(keeps(known, source.tree, bend) for source in heard)
    kept = kept and (known.conflict == "error" or stays_inside(known).status == "proved")
    return Verdict("proved" if kept else "unknown")


def _has_holes(known: Known) -> bool:
    """Whether a value may be missing, or be none that anybody named."""
    return any(column.may_miss or column.other for column in known.columns)


def _along(
    known: Known,
    shape: Direction,
    sources: Sequence[Any],
    ask: Callable[[Known, Array], tuple[Array, Array]],
    keeps: Callable[[Array, Array], Array],
) -> Verdict:
    """A row of every cell of some tables, line by line along the feature."""
    rows, steps = lay_grid(known.columns, shape.column, sources, shape.region)
    if rows is None:
        return Verdict("unknown")
    line = np.arange(len(rows)) // steps
    if shape.region is not None:
        within = value(shape.region, rows) > 0
        rows, line = rows[within], line[within]
    said, refused = ask(known, rows)
    if refused.any():  # of rows that are refused nothing follows for others
        return Verdict("unknown")
    here = np.flatnonzero(line[1:] == line[:-1])
    below, above = (here, here + 1) if shape.sign > 0 else (here + 1, here)
    bad = here[~keeps(said[below], said[above])]
    if len(bad):
        one, other = (tuple(rows[bad[0] + step].tolist()) for step in (0, 1))
        return Verdict("refuted", one, other=other)
    cells = shape.region is None or compares_columns(shape.region)
    return Verdict("proved" if cells else "unknown")


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


def _classes(known: Known, x: Array) -> tuple[Array, Array]:
    """The range of each row, (n, k), and who is refused."""
    found = said_of(known, x)
    return found.allowed, found.refused


def _prior(known: Known, x: Array) -> tuple[Array, Array]:
    """What the expert says of each row, (n, k), and who is refused."""
    found = said_of(known, x)
    return found.prior, found.refused


def _pieces(known: Known, x: Array) -> tuple[Array, Array]:
    """The pieces of the line in each row's set, (n, p), and who is refused."""
    sets, (first, last) = sets_of(known, x), known.number.pieces.T
    inside = (first >= sets.lower[:, :, None]) & (last <= sets.upper[:, :, None])
    return inside.any(1), numbers_of(known, x)[1]


def sets_rise(low: Array, high: Array) -> Array:
    """The strong set order of two ranges, (n, k) each."""
    at, k = np.arange(low.shape[1]), low.shape[1]
    lost = np.where(low & ~high, at, -1).max(1) < np.where(high, at, k).min(1)
    won = np.where(high & ~low, at, k).min(1) > np.where(low, at, -1).max(1)
    return lost & won


def intervals_rise(low: Array, high: Array) -> Array:
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
