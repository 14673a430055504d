"""Interval arithmetic over many boxes at once (Moore 1966, *Interval Analysis*).

Every function encloses what a formula computes in double precision; rows in single precision may
differ by their own rounding. Values beyond single precision count as possibly undefined (overflow),
unless an operand has no bound anyway.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

HUGE = 3.4e38  # beyond this single precision overflows
TINY = 1e-30  # what is known to be > 0 counts as at least this: 100 / x then stays finite
_LOOSE = 2.0**-48  # how far library functions may be off, and how far bounds are moved out


@dataclass(frozen=True, eq=False)
class Interval:
    """What a number can be in each of b boxes; both ends are NaN where it never has a value."""

    low: Tensor  # (b,)
    high: Tensor  # (b,)
    undefined: Tensor  # (b,) bool: it may be undefined somewhere in the box
    nonzero: bool = False  # a condition says that it is not 0


@dataclass(frozen=True, eq=False)
class Truth:
    """What a comparison can be in each of b boxes."""

    true: Tensor  # (b,) bool: it may be true somewhere in the box
    false: Tensor  # (b,) bool
    undefined: Tensor  # (b,) bool


def neg(a: Interval) -> Interval:
    return Interval(-a.high, -a.low, a.undefined)


def add_intervals(a: Interval, b: Interval) -> Interval:
    return _check(a.low + b.low, a.high + b.high, a, b)


def subtract_intervals(a: Interval, b: Interval) -> Interval:
    return add_intervals(a, neg(b))


def mul(a: Interval, b: Interval) -> Interval:
    if a is b:
        return square(a)
    return _check(*_product(a, b), a, b)


def square(a: Interval) -> Interval:
    size = absolute(a)
    return _check(size.low * size.low, size.high * size.high, a)


def div(a: Interval, b: Interval) -> Interval:
    zero = (b.low <= 0) & (b.high >= 0)
    low = torch.where(zero & (b.low < 0), -torch.inf, 1 / b.high)
    high = torch.where(zero & (b.high > 0), torch.inf, 1 / b.low)
    never = (b.low == 0) & (b.high == 0)
    inverse = Interval(
        low.masked_fill(never, torch.nan), high.masked_fill(never, torch.nan), b.undefined
    )
    low, high = _outward(*_product(a, inverse))
    quotient = _check(low, high, a, inverse)
    if b.nonzero:
        return quotient
    return Interval(quotient.low, quotient.high, quotient.undefined | zero)


def power(a: Interval, b: Interval) -> Interval:
    """a ** b: as torch and IEEE have it, so 0 ** 0 is 1 and a negative base needs a whole power."""
    whole = (b.low == b.high) & (b.low == b.low.round())
    size = absolute(a)
    corners = [base.pow(up) for base in (size.low, size.high) for up in (b.low, b.high)]
    low, high = _outward(_least(*corners), _most(*corners))
    # a negative base: odd powers keep its sign, even ones lose it, others have no value
    signed = a.low < 0
    odd = whole & (b.low.remainder(2) == 1)
    top, bottom = a.high.abs().pow(b.low), a.low.abs().pow(b.low)
    rising = odd & signed & (b.low > 0)
    falling = odd & signed & (b.low < 0)  # 1/x and the like: two falling branches around 0
    through = falling & (a.high >= 0)
    low = torch.where(rising, -_out(bottom), low)
    high = torch.where(rising, torch.where(a.high < 0, -_in(top), _out(top)), high)
    low = torch.where(falling, torch.where(through, -torch.inf, -_out(top)), low)
    high = torch.where(falling, torch.where(through, torch.inf, -_in(bottom)), high)
    part = signed & ~whole  # whole powers in between may still have either sign
    low = torch.where(part, -high, low)
    result = _check(low, high, a, b)
    at_zero = (a.low <= 0) & (a.high >= 0) & (b.low < 0)
    return Interval(result.low, result.high, result.undefined | part | at_zero)


def exp(a: Interval) -> Interval:
    return _check(*_outward(a.low.exp(), a.high.exp()), a)


def log_interval(a: Interval) -> Interval:
    return _logarithm(a, torch.log)


def log10(a: Interval) -> Interval:
    return _logarithm(a, torch.log10)


def sqrt(a: Interval) -> Interval:
    low, high = a.low.clamp(min=0).sqrt(), a.high.sqrt()  # NaN where all of it is negative
    return _join(low, high, a.undefined | (a.low < 0))


def absolute(a: Interval) -> Interval:
    near = torch.where(a.high < 0, -a.high, a.low.clamp(min=0))
    return Interval(near, torch.maximum(a.low.abs(), a.high.abs()), a.undefined)


def minimum(*args: Interval) -> Interval:
    return _extreme(torch.minimum, args)


def maximum(*args: Interval) -> Interval:
    return _extreme(torch.maximum, args)


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
    made = _join(low.masked_fill(low > high, torch.nan), high, torch.zeros_like(a.undefined))
    return Interval(made.low, made.high, made.undefined, a.nonzero or b.nonzero)


def above(a: Tensor) -> Tensor:
    """The next number up."""
    return torch.where(a == 0, TINY, a.nextafter(torch.full_like(a, torch.inf)))


def below(a: Tensor) -> Tensor:
    return -above(-a)


def _logarithm(a: Interval, log: Callable[[Tensor], Tensor]) -> Interval:
    low, high = _outward(log(a.low.clamp(min=0)), log(a.high))
    never = a.high <= 0
    low, high = low.masked_fill(never, torch.nan), high.masked_fill(never, torch.nan)
    return _join(low, high, a.undefined | (a.low <= 0))


def _extreme(choose: Callable[[Tensor, Tensor], Tensor], args: tuple[Interval, ...]) -> Interval:
    return Interval(
        functools.reduce(choose, [a.low for a in args]),
        functools.reduce(choose, [a.high for a in args]),
        functools.reduce(torch.logical_or, [a.undefined for a in args]),
    )


def _product(a: Interval, b: Interval) -> tuple[Tensor, Tensor]:
    ends = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
    # 0 · inf: the values themselves are finite, so the product is 0
    ends = [end.nan_to_num(0.0, torch.inf, -torch.inf) for end in ends]
    return _least(*ends), _most(*ends)


def _check(low: Tensor, high: Tensor, *args: Interval) -> Interval:
    """The interval of an operation; never defined where an argument is not."""
    undefined = functools.reduce(torch.logical_or, [a.undefined for a in args])
    bounded = functools.reduce(
        torch.logical_and, [a.low.isfinite() & a.high.isfinite() for a in args]
    )
    never = functools.reduce(torch.logical_or, [a.low.isnan() for a in args])
    over = bounded & ((low < -HUGE) | (high > HUGE))
    return _join(low.masked_fill(never, torch.nan), high, undefined | over)


def _join(low: Tensor, high: Tensor, undefined: Tensor) -> Interval:
    """Both ends NaN where one is."""
    never = low.isnan() | high.isnan()
    return Interval(
        low.masked_fill(never, torch.nan), high.masked_fill(never, torch.nan), undefined
    )


def _outward(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Moved out by more than rounding, without changing a sign or moving a 0."""
    return (
        torch.where(low.isinf(), low, low - low.abs() * _LOOSE),
        torch.where(high.isinf(), high, high + high.abs() * _LOOSE),
    )


def _out(size: Tensor) -> Tensor:
    return size * (1 + _LOOSE)


def _in(size: Tensor) -> Tensor:
    return size * (1 - _LOOSE)


def _least(*ends: Tensor) -> Tensor:
    return functools.reduce(torch.minimum, ends)


def _most(*ends: Tensor) -> Tensor:
    return functools.reduce(torch.maximum, ends)


def _if(condition: Tensor, value: Tensor) -> Tensor:
    return torch.where(condition, value, torch.nan)
