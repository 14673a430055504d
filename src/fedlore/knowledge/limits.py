"""What holds of single formulas in every row of a scope: for lint, which names each by itself.

A certificate speaks of all sources as they act together, see `kernel.prove`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kernel.answers import value
from ..kernel.enclosure import Boxes, grade, never_above
from ..kernel.expressions import Tree
from ..kernel.prove import ask_formulas, marks_of
from ..kernel.search import BUDGET, Scope, Verdict, try_rows

Array = Any  # of numpy

_NEAR = 16 * float(np.finfo(np.float32).eps)  # by how much limits may cross and are taken as equal


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
