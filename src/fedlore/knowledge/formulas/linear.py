"""Differences of formulas, with what they share taken out before they are bounded.

`dulong + 1.2 - dulong` is 1.2, however wide `dulong` itself is: each step is written as a weighted
sum of parts that are not sums themselves, and equal parts cancel.
"""

from collections.abc import Mapping

import torch

from .enclosure import Enclosure
from .formula import Formula
from .grammar import Step
from .intervals import Interval

_ROUNDING = 2.0**-44  # a weight this much smaller than what it was made from is 0
_ONE = -1  # the part of a sum that is a plain number

# part -> its weight, and the sizes of all it was made from: 0.1 + 0.2 - 0.3 is 0
Sum = Mapping[int, tuple[float, float]]


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


def difference(over: Enclosure, a: int, b: int) -> Interval:
    """What step a - step b can be where both are defined, up to rounding."""
    sums = _sums(over.steps, max(a, b))
    total = _plus(sums[a], sums[b], -1.0)
    zero = over.low.new_zeros(len(over.low))
    low, high = zero, zero
    for part, (weight, size) in total.items():
        if abs(weight) <= _ROUNDING * size:
            continue
        if part == _ONE:
            low, high = low + weight, high + weight
            continue
        value = over.number(part)
        ends = value.low * weight, value.high * weight
        low, high = low + torch.minimum(*ends), high + torch.maximum(*ends)
    return Interval(low, high, zero.bool())


def _sums(steps: tuple[Step, ...], last: int) -> list[Sum]:
    sums: list[Sum] = []
    for place, step in enumerate(steps[: last + 1]):
        parts = [sums[arg] for arg in step.args]
        if step.op == "number":
            sums.append({_ONE: (step.value, abs(step.value))})
        elif step.op in ("+", "-"):
            sums.append(_plus(parts[0], parts[1], 1.0 if step.op == "+" else -1.0))
        elif step.op == "neg":
            sums.append(_times(parts[0], -1.0))
        elif step.op == "*" and (_is_number(parts[0]) or _is_number(parts[1])):
            rest, factor = (parts[1], parts[0]) if _is_number(parts[0]) else (parts[0], parts[1])
            sums.append(_times(rest, factor[_ONE][0]))
        elif step.op == "/" and _is_number(parts[1]) and parts[1][_ONE][0] != 0:
            sums.append(_times(parts[0], 1 / parts[1][_ONE][0]))
        else:
            sums.append({place: (1.0, 1.0)})
    return sums


def _is_number(parts: Sum) -> bool:
    return set(parts) == {_ONE}


def _plus(a: Sum, b: Sum, sign: float) -> Sum:
    total = dict(a)
    for part, (weight, size) in b.items():
        before, large = total.get(part, (0.0, 0.0))
        total[part] = (before + sign * weight, large + size)
    return total


def _times(a: Sum, factor: float) -> Sum:
    return {part: (weight * factor, size * abs(factor)) for part, (weight, size) in a.items()}
