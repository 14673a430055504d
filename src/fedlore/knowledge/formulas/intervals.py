"""Interval arithmetic over many boxes at once (Moore 1966, *Interval Analysis*).

An interval encloses what a formula *computes* in one precision: the ends of + - * / are rounded as
the computation rounds, which keeps the order of numbers; roots, exponentials, logarithms and powers
come from libraries that are off by units in the last place, and get some more. A result beyond the
largest number is undefined; a runtime may take subnormal numbers for 0: there ends are moved
outwards, and 0 counts as possible too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from ...core.tensors import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Interval:
    """What a number can be in each of b boxes; both ends are NaN where it never has a value."""

    low: Tensor  # (b,)
    high: Tensor  # (b,)
    undefined: Tensor  # (b,) bool: it may be undefined somewhere in the box


@dataclass(frozen=True, eq=False)
class Truth:
    """What a comparison can be in each of b boxes."""

    true: Tensor  # (b,) bool: it may be true somewhere in the box
    false: Tensor  # (b,) bool
    undefined: Tensor  # (b,) bool


@dataclass(frozen=True)
class Arithmetic:
    """The operations of a formula on intervals, as one precision computes them."""

    dtype: torch.dtype = field(default_factory=lambda: torch.float32)

    def apply(self, op: str, *args: Interval) -> Interval:
        """An operation of the grammar."""
        return _OPERATIONS[op](self, *args)

    def exactly(self, value: float) -> Fraction:
        """A number of a formula as it is computed with."""
        return Fraction(float(torch.tensor(value, dtype=self.dtype)))

    def rounding(self, a: Interval) -> Tensor:
        """What rounding a sum or a product to `a` adds at most, (b,)."""
        info = torch.finfo(self.dtype)
        return torch.maximum(a.low.abs(), a.high.abs()) * info.eps + 2 * info.tiny

    def constant(self, value: float, like: Tensor) -> Interval:
        """A number as an interval."""
        ends = like.new_full(like.shape[:1], float(self.exactly(value)))
        return Interval(ends, ends, torch.zeros_like(ends, dtype=torch.bool))

    def written(self, value: float, like: Tensor) -> Interval:
        """A number that may be taken as it is written, or as it is rounded."""
        a, b = sorted((value, float(self.exactly(value))))
        low, high = (like.new_full(like.shape[:1], end) for end in (a, b))
        return Interval(low, high, torch.zeros_like(low, dtype=torch.bool))

    def column(self, low: Tensor, high: Tensor) -> Interval:
        """A feature between two ends; rows are rounded before they are computed with."""
        found = self._enclose(low, high)
        return Interval(found.low, found.high, torch.zeros_like(found.undefined))

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
        below = torch.where((b.high == 0) & (b.low < 0), -0.0, b.high)
        low, high = _span(p / q for p in _ends(a) for q in (b.low, below))
        through = (b.low < 0) & (b.high > 0) & ((a.low != 0) | (a.high != 0))
        never = (b.low == 0) & (b.high == 0)
        low = low.masked_fill(through, -torch.inf).masked_fill(never, torch.nan)
        found = self._enclose(low, high.masked_fill(through, torch.inf), a, b)
        return _or_undefined(found, (b.low <= 0) & (b.high >= 0))

    def power(self, a: Interval, b: Interval) -> Interval:
        """a ** b: as torch and IEEE have it: 0 ** 0 is 1, a negative base needs a whole power."""
        size = self.absolute(a)
        corners = [base.pow(up) for base in _ends(size) for up in _ends(b)]
        least = functools.reduce(torch.minimum, corners)
        most = functools.reduce(torch.maximum, corners)
        n = b.low.round()
        whole = (b.low == b.high) & (b.low == n)
        signed = a.low < 0
        odd = signed & whole & (n.remainder(2) == 1)
        part = signed & ~whole  # whole powers in between may still have either sign
        bottom, top, positive = a.low.abs().pow(n), a.high.abs().pow(n), a.high > 0
        rising, falling = odd & (n > 0), odd & (n < 0)  # 1/x and the like fall around 0
        low = torch.where(part, -most, least)
        low = torch.where(rising, -bottom, low)
        low = torch.where(falling, torch.where(positive, -torch.inf, -top), low)
        high = torch.where(rising, torch.where(positive, top, -top), most)
        high = torch.where(falling, torch.where(positive, torch.inf, -bottom), high)
        # a negative power of 0 is infinite, and so undefined already
        return _or_undefined(self._enclose(*self._loosen(low, high), a, b), part)

    def exp(self, a: Interval) -> Interval:
        return self._enclose(*self._loosen(a.low.exp(), a.high.exp()), a)

    def log(self, a: Interval) -> Interval:
        return self._logarithm(a, torch.log)

    def log10(self, a: Interval) -> Interval:
        return self._logarithm(a, torch.log10)

    def sqrt(self, a: Interval) -> Interval:
        # NaN where all of it is negative
        found = self._enclose(*self._loosen(a.low.clamp(min=0).sqrt(), a.high.sqrt()), a)
        return _or_undefined(found, a.low < 0)

    def absolute(self, a: Interval) -> Interval:
        near = torch.maximum(a.low, -a.high).clamp(min=0)
        return Interval(near, torch.maximum(a.low.abs(), a.high.abs()), a.undefined)

    def minimum(self, *args: Interval) -> Interval:
        return _extreme(torch.minimum, args)

    def maximum(self, *args: Interval) -> Interval:
        return _extreme(torch.maximum, args)

    def above(self, a: Tensor) -> Tensor:
        """The next number up."""
        near = a.to(self.dtype)  # ends are numbers of this precision, but for those of a box
        return near.nextafter(torch.full_like(near, torch.inf)).double()

    def below(self, a: Tensor) -> Tensor:
        return -self.above(-a)

    def _logarithm(self, a: Interval, log: Callable[[Tensor], Tensor]) -> Interval:
        low, high = self._loosen(log(a.low.clamp(min=0)), log(a.high))
        found = self._enclose(low, high.masked_fill(a.high <= 0, torch.nan), a)
        # -inf is an end, not an overflow: only at 0 is there no logarithm
        undefined = a.undefined | (a.low <= 0)
        return Interval(found.low, found.high, undefined)

    def _loosen(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Ends of a library function, some units further out; it keeps signs."""
        info = torch.finfo(self.dtype)
        slack, step = 8 * info.eps, 8 * info.tiny * info.eps
        down, up = low - low.abs() * slack - step, high + high.abs() * slack + step
        down = torch.where(low >= 0, down.clamp(min=0), down)
        up = torch.where(high <= 0, up.clamp(max=0), up)
        return torch.where(low.isinf(), low, down), torch.where(high.isinf(), high, up)

    def _enclose(self, low: Tensor, high: Tensor, *args: Interval) -> Interval:
        """Ends rounded; never defined where an argument is not, undefined beyond the largest."""
        info = torch.finfo(self.dtype)
        limit = info.max * (1 + info.eps / 4)  # half a step further still rounds to the largest
        over = (low < -limit) | (high > limit) | low.isinf() | high.isinf()
        undefined = functools.reduce(torch.logical_or, [a.undefined for a in args], over)
        never = functools.reduce(
            torch.logical_or, [a.low.isnan() for a in args], low.isnan() | high.isnan()
        )
        low, high = self._low_end(low), -self._low_end(-high)
        return Interval(
            low.masked_fill(never, torch.nan), high.masked_fill(never, torch.nan), undefined
        )

    def _low_end(self, end: Tensor) -> Tensor:
        info = torch.finfo(self.dtype)
        near = end.to(self.dtype)
        below = torch.where(near.double() > end, near.nextafter(near.new_tensor(-torch.inf)), near)
        near = torch.where(end.abs() < 2 * info.tiny, below.clamp(max=0.0), near)
        # what is infinite is not defined; and a negative zero would divide to the wrong side
        return near.clamp(max=info.max).double() + 0.0


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


def both(a: Truth, b: Truth) -> Truth:
    """a and b: a false side settles it, whatever the other is."""
    undefined = (a.undefined & (b.true | b.undefined)) | (b.undefined & (a.true | a.undefined))
    return Truth(a.true & b.true, a.false | b.false, undefined)


def negation(a: Truth) -> Truth:
    return Truth(a.false, a.true, a.undefined)


def choose_interval(truth: Truth, yes: Interval, no: Interval) -> Interval:
    """where(truth, yes, no)."""
    low = torch.fmin(_if(truth.true, yes.low), _if(truth.false, no.low))  # fmin skips NaN
    high = torch.fmax(_if(truth.true, yes.high), _if(truth.false, no.high))
    undefined = (truth.true & yes.undefined) | (truth.false & no.undefined) | truth.undefined
    return Interval(low, high, undefined)


def meet(a: Interval, b: Interval) -> Interval:
    """What `a` can be where it is known to be defined and to lie in `b`."""
    low, high = torch.maximum(a.low, b.low), torch.minimum(a.high, b.high)
    never = low.isnan() | high.isnan() | (low > high)
    low, high = low.masked_fill(never, torch.nan), high.masked_fill(never, torch.nan)
    return Interval(low, high, torch.zeros_like(a.undefined))


def _extreme(choose: Callable[[Tensor, Tensor], Tensor], args: tuple[Interval, ...]) -> Interval:
    return Interval(
        functools.reduce(choose, [a.low for a in args]),
        functools.reduce(choose, [a.high for a in args]),
        functools.reduce(torch.logical_or, [a.undefined for a in args]),
    )


def _ends(a: Interval) -> tuple[Tensor, Tensor]:
    return a.low, a.high


def _span(corners: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """The least and the greatest; a corner without a value is 0."""
    ends = [corner.nan_to_num(0.0, torch.inf, -torch.inf) for corner in corners]
    return functools.reduce(torch.minimum, ends), functools.reduce(torch.maximum, ends)


def _or_undefined(a: Interval, where: Tensor) -> Interval:
    return Interval(a.low, a.high, a.undefined | where)


def _if(condition: Tensor, value: Tensor) -> Tensor:
    return torch.where(condition, value, torch.nan)
