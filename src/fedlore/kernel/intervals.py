"""Interval arithmetic over many boxes at once (Moore 1966, *Interval Analysis*).

An interval encloses what a formula *computes* in one precision: the ends of + - * / are rounded as
the computation rounds, which keeps the order of numbers; roots, exponentials, logarithms and powers
come from libraries that are off by units in the last place, and get some more. A result beyond the
largest number is undefined; a runtime may take subnormal numbers for 0: there ends are moved
outwards, and 0 counts as possible too.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Array = Any  # of numpy

LIBRARY = 8  # units in the last place by which roots, exp, log and powers may be off


@dataclass(frozen=True, eq=False)
class Interval:
    """What a number can be in each of b boxes; both ends are NaN where it never has a value."""

    low: Array  # (b,)
    high: Array  # (b,)
    undefined: Array  # (b,) bool: it may be undefined somewhere in the box


@dataclass(frozen=True, eq=False)
class Truth:
    """What a comparison can be in each of b boxes."""

    true: Array  # (b,) bool: it may be true somewhere in the box
    false: Array  # (b,) bool
    undefined: Array  # (b,) bool


@dataclass(frozen=True)
class Arithmetic:
    """The operations of a formula on intervals, as one precision computes them.

    Who calls them silences numpy: an infinite end is an answer here.
    """

    dtype: Any = np.float32

    def apply(self, op: str, *args: Interval) -> Interval:
        """An operation of the grammar."""
        return _OPERATIONS[op](self, *args)

    def exactly(self, value: float) -> Fraction:
        """A number of a formula as it is computed with."""
        return Fraction(float(self.dtype(value)))

    def rounding(self, a: Interval) -> Array:
        """What rounding a sum or a product to `a` adds at most, (b,)."""
        info = np.finfo(self.dtype)
        return np.maximum(np.abs(a.low), np.abs(a.high)) * float(info.eps) + 2 * float(info.tiny)

    def constant(self, value: float, count: int) -> Interval:
        """A number as an interval."""
        ends = np.full(count, float(self.dtype(value)))
        return Interval(ends, ends, np.zeros(count, bool))

    def written(self, value: float, count: int) -> Interval:
        """A number that may be taken as it is written, or as it is rounded."""
        low, high = sorted((value, float(self.dtype(value))))
        return Interval(np.full(count, low), np.full(count, high), np.zeros(count, bool))

    def column(self, low: Array, high: Array) -> Interval:
        """A feature between two ends; rows are rounded before they are computed with."""
        found = self._enclose(low, high)
        return Interval(found.low, found.high, np.zeros(len(low), bool))

    def neg(self, a: Interval) -> Interval:
        # 0 - 0 is 0: a negative zero would divide to the wrong side
        return Interval(0.0 - a.high, 0.0 - a.low, a.undefined)

    def add(self, a: Interval, b: Interval) -> Interval:
        return self._enclose(a.low + b.low, a.high + b.high, a, b)

    def subtract(self, a: Interval, b: Interval) -> Interval:
        return self.add(a, self.neg(b))

    def multiply(self, a: Interval, b: Interval) -> Interval:
        if a is b:
            return self.square(a)
        # 0 · inf: the values themselves are finite, so the product is 0
        return self._enclose(*_span(p * q for p in _ends(a) for q in _ends(b)), a, b)

    def square(self, a: Interval) -> Interval:
        size = self.absolute(a)
        return self._enclose(size.low * size.low, size.high * size.high, a)

    def divide(self, a: Interval, b: Interval) -> Interval:
        """By corners, which are infinite on the side from which the divisor meets 0."""
        below = np.where((b.high == 0) & (b.low < 0), -0.0, b.high)
        low, high = _span(p / q for p in _ends(a) for q in (b.low, below))
        through = (b.low < 0) & (b.high > 0) & ((a.low != 0) | (a.high != 0))
        never = (b.low == 0) & (b.high == 0)
        low = np.where(never, np.nan, np.where(through, -np.inf, low))
        found = self._enclose(low, np.where(through, np.inf, high), a, b)
        return _or_undefined(found, (b.low <= 0) & (b.high >= 0))

    def power(self, a: Interval, b: Interval) -> Interval:
        """a ** b as IEEE has it: 0 ** 0 is 1, a negative base needs a whole power."""
        size = self.absolute(a)
        corners = [base**up for base in _ends(size) for up in _ends(b)]
        least, most = np.minimum.reduce(corners), np.maximum.reduce(corners)
        n = np.rint(b.low)
        whole = (b.low == b.high) & (b.low == n)
        signed = a.low < 0
        odd = signed & whole & (np.mod(n, 2) == 1)
        part = signed & ~whole  # whole powers in between may still have either sign
        bottom, top, positive = np.abs(a.low) ** n, np.abs(a.high) ** n, a.high > 0
        rising, falling = odd & (n > 0), odd & (n < 0)  # 1/x and the like fall around 0
        low = np.where(part, -most, least)
        low = np.where(rising, -bottom, low)
        low = np.where(falling, np.where(positive, -np.inf, -top), low)
        high = np.where(rising, np.where(positive, top, -top), most)
        high = np.where(falling, np.where(positive, np.inf, -bottom), high)
        # a negative power of 0 is infinite, and so undefined already
        return _or_undefined(self._enclose(*self._loosen(low, high), a, b), part)

    def exp(self, a: Interval) -> Interval:
        return self._enclose(*self._loosen(np.exp(a.low), np.exp(a.high)), a)

    def log(self, a: Interval) -> Interval:
        return self._logarithm(a, np.log)

    def log10(self, a: Interval) -> Interval:
        return self._logarithm(a, np.log10)

    def sqrt(self, a: Interval) -> Interval:
        # NaN where all of it is negative
        ends = self._loosen(np.sqrt(np.maximum(a.low, 0.0)), np.sqrt(a.high))
        return _or_undefined(self._enclose(*ends, a), a.low < 0)

    def absolute(self, a: Interval) -> Interval:
        near = np.maximum(np.maximum(a.low, -a.high), 0.0) + 0.0
        return Interval(near, np.maximum(np.abs(a.low), np.abs(a.high)), a.undefined)

    def minimum(self, *args: Interval) -> Interval:
        return _extreme(np.minimum, args)

    def maximum(self, *args: Interval) -> Interval:
        return _extreme(np.maximum, args)

    def above(self, a: Array) -> Array:
        """The next number up."""
        near = a.astype(self.dtype)  # ends are numbers of this precision, but for those of a box
        return np.nextafter(near, self.dtype(np.inf)).astype(np.float64)

    def below(self, a: Array) -> Array:
        return -self.above(-a)

    def _logarithm(self, a: Interval, log: Any) -> Interval:
        low, high = self._loosen(log(np.maximum(a.low, 0.0)), log(a.high))
        found = self._enclose(low, np.where(a.high <= 0, np.nan, high), a)
        # -inf is an end, not an overflow: only at 0 is there no logarithm
        return Interval(found.low, found.high, a.undefined | (a.low <= 0))

    def _loosen(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Ends of a library function, some units further out; it keeps signs."""
        info = np.finfo(self.dtype)
        slack, step = LIBRARY * float(info.eps), LIBRARY * float(info.smallest_subnormal)
        down, up = low - np.abs(low) * slack - step, high + np.abs(high) * slack + step
        down = np.where(low >= 0, np.maximum(down, 0.0), down)
        up = np.where(high <= 0, np.minimum(up, 0.0), up)
        return np.where(np.isinf(low), low, down), np.where(np.isinf(high), high, up)

    def _enclose(self, low: Array, high: Array, *args: Interval) -> Interval:
        """Ends rounded; never defined where an argument is not, undefined beyond the largest."""
        info = np.finfo(self.dtype)
        limit = float(info.max) * (1 + float(info.eps) / 4)  # half a step further still rounds down
        undefined = ~((low >= -limit) & (high <= limit)) & ~(np.isnan(low) | np.isnan(high))
        never = np.isnan(low) | np.isnan(high)
        for arg in args:
            undefined = undefined | arg.undefined
            never = never | np.isnan(arg.low)
        low, high = self._low_end(low), -self._low_end(-high)
        return Interval(np.where(never, np.nan, low), np.where(never, np.nan, high), undefined)

    def _low_end(self, end: Array) -> Array:
        info = np.finfo(self.dtype)
        near = end.astype(self.dtype)
        below = np.where(near > end, np.nextafter(near, self.dtype(-np.inf)), near)
        near = np.where(np.abs(end) < 2 * float(info.tiny), np.minimum(below, self.dtype(0)), near)
        # what is infinite is not defined; and a negative zero would divide to the wrong side
        return np.minimum(near, info.max).astype(np.float64) + 0.0


_OPERATIONS: dict[str, Callable[..., Interval]] = {
    "neg": Arithmetic.neg,
    "+": Arithmetic.add,
    "-": Arithmetic.subtract,
    "*": Arithmetic.multiply,
    "/": Arithmetic.divide,
    "**": Arithmetic.power,
    "exp": Arithmetic.exp,
    "log": Arithmetic.log,
    "log10": Arithmetic.log10,
    "sqrt": Arithmetic.sqrt,
    "abs": Arithmetic.absolute,
    "min": Arithmetic.minimum,
    "max": Arithmetic.maximum,
}


def compare_intervals(op: str, a: Interval, b: Interval) -> Truth:
    """What `a op b` can be."""
    if op in (">", ">="):
        return compare_intervals({">": "<", ">=": "<="}[op], b, a)
    undefined = a.undefined | b.undefined
    if op == "<":
        return Truth(a.low < b.high, a.high >= b.low, undefined)
    if op == "<=":
        return Truth(a.low <= b.high, a.high > b.low, undefined)
    equal = (a.low <= b.high) & (b.low <= a.high)
    differ = (a.low < b.high) | (a.high > b.low)
    return Truth(equal, differ, undefined) if op == "==" else Truth(differ, equal, undefined)


def conjunction(a: Truth, b: Truth) -> Truth:
    """a and b: a false side settles it, whatever the other is."""
    undefined = (a.undefined & (b.true | b.undefined)) | (b.undefined & (a.true | a.undefined))
    return Truth(a.true & b.true, a.false | b.false, undefined)


def negation(a: Truth) -> Truth:
    """not a."""
    return Truth(a.false, a.true, a.undefined)


def choose_interval(truth: Truth, yes: Interval, no: Interval) -> Interval:
    """where(truth, yes, no)."""
    low = np.fmin(np.where(truth.true, yes.low, np.nan), np.where(truth.false, no.low, np.nan))
    high = np.fmax(np.where(truth.true, yes.high, np.nan), np.where(truth.false, no.high, np.nan))
    undefined = (truth.true & yes.undefined) | (truth.false & no.undefined) | truth.undefined
    return Interval(low, high, undefined)


def meet(a: Interval, b: Interval) -> Interval:
    """What `a` can be where it is known to be defined and to lie in `b`."""
    low, high = np.maximum(a.low, b.low), np.minimum(a.high, b.high)
    never = ~(low <= high)
    low, high = np.where(never, np.nan, low), np.where(never, np.nan, high)
    return Interval(low, high, np.zeros(len(low), bool))


def _extreme(choose: Any, args: tuple[Interval, ...]) -> Interval:
    undefined = functools.reduce(np.logical_or, [a.undefined for a in args])
    return Interval(
        choose.reduce([a.low for a in args]), choose.reduce([a.high for a in args]), undefined
    )


def _ends(a: Interval) -> tuple[Array, Array]:
    return a.low, a.high


def _span(corners: Iterable[Array]) -> tuple[Array, Array]:
    """The least and the greatest; a corner without a value is 0."""
    ends = [np.where(np.isnan(corner), 0.0, corner) for corner in corners]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _or_undefined(a: Interval, where: Array) -> Interval:
    return Interval(a.low, a.high, a.undefined | where)
