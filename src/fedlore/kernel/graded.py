"""Formulas as sources: a class or a number that one names, and a range between two."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .enclosure import Boxes, grade, never_above
from .expressions import Tree

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


@dataclass(frozen=True, eq=False)
class NamedNumber:
    """A formula that names a number."""

    tree: Tree
    columns: tuple[int, ...] = ()  # a formula has no thresholds

    @property
    def trees(self) -> list[Tree]:
        return [self.tree]

    def speaks(self, boxes: Boxes) -> Array:
        """Boxes in which every row gets a number, (b,)."""
        return ~boxes.interval(self.tree).undefined

    def safe(self, boxes: Boxes) -> Array:
        """It refuses no row."""
        return np.ones(len(boxes), bool)
