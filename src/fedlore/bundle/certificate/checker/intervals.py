"""Bounds of a formula over boxes of rows, moved outwards by more than rounding in single precision.

Only defined values are bounded: where a formula is undefined it does not limit anything. Both ends
are NaN where it never has a value.
"""

from typing import Any

import numpy as np

from .cells import single
from .expressions import Tree

Array = np.ndarray
Ends = tuple[Array, Array]

_ROUNDING = 2.0**-21  # four times what an operation in single precision is off
_TINY = 1e-44


def bounds(tree: Tree, low: Array, high: Array) -> Ends:
    """The least and the greatest value over boxes with corners (b, d)."""
    with np.errstate(all="ignore"):
        return _bounds(tree, low, high, _ROUNDING)


def never_above(small: Tree, large: Tree, low: Array, high: Array) -> Array:
    """In which boxes one formula never exceeds another, (b,) bool; sums cancel what they share."""
    with np.errstate(all="ignore"):
        return _never_above(small, large, low, high, 3)


def _never_above(small: Tree, large: Tree, low: Array, high: Array, depth: int) -> Array:
    if small == large:
        return np.ones(len(low), bool)
    below, above = (_bounds(tree, low, high, _ROUNDING) for tree in (small, large))
    sure = (below[1] <= above[0]) | np.isnan(below[0]) | np.isnan(above[0])
    sure |= _difference(large, small, low, high) >= 0
    if depth:
        for tree, is_large in ((large, True), (small, False)):
            if tree[0] in ("min", "max"):
                pairs = [(small, part) if is_large else (part, large) for part in tree[1:]]
                parts = [_never_above(a, b, low, high, depth - 1) for a, b in pairs]
                both = (tree[0] == "min") == is_large
                sure |= np.all(parts, axis=0) if both else np.any(parts, axis=0)
    return sure


def _difference(a: Tree, b: Tree, low: Array, high: Array) -> Array:
    """The least value of a - b, where equal parts of the two sums cancel."""
    total = dict(_sum(a))
    for part, weight in _sum(b).items():
        total[part] = total.get(part, 0.0) - weight
    sizes = [abs(w) for s in (_sum(a), _sum(b)) for w in s.values()]
    least = np.zeros(len(low))
    for part, weight in total.items():
        if abs(weight) <= 1e-13 * max(sizes, default=0.0):
            continue
        if part is None:
            least = least + weight
            continue
        first, last = _bounds(part, low, high, 2.0**-48)
        least = least + np.minimum(first * weight, last * weight)
    return least


def _sum(tree: Tree) -> dict[Tree | None, float]:
    """A formula as a weighted sum of parts that are no sums; None is the part that is 1."""
    op = tree[0]
    if op == "number":
        return {None: tree[1]}
    if op == "neg":
        return {part: -weight for part, weight in _sum(tree[1]).items()}
    if op in ("+", "-"):
        total = dict(_sum(tree[1]))
        for part, weight in _sum(tree[2]).items():
            total[part] = total.get(part, 0.0) + (weight if op == "+" else -weight)
        return total
    if op in ("*", "/"):
        left, right = _sum(tree[1]), _sum(tree[2])
        if set(right) == {None} and (op == "*" or right[None]):
            factor = right[None] if op == "*" else 1 / right[None]
            return {part: weight * factor for part, weight in left.items()}
        if op == "*" and set(left) == {None}:
            return {part: weight * left[None] for part, weight in right.items()}
    return {tree: 1.0}


def _bounds(tree: Tree, low: Array, high: Array, loose: float) -> Ends:
    op, *parts = tree
    if op == "number":
        both = (parts[0], single(parts[0]))  # as written, and as rows are computed
        return np.full(len(low), min(both)), np.full(len(low), max(both))
    if op == "column":
        return low[:, parts[0]], high[:, parts[0]]
    if op == "where":
        true, false = _truth(parts[0], low, high, loose)
        yes, no = (_bounds(part, low, high, loose) for part in parts[1:])
        first = np.fmin(np.where(true, yes[0], np.nan), np.where(false, no[0], np.nan))
        last = np.fmax(np.where(true, yes[1], np.nan), np.where(false, no[1], np.nan))
        return first, last
    args = [_bounds(part, low, high, loose) for part in parts]
    if op == "*" and parts[0] == parts[1]:
        op, args = "**", [args[0], (np.full(len(low), 2.0),) * 2]
    first, last = _APPLY[op](*args)
    never = np.isnan(first) | np.isnan(last)
    for arg in args:
        never |= np.isnan(arg[0])
    if op not in ("neg", "abs", "min", "max"):
        first = np.where(np.isinf(first), first, first - np.abs(first) * loose - _TINY)
        last = np.where(np.isinf(last), last, last + np.abs(last) * loose + _TINY)
    if op in ("sqrt", "exp"):
        first = np.maximum(first, 0.0)  # whatever the rounding
    return np.where(never, np.nan, first), np.where(never, np.nan, last)


def _truth(tree: Tree, low: Array, high: Array, loose: float) -> tuple[Array, Array]:
    """Where a comparison may be true, and where it may be false."""
    op, *parts = tree
    if op == "not":
        true, false = _truth(parts[0], low, high, loose)
        return false, true
    if op in ("and", "or"):
        (a, not_a), (b, not_b) = (_truth(part, low, high, loose) for part in parts)
        return (a & b, not_a | not_b) if op == "and" else (a | b, not_a & not_b)
    (a0, a1), (b0, b1) = (_bounds(part, low, high, loose) for part in parts)
    less, more = a0 < b1, a1 > b0
    least, most = a0 <= b1, a1 >= b0
    return {
        "<": (less, most),
        "<=": (least, more),
        ">": (more, least),
        ">=": (most, less),
        "==": (least & most, less | more),
        "!=": (less | more, least & most),
    }[op]


def _multiply(a: Ends, b: Ends) -> Ends:
    ends = [np.nan_to_num(p * q, nan=0.0, posinf=np.inf, neginf=-np.inf) for p in a for q in b]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _divide(a: Ends, b: Ends) -> Ends:
    through = (b[0] <= 0) & (b[1] >= 0)
    first = np.where(through & (b[0] < 0), -np.inf, 1 / b[1])
    last = np.where(through & (b[1] > 0), np.inf, 1 / b[0])
    never = (b[0] == 0) & (b[1] == 0)
    return _multiply(a, (np.where(never, np.nan, first), np.where(never, np.nan, last)))


def _power(a: Ends, b: Ends) -> Ends:
    """a ** b for one whole b >= 0; for a base >= 0 by corners; anything else has no bounds."""
    n = np.rint(b[0])
    whole = (b[0] == b[1]) & (b[0] == n) & (n >= 0)
    ends = [a[0] ** n, a[1] ** n]
    dips = (np.mod(n, 2) == 0) & (a[0] <= 0) & (a[1] >= 0) & (n > 0)
    corners = [np.maximum(p, 0.0) ** q for p in a for q in b]
    positive = a[0] >= 0
    first = np.where(positive, np.minimum.reduce(corners), -np.inf)
    last = np.where(positive, np.maximum.reduce(corners), np.inf)
    first = np.where(whole, np.where(dips, 0.0, np.minimum(*ends)), first)
    return first, np.where(whole, np.maximum(*ends), last)


def _extreme(choose: Any) -> Any:
    def apply(*args: Ends) -> Ends:
        return choose.reduce([a[0] for a in args]), choose.reduce([a[1] for a in args])

    return apply


def _logarithm(log: Any) -> Any:
    def apply(a: Ends) -> Ends:
        return log(np.maximum(a[0], 0.0)), np.where(a[1] > 0, log(a[1]), np.nan)

    return apply


def _absolute(a: Ends) -> Ends:
    near = np.where(a[1] < 0, -a[1], np.maximum(a[0], 0.0))
    return near, np.maximum(np.abs(a[0]), np.abs(a[1]))


_APPLY: dict[str, Any] = {
    "neg": lambda a: (-a[1], -a[0]),
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": _multiply,
    "/": _divide,
    "**": _power,
    "exp": lambda a: (np.exp(a[0]), np.exp(a[1])),
    "log": _logarithm(np.log),
    "log10": _logarithm(np.log10),
    "sqrt": lambda a: (np.sqrt(np.maximum(a[0], 0.0)), np.sqrt(a[1])),
    "abs": _absolute,
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
}
