"""Whether one formula never computes more than another: what two sums share cancels exactly.

Equal parts of two formulas are computed to equal numbers. Around them each is a weighted sum with
exact weights, off by what rounding adds at most; what is left is bounded part by part.
"""

from fractions import Fraction

import numpy as np

from .cells import single
from .expressions import Tree
from .intervals import Array, Boxes

_DEEPEST = 3  # how far min and max are taken apart
_LONGEST = 8  # and sums and products
_HALF = 2.0**-24  # what rounding adds at most, as a share of the result
_LOST = 2.0**-125  # and where results are subnormal, or taken for 0

Pairs = dict[tuple[Tree, Tree], Array]
Sum = dict[Tree | None, Fraction]  # weights of parts that are no sums; None is the part that is 1


def never_above(small: Tree, large: Tree, boxes: Boxes, depth: int = _DEEPEST) -> Array:
    """In which boxes one formula never exceeds another where both have a value, (b,) bool."""
    if small == large:
        return np.ones(len(boxes.low), bool)
    below, above = boxes.bounds(small), boxes.bounds(large)
    sure = (below[1] <= above[0]) | np.isnan(below[0]) | np.isnan(above[0])
    sure |= _least_gap(small, large, boxes) >= 0
    if depth and not sure.all():
        sure |= _keeps_order(small, large, boxes, {}, _LONGEST)
        for tree, is_large in ((large, True), (small, False)):
            if tree[0] in ("min", "max"):
                pairs = [(small, part) if is_large else (part, large) for part in tree[1:]]
                parts = [never_above(a, b, boxes, depth - 1) for a, b in pairs]
                both = (tree[0] == "min") == is_large
                sure |= np.all(parts, axis=0) if both else np.any(parts, axis=0)
    return sure


def _keeps_order(small: Tree, large: Tree, boxes: Boxes, known: Pairs, depth: int) -> Array:
    """Where rounding keeps the order: a + b <= c + d if a <= c and b <= d; likewise - and *."""
    if small == large or not depth:
        return np.full(len(boxes.low), small == large)
    if (small, large) in known:
        return known[small, large]
    sure = boxes.bounds(small)[1] <= boxes.bounds(large)[0]

    def below(one: Tree, other: Tree) -> Array:
        return _keeps_order(one, other, boxes, known, depth - 1)

    def positive(tree: Tree) -> Array:
        return boxes.bounds(tree)[0] >= 0

    if small[0] == large[0] and small[0] in ("+", "-", "*"):
        (op, p, q), (_, r, s) = small, large
        pairs = below(p, r) & (below(s, q) if op == "-" else below(q, s))
        if op == "*":  # of numbers that are not negative, but for those that are the same
            pairs &= (positive(p) | (q == s)) & (positive(q) | (p == r))
        sure = sure | pairs
    if small[0] == "-":  # less than what it was taken from
        sure = sure | (positive(small[2]) & below(small[1], large))
    if large[0] == "+":
        for kept, added in (large[1:], large[:0:-1]):
            sure = sure | (positive(added) & below(small, kept))
    known[small, large] = sure
    return sure


def _least_gap(small: Tree, large: Tree, boxes: Boxes) -> Array:
    """How much the large formula exceeds the small one at least, rounding taken off."""
    total, rounded = _sum(large, boxes)
    taken, more = _sum(small, boxes)
    for part, weight in taken.items():
        total[part] = total.get(part, Fraction(0)) - weight
    least, size = np.zeros(len(boxes.low)), np.zeros(len(boxes.low))
    for part, weight in total.items():
        if weight == 0:
            continue
        ends = (np.ones(1),) * 2 if part is None else boxes.bounds(part)
        with np.errstate(all="ignore"):
            found = np.minimum(ends[0] * float(weight), ends[1] * float(weight))
            least = least + found
            size = size + np.abs(found)
    # the sum above is itself computed, in double precision
    gap = least - size * 2.0**-44 - rounded - more
    return np.where(np.isnan(gap), -np.inf, gap)


def _sum(tree: Tree, boxes: Boxes) -> tuple[Sum, Array]:
    """A formula as a weighted sum, and how far its computed value may be from it, (b,)."""
    op, nothing = tree[0], np.zeros(len(boxes.low))
    if op == "number":
        return {None: Fraction(single(tree[1]))}, nothing
    if op == "neg":
        parts, error = _sum(tree[1], boxes)
        return {part: -weight for part, weight in parts.items()}, error
    if op in ("+", "-"):
        (left, error), (right, more) = _sum(tree[1], boxes), _sum(tree[2], boxes)
        total = dict(left)
        for part, weight in right.items():
            total[part] = total.get(part, Fraction(0)) + (weight if op == "+" else -weight)
        return total, error + more + _rounding(tree, boxes)
    if op in ("*", "/"):
        rest, factor = tree[1], _number(tree[2])
        if factor is None and op == "*":
            rest, factor = tree[2], _number(tree[1])
        if factor is not None and (op == "*" or factor):
            factor = factor if op == "*" else 1 / factor
            parts, error = _sum(rest, boxes)
            scaled = {part: weight * factor for part, weight in parts.items()}
            return scaled, error * abs(float(factor)) * (1 + 2.0**-50) + _rounding(tree, boxes)
    return {tree: Fraction(1)}, nothing


def _number(tree: Tree) -> Fraction | None:
    if tree[0] == "neg":
        inner = _number(tree[1])
        return None if inner is None else -inner
    return Fraction(single(tree[1])) if tree[0] == "number" else None


def _rounding(tree: Tree, boxes: Boxes) -> Array:
    """What rounding the last operation of a formula adds at most."""
    first, last = boxes.bounds(tree)
    return np.maximum(np.abs(first), np.abs(last)) * _HALF * (1 + 2.0**-20) + _LOST
