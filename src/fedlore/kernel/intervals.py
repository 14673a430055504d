"""Bounds of what a formula computes over boxes of rows, in single precision.

Each end is rounded as the computation rounds. Rounding to the nearest keeps the order of numbers,
so that what is computed from rows of a box lies between the ends. A runtime may take subnormal
numbers for 0: there ends are moved outwards, and 0 counts as possible too. Only defined values are
bounded: an undefined formula limits nothing. Both ends are NaN where it never has a value.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .cells import single
from .expressions import Tree

Array = np.ndarray
Ends = tuple[Array, Array]

LIBRARY = 2.0**-20  # eight units in the last place: how far roots, exp, log and powers are off
_SMALLEST = 2.0**-126  # below it numbers are subnormal
_STEP = 2.0**-149  # between two of these


class Boxes:
    """Boxes with corners (b, d), and what formulas can be in each; no part is bounded twice."""

    def __init__(self, low: Array, high: Array) -> None:
        self.low, self.high = low, high
        self.seen: dict[int, Any] = {}  # what tables found in these boxes
        self._known: dict[Tree, Any] = {}

    def bounds(self, tree: Tree) -> Ends:
        """The least and the greatest value that is computed, (b,) each."""
        found: Ends = self._look(tree)
        return found

    def _look(self, tree: Tree) -> Any:
        """The ends of a number; of a comparison where it may be true, and where false."""
        if tree not in self._known:
            op, *parts = tree
            args = [] if op in ("number", "column") else list(map(self._look, parts))
            with np.errstate(all="ignore"):
                self._known[tree] = self._make(op, parts, args)
        return self._known[tree]

    def _make(self, op: str, parts: Sequence[Any], args: Sequence[Any]) -> Any:
        if op == "number":
            both = (parts[0], single(parts[0]))  # as written, and as rows are computed
            return np.full(len(self.low), min(both)), np.full(len(self.low), max(both))
        if op == "column":
            return round_ends(self.low[:, parts[0]], self.high[:, parts[0]])
        if op == "where":
            return _choose(*args)
        if op in _LOGIC:
            return _LOGIC[op](*args)
        if op in ("*", "**") and (parts[0] == parts[1] if op == "*" else _is_two(parts[1])):
            first, last = _square(args[0])
        else:
            first, last = _APPLY[op](*args)
        never = np.isnan(first) | np.isnan(last)
        for arg in args:
            never |= np.isnan(arg[0])
        if op not in ("neg", "abs", "min", "max"):
            first, last = round_ends(first, last)
        return np.where(never, np.nan, first), np.where(never, np.nan, last)


def round_ends(first: Array, last: Array) -> Ends:
    """Both ends as single precision has them."""
    return _low_end(first), -_low_end(-last)


def _low_end(value: Array) -> Array:
    with np.errstate(over="ignore"):
        near = value.astype(np.float32)
    below = np.where(near > value, np.nextafter(near, np.float32(-np.inf)), near)
    below = np.where(below > 0, np.float32(0), below)
    near = np.where(np.abs(value) < 2 * _SMALLEST, below, near)
    near = np.minimum(near, np.finfo(np.float32).max)  # what is infinite is not defined
    return near.astype(np.float64) + 0.0  # a negative zero would divide to the wrong side


def _is_two(tree: Tree) -> bool:
    return tree == ("number", 2.0)


def _loosen(first: Array, last: Array) -> Ends:
    """Ends of a function that is not rounded to the nearest; it keeps signs, and infinite ends."""
    low = first - np.abs(first) * LIBRARY - 8 * _STEP
    high = last + np.abs(last) * LIBRARY + 8 * _STEP
    low, high = (
        np.where(first >= 0, np.maximum(low, 0.0), low),
        np.where(last <= 0, np.minimum(high, 0.0), high),
    )
    return np.where(np.isinf(first), first, low), np.where(np.isinf(last), last, high)


def _choose(truth: tuple[Array, Array], yes: Ends, no: Ends) -> Ends:
    true, false = truth
    return (
        np.fmin(np.where(true, yes[0], np.nan), np.where(false, no[0], np.nan)),
        np.fmax(np.where(true, yes[1], np.nan), np.where(false, no[1], np.nan)),
    )


def _compare(op: str) -> Callable[[Ends, Ends], tuple[Array, Array]]:
    """Where a comparison may be true, and where it may be false."""

    def apply(a: Ends, b: Ends) -> tuple[Array, Array]:
        less, more = a[0] < b[1], a[1] > b[0]
        least, most = a[0] <= b[1], a[1] >= b[0]
        return {
            "<": (less, most),
            "<=": (least, more),
            ">": (more, least),
            ">=": (most, less),
            "==": (least & most, less | more),
            "!=": (less | more, least & most),
        }[op]

    return apply


_LOGIC: dict[str, Callable[..., tuple[Array, Array]]] = {
    "not": lambda a: (a[1], a[0]),
    "and": lambda a, b: (a[0] & b[0], a[1] | b[1]),
    "or": lambda a, b: (a[0] | b[0], a[1] & b[1]),
    **{op: _compare(op) for op in ("<", "<=", ">", ">=", "==", "!=")},
}


def _multiply(a: Ends, b: Ends) -> Ends:
    # 0 · inf: the values themselves are finite, so the product is 0
    ends = [np.nan_to_num(p * q, nan=0.0, posinf=np.inf, neginf=-np.inf) for p in a for q in b]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _square(a: Ends) -> Ends:
    near, far = _absolute(a)
    return near * near, far * far


def _divide(a: Ends, b: Ends) -> Ends:
    """Quotients at the corners, which are infinite on the side from which the divisor meets 0."""
    below = np.where((b[1] == 0) & (b[0] < 0), -0.0, b[1])
    ends = [
        np.nan_to_num(p / q, nan=0.0, posinf=np.inf, neginf=-np.inf)
        for p in a
        for q in (b[0], below)
    ]
    through = (b[0] < 0) & (b[1] > 0) & ((a[0] != 0) | (a[1] != 0))
    never = (b[0] == 0) & (b[1] == 0)
    first = np.where(through, -np.inf, np.minimum.reduce(ends))
    last = np.where(through, np.inf, np.maximum.reduce(ends))
    return np.where(never, np.nan, first), np.where(never, np.nan, last)


def _power(a: Ends, b: Ends) -> Ends:
    """a ** b by corners of |a|; a negative base needs a whole power, and odd ones keep its sign."""
    corners = [p**q for p in _absolute(a) for q in b]
    least, most = np.minimum.reduce(corners), np.maximum.reduce(corners)
    n = np.rint(b[0])
    whole = (b[0] == b[1]) & (b[0] == n)
    odd, signed = whole & (np.mod(n, 2) == 1), a[0] < 0
    bottom, top = np.abs(a[0]) ** n, np.abs(a[1]) ** n
    first = np.where(signed & ~whole, -most, least)  # whole powers in between may have either sign
    rising, falling = signed & odd & (n > 0), signed & odd & (n < 0)
    first = np.where(rising, -bottom, np.where(falling, np.where(a[1] > 0, -np.inf, -top), first))
    last = np.where(rising, np.where(a[1] > 0, top, -top), most)
    last = np.where(falling, np.where(a[1] > 0, np.inf, -bottom), last)
    return _loosen(first, last)


def _extreme(choose: Any) -> Callable[..., Ends]:
    def apply(*args: Ends) -> Ends:
        return choose.reduce([a[0] for a in args]), choose.reduce([a[1] for a in args])

    return apply


def _logarithm(log: Any) -> Callable[[Ends], Ends]:
    def apply(a: Ends) -> Ends:
        first, last = _loosen(log(np.maximum(a[0], 0.0)), log(a[1]))
        return first, np.where(a[1] > 0, last, np.nan)

    return apply


def _absolute(a: Ends) -> Ends:
    near = np.maximum(np.maximum(a[0], -a[1]), 0.0)
    return near, np.maximum(np.abs(a[0]), np.abs(a[1]))


_APPLY: dict[str, Callable[..., Ends]] = {
    "neg": lambda a: (0.0 - a[1], 0.0 - a[0]),
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": _multiply,
    "/": _divide,
    "**": _power,
    "exp": lambda a: _loosen(np.exp(a[0]), np.exp(a[1])),
    "log": _logarithm(np.log),
    "log10": _logarithm(np.log10),
    "sqrt": lambda a: _loosen(np.sqrt(np.maximum(a[0], 0.0)), np.sqrt(a[1])),
    "abs": _absolute,
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
}
