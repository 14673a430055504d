"""How much one formula exceeds another, with what they share taken out before it is bounded.

`dulong + 1.2 - dulong` is 1.2, however wide `dulong` itself is. Equal steps are computed to equal
numbers; around them each formula is a weighted sum with exact weights, off by what rounding adds at
most. Nothing is left out for being small: a small weight may stand before a large number.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from ...core.tensors import torch
from ...kernel.expressions import Step
from .enclosure import Enclosure
from .formula import Formula
from .intervals import Interval

if TYPE_CHECKING:
    from torch import Tensor

_LONGEST = 8  # sums and products inside one another that are looked through
_ONE = -1  # the part of a sum that is a plain number

Sum = Mapping[int, Fraction]  # part -> its weight


def join_linear(*formulas: Formula) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """The steps of several formulas in one list, equal ones shared, and where each one ends."""
    places: dict[Step, int] = {}
    ends = []
    for formula in formulas:
        moved: list[int] = []
        for step in formula.steps:
            args = tuple(moved[arg] for arg in step.args)
            same = Step(step.op, args, step.value, step.column)
            moved.append(places.setdefault(same, len(places)))
        ends.append(moved[-1])
    return tuple(places), tuple(ends)


def least_gap(over: Enclosure, small: int, large: int) -> Tensor:
    """How much step `large` exceeds step `small` at least where both are defined, (b,)."""
    numbers = {**over.numbers(small), **over.numbers(large)}
    (total, error), (taken, more) = (_sum(over, place, numbers) for place in (large, small))
    total = _plus(total, taken, -1)
    least, size = torch.zeros_like(error), torch.zeros_like(error)
    for part, weight in total.items():
        if weight == 0:
            continue
        if part == _ONE:
            found = torch.full_like(error, float(weight))
        else:
            value, factor = numbers[part], float(weight)
            found = torch.minimum(value.low * factor, value.high * factor)
        least, size = least + found, size + found.abs()
    # this sum is itself computed, in double precision
    gap = least - size * 2.0**-44 - error - more
    return gap.nan_to_num(-torch.inf, torch.inf, -torch.inf)


def keeps_order(over: Enclosure, small: int, large: int) -> Tensor:
    """In which boxes one step never exceeds another because rounding keeps the order, (b,) bool.

    a + b <= c + d where a <= c and b <= d, whatever is rounded; likewise for - and *.
    """
    numbers = {**over.numbers(small), **over.numbers(large)}
    known: dict[tuple[int, int], Tensor] = {}

    def below(one: int, other: int, depth: int) -> Tensor:
        if one == other or not depth:
            return torch.full((len(over.low),), one == other)
        if (one, other) not in known:
            known[one, other] = compare(one, other, depth - 1)
        return known[one, other]

    def compare(one: int, other: int, depth: int) -> Tensor:
        sure = numbers[one].high <= numbers[other].low
        a, b = over.steps[one], over.steps[other]
        if a.op == b.op and a.op in ("+", "*", "-"):
            (p, q), (r, s) = a.args, b.args
            pairs = below(p, r, depth)
            pairs = pairs & (below(s, q, depth) if a.op == "-" else below(q, s, depth))
            if a.op == "*":  # of numbers that are not negative, but for those that are the same
                pairs = pairs & ((numbers[p].low >= 0) | (q == s))
                pairs = pairs & ((numbers[q].low >= 0) | (p == r))
            sure = sure | pairs
        if a.op == "-":  # less than what it was taken from
            sure = sure | ((numbers[a.args[1]].low >= 0) & below(a.args[0], other, depth))
        if b.op == "+":
            for kept, added in (b.args, b.args[::-1]):
                sure = sure | ((numbers[added].low >= 0) & below(one, kept, depth))
        return sure

    return below(small, large, _LONGEST)


def _sum(over: Enclosure, root: int, numbers: Mapping[int, Interval]) -> tuple[Sum, Tensor]:
    """A step as a weighted sum, and how far its computed value may be from that, (b,)."""
    sums: dict[int, tuple[Sum, Tensor]] = {}
    nothing = over.low.new_zeros(len(over.low))
    for place in sorted(numbers):
        if place > root:
            break
        step = over.steps[place]
        parts = [sums[arg] for arg in step.args if arg in sums]
        if step.op == "number":
            sums[place] = {_ONE: over.arithmetic.exactly(step.value)}, nothing
        elif step.op == "neg":
            sums[place] = _times(parts[0][0], Fraction(-1)), parts[0][1]
        elif step.op in ("+", "-"):
            (a, error), (b, more) = parts
            rounding = over.arithmetic.rounding(numbers[place])
            sums[place] = _plus(a, b, 1 if step.op == "+" else -1), error + more + rounding
        elif step.op in ("*", "/") and (factor := _factor(over, step)) is not None:
            rest, by = factor
            total, error = sums[rest]
            grown = error * abs(float(by)) * (1 + 2.0**-50)
            rounding = over.arithmetic.rounding(numbers[place])
            sums[place] = _times(total, by), grown + rounding
        else:
            sums[place] = {place: Fraction(1)}, nothing
    return sums[root]


def _factor(over: Enclosure, step: Step) -> tuple[int, Fraction] | None:
    """The step that is multiplied by a plain number, and the number; None where none is."""
    first, second = step.args
    by = _number(over, second)
    if step.op == "/":
        return None if not by else (first, 1 / by)
    if by is not None:
        return first, by
    by = _number(over, first)
    return None if by is None else (second, by)


def _number(over: Enclosure, place: int) -> Fraction | None:
    step = over.steps[place]
    if step.op == "neg":
        inner = _number(over, step.args[0])
        return None if inner is None else -inner
    return over.arithmetic.exactly(step.value) if step.op == "number" else None


def _plus(a: Sum, b: Sum, sign: int) -> Sum:
    total = dict(a)
    for part, weight in b.items():
        total[part] = total.get(part, Fraction(0)) + sign * weight
    return total


def _times(a: Sum, factor: Fraction) -> Sum:
    return {part: weight * factor for part, weight in a.items()}
