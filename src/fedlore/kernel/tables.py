"""A decision table: what it says of rows, and what it is sure to say all over a box of rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .cells import after
from .enclosure import Boxes
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

    def safe(self, boxes: Boxes) -> Array:
        """Boxes in which it refuses no row, (b,)."""
        if self.policy == "intersect":
            return self.sure(boxes).any(1)
        if self.policy != "unique":
            return np.ones(len(boxes.low), bool)
        may, _, _ = self.over(boxes)
        return (may @ self.named).sum(1) <= 1
