"""Where something holds: a comparison over the features of a row; what a formula never leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..core.tensors import torch
from ..errors import KnowledgeError
from ..kernel.expressions import FormulaError, parse
from ..kernel.knowledge import scope_of
from ..kernel.schema import Schema
from ..kernel.search import Verdict
from .formulas import Formula

if TYPE_CHECKING:
    from torch import Tensor
from collections.abc import Sequence
from typing import Any

from ..kernel.answers import value
from ..kernel.enclosure import Boxes, grade, never_above
from ..kernel.expressions import Tree
from ..kernel.prove import ask_formulas, marks_of
from ..kernel.search import BUDGET, Scope, try_rows

APART = 8_000  # boxes that are looked at to tell two regions apart


@dataclass(frozen=True)
class RowRegion:
    """The rows in which a comparison holds; everywhere where it is empty."""

    where: str
    schema: Schema

    def check(self) -> None:
        """Refuse a text that cannot be read, with the place of the fault."""
        try:
            parse(self.where, self.schema.features, truth=True, words=True)
        except FormulaError as error:
            said = str(error).splitlines()[0]
            raise KnowledgeError(
                f"its region cannot be read at character {error.position + 1} of "
                f"'{self.where}': {said}"
            ) from None

    @cached_property
    def formula(self) -> Formula:
        """1 inside, 0 outside, undefined where a value that it looks at is missing."""
        return Formula.parse(f"where({self.where}, 1, 0)", self.schema, words=True)

    def holds(self, x: Tensor) -> Tensor:
        """The rows that surely lie inside, (n, d) -> (n,) bool."""
        if not self.where:
            return torch.ones(len(x), dtype=torch.bool, device=x.device)
        return self.formula(x) > 0

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that it looks at."""
        return self.formula.looks_at(len(self.schema.features)) if self.where else ()

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The numbers that it names."""
        steps = self.formula.steps if self.where else ()
        return tuple(step.value for step in steps if step.op == "number")

    def find_meeting(self, other: RowRegion) -> Verdict:
        """Whether it is apart from another one over the whole scope, or a row of both."""
        both = " and ".join(f"({text})" for text in (self.where, other.where) if text)
        if not both:
            return Verdict("refuted")
        tree = RowRegion(both, self.schema).formula.tree
        scope = scope_of(self.schema.features)
        return stays_among(tree, (True, False), np.array([0.5]), scope, APART)

    def check_apart(self, other: RowRegion, meet: str, unsure: str, *, code: str) -> None:
        """Refuse a region that meets another in a row of the scope, or may do so."""
        found = self.find_meeting(other)
        if found.example is not None:
            row = self._row_words(found.example, other)
            raise KnowledgeError(f"{meet}, such as {row}", code=code)
        if found.status != "proved":
            raise KnowledgeError(unsure, code=code)

    def _row_words(self, row: tuple[float, ...], other: RowRegion) -> str:
        """What a row has in the features that either of two regions looks at."""
        columns = sorted({*self.columns, *other.columns})
        features = self.schema.features
        return ", ".join(
            f"{features[c].name} = "
            + (features[c].levels[int(row[c])] if features[c].levels else f"{row[c]:g}")
            for c in columns
        )


Array = Any  # of numpy

_NEAR = 16 * float(np.finfo(np.float32).eps)  # by how much limits may cross and are taken as equal


# Of single formulas, for lint: a certificate speaks of all sources together (`kernel.prove`).


def stays_between(
    tree: Tree,
    limits: tuple[Tree | None, Tree | None],
    scope: Scope,
    edges: Array | None = None,
    budget: int = BUDGET,
) -> Verdict:
    """Whether a formula lies between two others wherever they are defined.

    With `edges` it is enough that its class does; without them rounding is forgiven.
    """
    pairs = [(limits[0], tree), (tree, limits[1])]
    sides = [(low, high) for low, high in pairs if low is not None and high is not None]

    def holds(boxes: Boxes) -> Array:
        found = np.ones(len(boxes), bool)
        for small, large in sides:
            found &= never_above(small, large, boxes, edges)
        return found

    def broken(x: Array) -> Array:
        found = np.zeros(len(x), bool)
        for small, large in sides:
            low, high = value(small, x), value(large, x)
            with np.errstate(all="ignore"):
                if edges is None:
                    near = np.float32(_NEAR) * np.maximum(np.abs(low), np.abs(high))
                    found |= low - high > near
                else:
                    beyond = grade(low, edges) > grade(high, edges)
                    found |= beyond & ~np.isnan(low) & ~np.isnan(high)
        return found

    return ask_formulas(scope, [one for pair in sides for one in pair], holds, broken, budget)


def never_crossed(lower: Tree, upper: Tree, scope: Scope, budget: int = BUDGET) -> Verdict:
    """Whether one formula nowhere exceeds another by more than rounding."""
    return stays_between(lower, (None, upper), scope, budget=budget)


def never_reached(
    tree: Tree, edges: Array, scope: Scope, budget: int = BUDGET
) -> tuple[Verdict, ...]:
    """Of each class whether no row gets it; a refuted one comes with such a row."""
    classes = len(edges) + 1
    rows = try_rows(scope, marks_of([tree], scope))
    number = value(tree, rows.astype(np.float32))
    seen = np.where(np.isnan(number), -1, grade(number, edges))

    def verdict(place: int) -> Verdict:
        hits = np.flatnonzero(seen == place)
        if len(hits):
            return Verdict("refuted", tuple(rows[hits[0]].tolist()))
        return stays_among(tree, [one != place for one in range(classes)], edges, scope, budget)

    return tuple(verdict(place) for place in range(classes))


def stays_among(
    tree: Tree, allowed: Sequence[bool], edges: Array, scope: Scope, budget: int = BUDGET
) -> Verdict:
    """Whether the class of a formula is one of some, wherever it is defined."""
    fine = np.array(allowed, bool)
    # how many forbidden classes lie before each one: none between two is a difference of 0
    ahead = np.concatenate([[0], np.cumsum(~fine)])

    def holds(boxes: Boxes) -> Array:
        low, high = boxes.bounds(tree)
        none = ahead[grade(high, edges) + 1] == ahead[grade(low, edges)]
        return none | np.isnan(low)

    def broken(x: Array) -> Array:
        number = value(tree, x)
        return ~fine[grade(number, edges)] & ~np.isnan(number)

    return ask_formulas(scope, [tree], holds, broken, budget)
