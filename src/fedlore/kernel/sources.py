"""The sources of a file over boxes of rows: tables, formulas, and what holds in most cases only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from .cells import after
from .enclosure import Boxes, grade, never_above
from .expressions import Tree
from .sheets import Rule

Array = Any  # of numpy


@dataclass(frozen=True, eq=False)
class Table:
    """Rules with a hit policy, in the order in which they speak."""

    name: str
    rules: list[Rule]
    policy: str
    k: int
    trees: tuple[Any, ...] = ()  # a table has no formulas
    soft = False  # whether any of it holds in most cases only

    @cached_property
    def named(self) -> Array:
        """Which rule names which class, (rules, k)."""
        out = np.zeros((len(self.rules), self.k), bool)
        for place, rule in enumerate(self.rules):
            out[place, list(rule.outcome)] = True
        return out

    @cached_property
    def columns(self) -> list[int]:
        return sorted({column for rule in self.rules for column in rule.spans})

    def cuts(self, column: int) -> list[float]:
        """The numbers at which a condition on a column begins or ceases to hold."""
        spans = [span for rule in self.rules for span in rule.spans.get(column, ())]
        found = {first for first, _ in spans} | {after(last) for _, last in spans if last < np.inf}
        return sorted(cut for cut in found if np.isfinite(cut))

    def over(self, boxes: Boxes) -> tuple[Array, Array, Array]:
        """Over boxes: which rules may hit, which surely do, (b, rules), and which condition leaves
        it open, (b, rules, columns)."""
        if id(self) not in boxes.seen:
            boxes.seen[id(self)] = self._look(boxes.low, boxes.high)
        found: tuple[Array, Array, Array] = boxes.seen[id(self)]
        return found

    def _look(self, low: Array, high: Array) -> tuple[Array, Array, Array]:
        b, r = len(low), len(self.rules)
        may, sure = np.ones((b, r), bool), np.ones((b, r), bool)
        unsettled = np.zeros((b, r, len(self.columns)), bool)
        for place, rule in enumerate(self.rules):
            for column, spans in rule.spans.items():
                a, z = low[:, column], high[:, column]
                touched, inside = np.zeros(b, bool), np.zeros(b, bool)
                for first, last in spans:
                    touched |= (first <= z) & (last >= a)
                    inside |= (first <= a) & (last >= z)
                may[:, place] &= touched
                sure[:, place] &= inside
                unsettled[:, place, self.columns.index(column)] = touched & ~inside
        return may, sure, unsettled & may[:, :, None]

    def sure(self, boxes: Boxes) -> Array:
        """Classes that a range allows in every row of a box, (b, k)."""
        may, sure, _ = self.over(boxes)
        if self.policy == "intersect":
            return ~(may @ ~self.named)
        return (sure @ self.named) | ~may.any(1)[:, None]

    def may_say(self, boxes: Boxes) -> Array:
        """Classes that a prediction may name somewhere in a box, (b, k)."""
        may, sure, _ = self.over(boxes)
        if self.policy in ("first", "priority"):
            earlier = np.cumsum(sure, axis=1) - sure  # a rule behind a sure one never speaks
            may = may & (earlier == 0)
        return may @ self.named

    def speaks(self, boxes: Boxes) -> Array:
        """Boxes in which a rule hits every row, (b,)."""
        found: Array = self.over(boxes)[1].any(1)
        return found

    def mostly(self) -> "Table":
        """The same where rules hold in most cases only."""
        if self.policy not in ("first", "priority", "intersect"):
            raise KnowledgeError(f"confidences do not go with the policy {self.policy}")
        return self

    def safe(self, boxes: Boxes) -> Array:
        """Boxes in which it refuses no row, (b,)."""
        if self.policy == "intersect":
            return self.sure(boxes).any(1)
        if self.policy != "unique":
            return np.ones(len(boxes), bool)
        may, _, _ = self.over(boxes)
        return (may @ self.named).sum(1) <= 1


@dataclass(frozen=True)
class Grades:
    """Classes that numbers are cut into; of a number a `Line` stands in its place."""

    written: tuple[float, ...]  # the edges

    @cached_property
    def edges(self) -> Array:
        """The edges as values are held against them, (k - 1,)."""
        return np.array(self.written, np.float32)

    @property
    def k(self) -> int:
        return len(self.written) + 1

    def touched(self, low: Array, high: Array) -> Array:
        """The classes that numbers between two ends may have, (b, k)."""
        first, last = (grade(np.nan_to_num(e), self.edges)[:, None] for e in (low, high))
        grades = np.arange(self.k)
        return (first <= grades) & (grades <= last)

    within = touched  # those that numbers between two ends leave


@dataclass(frozen=True, eq=False)
class Limits:
    """A range between two formulas: all classes, or numbers, that meet [lower, upper]."""

    lower: Tree | None
    upper: Tree | None
    cells: Any  # Grades, or the Line
    crossed: str
    columns: tuple[int, ...] = ()  # a formula has no thresholds
    soft = False

    @property
    def k(self) -> int:
        return int(self.cells.k)

    @property
    def trees(self) -> list[Tree]:
        return [tree for tree in (self.lower, self.upper) if tree is not None]

    def sure(self, boxes: Boxes) -> Array:
        """Cells that are allowed in every row of a box, (b, k)."""
        found: Array = self.cells.within(*self.outer(boxes))
        return found

    def mostly(self) -> "Limits":
        """The same where it holds in most cases only: crossed limits say nothing."""
        return replace(self, crossed="all")

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
            return np.ones(len(boxes), bool)
        return never_above(self.lower, self.upper, boxes)


@dataclass(frozen=True, eq=False)
class Prediction:
    """A prediction by a formula: the number that it names or its class, or a blurred one."""

    tree: Tree
    cells: Any  # Grades, or the Line
    spread: float | None = None
    columns: tuple[int, ...] = ()  # a formula has no thresholds
    soft = False

    @property
    def k(self) -> int:
        return int(self.cells.k)

    @property
    def trees(self) -> list[Tree]:
        return [self.tree]

    def mostly(self) -> "Prediction":
        """The same where it holds in most cases only."""
        if self.spread is not None:
            raise KnowledgeError("a formula has a spread and a confidence")
        return self

    def may_say(self, boxes: Boxes) -> Array:
        if self.spread is not None:
            return np.ones((len(boxes), self.k), bool)
        least, most = boxes.bounds(self.tree)
        found: Array = self.cells.touched(least, most) & ~np.isnan(least)[:, None]
        return found

    def speaks(self, boxes: Boxes) -> Array:
        """Boxes in which every row gets a class, or a number, (b,)."""
        return ~boxes.interval(self.tree).undefined

    def safe(self, boxes: Boxes) -> Array:
        return np.ones(len(boxes), bool)


@dataclass(frozen=True, eq=False)
class Soft:
    """A source with a confidence for each rule, or for its formulas."""

    inner: Any  # Table, Prediction or Limits: as if it always held
    shares: Array  # (rules,), or (1,) for formulas; 1 for a rule that always holds
    soft = True

    @property
    def columns(self) -> Any:
        return self.inner.columns

    @property
    def trees(self) -> Any:
        return self.inner.trees

    @property
    def k(self) -> int:
        return int(self.inner.k)

    def cuts(self, column: int) -> list[float]:
        found: list[float] = self.inner.cuts(column)
        return found

    def over(self, boxes: Boxes) -> Any:
        return self.inner.over(boxes)

    def safe(self, boxes: Boxes) -> Array:
        """It refuses no row."""
        return np.ones(len(boxes), bool)

    def split(self) -> tuple[list[Any], list["Soft"]]:
        if self.trees:
            return [], [self]
        table, always = self.inner, self.shares == 1
        hard, rest = (
            replace(table, rules=[table.rules[i] for i in np.flatnonzero(some)])
            for some in (always, ~always)
        )
        return [hard] if hard.rules else [], [Soft(rest, self.shares[~always])]


@dataclass(frozen=True, eq=False)
class Side:
    """The sources of [predict] or [range] and how they are combined."""

    sources: Sequence[Any]
    combine: str
    empty: str = "error"
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class SoftWeighting:
    """An expert, if there is one, with the odds of ranges that hold in most cases only."""

    expert: Any | None
    soft: Sequence[Soft]


@dataclass(frozen=True, eq=False)
class ConfusedExpert:
    """An expert who is heard through his confusion, (k, k)."""

    expert: Any
    confusion: Array


def soften(source: Any, confidences: Sequence[float]) -> Any:
    """A source as it is, or with confidences where any of its rules has one below 1."""
    shares = np.array(confidences, np.float64)
    if not ((shares > 0) & (shares <= 1)).all():
        raise KnowledgeError("a confidence does not lie between 0 and 1")
    if (shares == 1).all():
        return source
    return Soft(source.mostly(), shares)


def split(source: Any) -> tuple[list[Any], list[Soft]]:
    """What of a range always holds, and what holds in most cases only."""
    return source.split() if source.soft else ([source], [])


def is_soft(known: Any) -> bool:
    """Whether anything in the prediction holds in most cases only."""
    return bool(known.soft) or any(one.soft for one in known.predict.sources)
