"""Formulas as sources: a class that one names, and a range between two."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .enclosure import Boxes, grade, never_above
from .expressions import Tree, columns_in, value

Array = Any  # of numpy
_EPS = float(np.finfo(np.float32).eps)


@dataclass(frozen=True, eq=False)
class Limits:
    """A range between two formulas: all classes that meet [lower, upper]."""

    lower: Tree | None
    upper: Tree | None
    edges: Array  # (k - 1,)
    crossed: str
    columns: tuple[int, ...] = ()  # a formula has no thresholds

    @property
    def trees(self) -> list[Tree]:
        return [tree for tree in (self.lower, self.upper) if tree is not None]

    def lacks(self, x: Array) -> Array:
        """Rows in which a value that either formula looks at is missing, (n,)."""
        return _lacks(self.trees, x)

    def says(self, x: Array) -> tuple[Array, Array]:
        low = np.full(len(x), -np.inf, np.float32) if self.lower is None else value(self.lower, x)
        high = np.full(len(x), np.inf, np.float32) if self.upper is None else value(self.upper, x)
        low = np.where(np.isfinite(low), low, np.float32(-np.inf))
        high = np.where(np.isfinite(high), high, np.float32(np.inf))
        if self.crossed == "all" and len(self.trees) == 2:  # with the value they might cross
            low = np.where(self.lacks(x), np.float32(-np.inf), low)
            high = np.where(self.lacks(x), np.float32(np.inf), high)
        with np.errstate(invalid="ignore"):
            near = np.float32(_EPS * 16) * np.maximum(np.abs(low), np.abs(high))
            far = (low > high) & (low - high > near)
        least = np.where(far, -np.inf, np.minimum(low, high))
        most = np.where(far, np.inf, np.maximum(low, high))
        grades = np.arange(len(self.edges) + 1)
        first, last = grade(least, self.edges)[:, None], grade(most, self.edges)[:, None]
        allowed = (first <= grades) & (grades <= last)
        return allowed, far & (self.crossed == "error")

    def sure(self, boxes: Boxes) -> Array:
        """Classes that are allowed in every row of a box, (b, k)."""
        begin, end = self.outer(boxes)
        grades = np.arange(len(self.edges) + 1)
        first, last = grade(begin, self.edges)[:, None], grade(end, self.edges)[:, None]
        return (first <= grades) & (grades <= last)

    def outer(self, boxes: Boxes) -> tuple[Array, Array]:
        """What the lower side is at most, and the upper one at least, over boxes, (b,) each."""
        begin, end = np.full(len(boxes), -np.inf), np.full(len(boxes), np.inf)
        if self.lower is not None:
            top = boxes.bounds(self.lower)[1]
            begin = np.where(np.isnan(top), -np.inf, top)
        if self.upper is not None:
            bottom = boxes.bounds(self.upper)[0]
            end = np.where(np.isnan(bottom), np.inf, bottom)
        return begin, end

    def safe(self, boxes: Boxes) -> Array:
        if self.crossed != "error" or self.lower is None or self.upper is None:
            return np.ones(len(boxes.low), bool)
        return never_above(self.lower, self.upper, boxes)


@dataclass(frozen=True, eq=False)
class Graded:
    """A prediction: the class of a formula's value, or a blurred one."""

    tree: Tree
    written: tuple[float, ...]  # the edges
    spread: float | None = None
    columns: tuple[int, ...] = ()  # a formula has no thresholds

    @property
    def trees(self) -> list[Tree]:
        return [self.tree]

    @property
    def edges(self) -> Array:
        """The edges as values are held against them, (k - 1,)."""
        return np.array(self.written, np.float32)

    def lacks(self, x: Array) -> Array:
        """Rows in which a value that the formula looks at is missing, (n,)."""
        return _lacks(self.trees, x)

    def says(self, x: Array) -> tuple[Array, Array]:
        found = value(self.tree, x)
        known = np.isfinite(found)
        never = np.zeros(len(x), bool)
        if self.spread is None:
            rows = grade(found, self.edges)[:, None] == np.arange(len(self.edges) + 1)
            return (rows & known[:, None]).astype(np.float32), never
        z = (np.array(self.written) - found[:, None]) / (self.spread * math.sqrt(2))
        below = (1 + np.vectorize(math.erf, otypes=[float])(np.nan_to_num(z))) * 0.5
        rows = np.diff(below, axis=1, prepend=0.0, append=1.0).astype(np.float32)
        return np.where(known[:, None], rows, np.float32(0)), never

    def may_say(self, boxes: Boxes) -> Array:
        k = len(self.edges) + 1
        if self.spread is not None:
            return np.ones((len(boxes.low), k), bool)
        least, most = boxes.bounds(self.tree)
        never = np.isnan(least)
        first, last = (grade(np.nan_to_num(e), self.edges)[:, None] for e in (least, most))
        grades = np.arange(k)
        return (first <= grades) & (grades <= last) & ~never[:, None]

    def speaks(self, boxes: Boxes) -> Array:
        """Boxes in which every row gets a class, (b,)."""
        return ~boxes.interval(self.tree).undefined

    def safe(self, boxes: Boxes) -> Array:
        return np.ones(len(boxes.low), bool)


def _lacks(trees: list[Tree], x: Array) -> Array:
    columns = sorted({column for tree in trees for column in columns_in(tree)})
    return np.isnan(x[:, columns]).any(1)
