"""How sources move along one feature: formulas by their slopes, tables cell by cell."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .directions import Direction
from .expressions import Tree, columns_in, numbers_in, value
from .knowledge import Scoped, scope_of
from .proofs import Verdict

Array = Any  # of numpy
_MOST = 200_000  # rows of a grid


def looks(sources: list[Any], column: int) -> bool:
    """Whether any of some sources looks at a column."""
    trees = [columns_in(tree) for source in sources for tree in source.trees]
    return any(column in source.columns for source in sources) or any(column in t for t in trees)


def has_holes(known: Scoped) -> bool:
    """Whether a value may be missing, or be none that anybody named."""
    return any(column.may_miss or column.other for column in known.columns)


def moves(tree: Tree, shape: Direction) -> bool:
    """Whether a formula moves as a shape says and is always defined; rounding keeps the order."""
    found = _slope(tree, shape.column)
    return found is not None and found * shape.sign >= 0


def _slope(tree: Tree, column: int) -> float | None:
    """A number of the slope's sign; None where it is not known, or the value may be undefined."""
    op, *parts = tree
    if op == "number":
        return 0.0
    if op == "column":
        return float(parts[0] == column)
    if op in ("neg", "+", "-"):
        slopes = [slope for part in parts if (slope := _slope(part, column)) is not None]
        if len(slopes) < len(parts) or sum(slope != 0 for slope in slopes) > 1:
            return None  # where the feature stands twice rounding need not keep the order
        last = slopes[-1] if op == "+" else -slopes[-1]
        return last if len(slopes) == 1 or not slopes[0] else slopes[0]
    if op in ("*", "/"):
        factor = _constant(parts[1])
        rest = parts[0]
        if factor is None and op == "*":
            factor, rest = _constant(parts[0]), parts[1]
        inner = _slope(rest, column)
        if factor is None or inner is None or (op == "/" and factor == 0):
            return None
        return inner * math.copysign(1.0, factor) if factor else 0.0
    return None


def _constant(tree: Tree) -> float | None:
    if tree[0] == "neg":
        inner = _constant(tree[1])
        return None if inner is None else -inner
    return float(tree[1]) if tree[0] == "number" else None


def along(
    known: Scoped,
    shape: Direction,
    sources: list[Any],
    ask: Callable[[Array], Array | None],
    keeps: Callable[[Array, Array], Array],
) -> Verdict:
    """A row of every cell of some tables, line by line along the feature."""
    rows, steps = _cut(known, shape, sources)
    if rows is None or (shape.region is not None and not _simple(shape.region)):
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


def _cut(known: Scoped, shape: Direction, sources: list[Any]) -> tuple[Array | None, int]:
    """The rows, the shape's column running fastest, and how many there are on a line."""
    low, high = scope_of(known)
    axes: list[list[float]] = []
    for place, column in enumerate(known.columns):
        cuts = {cut for s in sources if place in s.columns for cut in s.cuts(place)}
        if shape.region is not None and place in columns_in(shape.region):
            for number in numbers_in(shape.region):
                near = np.float32(number)
                cuts |= {float(near), float(np.nextafter(near, np.float32(np.inf)))}
        inner = sorted(cut for cut in cuts if low[place] < cut <= high[place])
        if column.levels:
            inner = [float(level) for level in range(1, len(column.levels))] if cuts else []
        lacks = [math.nan] if place != shape.column and (column.may_miss or column.other) else []
        axes.append([float(low[place]), *inner, *lacks])
    if math.prod(map(len, axes)) > _MOST:
        return None, 0
    order = [i for i in range(len(axes)) if i != shape.column] + [shape.column]
    grid = np.array(list(itertools.product(*(axes[i] for i in order))), np.float32)
    rows = np.empty_like(grid)
    rows[:, order] = grid
    return rows, len(axes[shape.column])


def _simple(tree: Tree) -> bool:
    """Whether a region only compares columns with numbers."""
    op, *parts = tree
    if op in ("<", "<=", ">", ">=", "==", "!="):
        return all(part[0] in ("column", "number") for part in parts)
    return op in ("number", "column") or all(_simple(part) for part in parts)
