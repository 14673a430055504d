"""Whether a bundle keeps its shapes, from its structure: no row is sampled, no weight looked at.

A network of the kind `lipschitz` moves the place of a row as a shape says, for any weights; its
bell has one width. What is left to show is that range and prediction move the same way: tables cell
by cell, formulas in which the feature stands once, under sums, differences and constant factors.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .answers import said_of
from .directions import Direction
from .expressions import Tree, columns_in, numbers_in, value
from .knowledge import Graded, Known, Limits, scope_of
from .proofs import Verdict, inside
from .tables import Table

Array = Any  # of numpy
_MOST = 200_000  # rows of a grid


def monotone(known: Known, header: Mapping[str, Any]) -> Verdict:
    """Whether more of a feature never moves the answer against its shape, over the whole scope."""
    model = header["model"]
    options = model.get("options", {})
    if model["layer"] != "lipschitz" or header.get("beside") is not None:
        return Verdict("unknown")
    shaped = [shape.column for shape in known.directions]
    for shape in known.directions:
        looked = set() if shape.region is None else set(columns_in(shape.region))
        if shaped.count(shape.column) > 1 or looked & ({*shaped} - {shape.column}):
            return Verdict("unknown")
    heard = options["hears"] or options["start"] == "expert" or float(header["rely"]) > 0
    for shape in known.directions:
        found = _range_moves(known, shape)
        if found.status != "proved":
            return found
        if heard and known.predict.sources:
            found = _prediction_moves(known, shape)
            if found.status != "proved":
                return found
    return Verdict("proved")


def _range_moves(known: Known, shape: Direction) -> Verdict:
    sources = known.range.sources
    if not _looks(sources, shape.column):
        return Verdict("proved")
    if all(isinstance(source, Table) for source in sources):
        return _along(known, shape, sources, lambda x: said_of(known, x).allowed, _rises)
    strict = known.range.combine == "all" and (len(sources) == 1 or known.range.empty == "error")
    kept = all(
        not _looks([source], shape.column)
        or (
            isinstance(source, Limits)
            and source.crossed == "error"
            and all(_moves(tree, shape) for tree in source.trees)
        )
        for source in sources
    )
    return Verdict("proved" if strict and kept and not _holes(known) else "unknown")


def _prediction_moves(known: Known, shape: Direction) -> Verdict:
    sources = known.predict.sources
    around = [*sources, *known.range.sources]
    if not _looks(around, shape.column):
        return Verdict("proved")
    if all(isinstance(source, Table) for source in around):
        return _along(known, shape, around, lambda x: said_of(known, x).prior, _dominates)
    first = sources[0]
    kept = isinstance(first, Graded) and _moves(first.tree, shape) and known.confusion is None
    silent = known.range.sources and known.conflict != "error"
    if not kept or _holes(known) or (silent and inside(known).status != "proved"):
        return Verdict("unknown")
    return Verdict("proved")


def _looks(sources: list[Any], column: int) -> bool:
    trees = [columns_in(tree) for source in sources for tree in source.trees]
    return any(column in source.columns for source in sources) or any(column in t for t in trees)


def _holes(known: Known) -> bool:
    return any(column.missing or column.other for column in known.columns)


def _moves(tree: Tree, shape: Direction) -> bool:
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


def _along(
    known: Known,
    shape: Direction,
    sources: list[Any],
    ask: Callable[[Array], Array],
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
    here = np.flatnonzero(line[1:] == line[:-1])
    below, above = (here, here + 1) if shape.sign > 0 else (here + 1, here)
    bad = here[~keeps(said[below], said[above])]
    if len(bad):
        return Verdict("refuted", tuple(float(v) for v in rows[bad[0]]))
    return Verdict("proved")


def _cut(known: Known, shape: Direction, sources: list[Any]) -> tuple[Array | None, int]:
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
        lacks = [math.nan] if place != shape.column and (column.missing or column.other) else []
        axes.append([float(low[place]), *inner, *lacks])
    if math.prod(map(len, axes)) > _MOST:
        return None, 0
    order = [i for i in range(len(axes)) if i != shape.column] + [shape.column]
    grid = np.array(list(itertools.product(*(axes[i] for i in order))), np.float32)
    rows = np.empty_like(grid)
    rows[:, order] = grid
    return rows, len(axes[shape.column])


def _rises(low: Array, high: Array) -> Array:
    """The strong set order of two ranges, (n, k) each."""
    at, k = np.arange(low.shape[1]), low.shape[1]
    lost = np.where(low & ~high, at, -1).max(1) < np.where(high, at, k).min(1)
    won = np.where(high & ~low, at, k).min(1) > np.where(low, at, -1).max(1)
    return lost & won


def _dominates(low: Array, high: Array) -> Array:
    """First-order dominance, where both speak or neither does."""
    rises = (high.cumsum(1) <= low.cumsum(1) + 1e-6).all(1)
    return rises & (low.any(1) == high.any(1))


def _simple(tree: Tree) -> bool:
    """Whether a region only compares columns with numbers."""
    op, *parts = tree
    if op in ("<", "<=", ">", ">=", "==", "!="):
        return all(part[0] in ("column", "number") for part in parts)
    return op in ("number", "column") or all(_simple(part) for part in parts)
