"""Sets of numbers as nodes: columns of ends that meet, join, and hold the nearest number.

Ends are in double precision, in increasing order and NaN where there is no interval; intervals of
one set may touch, which no answer depends on.
"""

import math
from typing import NamedTuple

import numpy as np

from .ops import DOUBLE, INT64, SINGLE, Array, Ops, Value

Pairs = tuple[tuple[float, float], ...]  # closed intervals, in order, none touching another


class SetNodes(NamedTuple):
    """The ends of each row's intervals, (n, s) double, and where the knowledge refuses, (n, 1)."""

    lower: Value
    upper: Value
    refused: Value | None = None
    width: int = 1  # s


def nearest(o: Ops, sets: SetNodes, value: Value) -> Value:
    """The number of each set that is nearest to a value, (n, 1); of two the lower one."""
    none = o.op("IsNaN", sets.lower)
    low, high = (
        o.op("Where", none, o.constant(0.0, DOUBLE), end) for end in (sets.lower, sets.upper)
    )
    found = o.op("Min", o.op("Max", value, low), high)  # (n, s)
    away = o.op("Abs", o.op("Sub", found, value))
    away = o.op("Where", none, o.constant(math.inf, DOUBLE), away)
    which = o.op("ArgMin", away, axis=1, keepdims=1)
    return o.op("GatherElements", found, which, axis=1)


def some_number(o: Ops, sets: SetNodes) -> Value:
    """Whether a set holds any number, (n, 1)."""
    return o.any(o.op("Not", o.op("IsNaN", sets.lower)))


def holds(o: Ops, sets: SetNodes, value: Value) -> Value:
    """Which intervals hold a number, ends included, (n, s); none holds what is not there."""
    there = o.op("Not", o.op("IsNaN", sets.lower))
    begun = o.op("LessOrEqual", sets.lower, value)
    open_ = o.op("LessOrEqual", value, sets.upper)
    return o.op("And", there, o.op("And", begun, open_))


def drop_crossed(
    o: Ops, low: Value, high: Value, count: int = 1, *, none: Value | None = None
) -> SetNodes:
    """Ends with NaN in place of those that crossed, or where there was nothing."""
    gone = o.op("Greater", low, high)
    gone = gone if none is None else o.op("Or", gone, none)
    nothing = o.constant(math.nan, DOUBLE)
    ends = (o.op("Where", gone, nothing, end) for end in (low, high))
    return SetNodes(next(ends), next(ends), None, count)


def meet(o: Ops, a: SetNodes, b: SetNodes, *, strict: bool) -> SetNodes:
    """What lies in both sets; `strict` refuses a row in which they leave nothing of each other."""
    refused = o.either(a.refused, b.refused)
    first, second = o.constant([2], INT64), o.constant([1], INT64)

    def wide(one: Value, other: Value) -> tuple[Value, Value]:  # (n, s, 1) and (n, 1, t)
        return o.op("Unsqueeze", one, first), o.op("Unsqueeze", other, second)

    low = o.op("Max", *wide(a.lower, b.lower))
    high = o.op("Min", *wide(a.upper, b.upper))
    none = o.op("Or", *(o.op("IsNaN", end) for end in wide(a.lower, b.lower)))
    low, high, none = (o.op("Flatten", part, axis=1) for part in (low, high, none))
    found = drop_crossed(o, low, high, a.width * b.width, none=none)
    if not strict:
        return found._replace(refused=refused)
    gone = o.op("And", some_number(o, a), o.op("Not", some_number(o, found)))
    return found._replace(refused=o.either(refused, gone))


def join(o: Ops, parts: list[SetNodes]) -> SetNodes:
    """All intervals in order, each cut off where those before it have reached."""
    lower = o.op("Concat", *[part.lower for part in parts], axis=1)
    upper = o.op("Concat", *[part.upper for part in parts], axis=1)
    count = sum(part.width for part in parts)
    none, far = o.op("IsNaN", lower), o.constant(math.inf, DOUBLE)
    key = o.op("Where", none, far, lower)
    size = o.constant([count], INT64)
    low, order = o.ops("TopK", key, size, results=2, axis=1, largest=0, sorted=1)
    closed = o.op("Where", none, o.constant(-math.inf, DOUBLE), upper)
    high = o.op("GatherElements", closed, order, axis=1)
    reach = o.fill(-math.inf, 1, DOUBLE)
    nothing = o.constant(math.nan, DOUBLE)
    lows, highs = [], []
    for place in range(count):
        begin, end = (o.columns(part, [place]) for part in (low, high))
        swallowed = o.op("LessOrEqual", end, reach)
        lows.append(o.op("Where", swallowed, nothing, o.op("Max", begin, reach)))
        highs.append(o.op("Where", swallowed, nothing, end))
        reach = o.op("Max", reach, end)
    refused = o.either(*[part.refused for part in parts])
    ends = (o.op("Concat", *part, axis=1) for part in (lows, highs))
    return SetNodes(next(ends), next(ends), refused, count)


def bound_set(
    o: Ops, sets: SetNodes, bounds: tuple[float, float], empty: str, lacking: Value | None
) -> SetNodes:
    """What of a set lies in the bounds; where nothing does the row is refused, or all allowed."""
    low = o.op("Max", sets.lower, o.constant(bounds[0], DOUBLE))
    high = o.op("Min", sets.upper, o.constant(bounds[1], DOUBLE))
    found = drop_crossed(o, low, high, sets.width, none=o.op("IsNaN", sets.lower))
    none = o.op("Not", some_number(o, found))
    if empty == "error":
        return found._replace(refused=o.either(sets.refused, none))
    nothing = o.constant(math.nan, DOUBLE)
    if lacking is not None:  # nothing may be left
        none = o.op("Or", none, lacking)
        ends = (o.op("Where", lacking, nothing, end) for end in (found.lower, found.upper))
        found = SetNodes(next(ends), next(ends), width=found.width)
    first, last = (o.op("Where", none, o.constant(end, DOUBLE), nothing) for end in bounds)
    lower = o.op("Concat", first, found.lower, axis=1)
    upper = o.op("Concat", last, found.upper, axis=1)
    return SetNodes(lower, upper, sets.refused, sets.width + 1)


def narrowest(o: Ops, hits: Value, ends: Array) -> SetNodes:
    """One interval a rule: the highest lower end and the lowest upper one of those that hit."""
    hit = o.op("Greater", hits, o.constant(0.0))
    sides = []
    for place, far, kind in ((0, -math.inf, "ReduceMax"), (1, math.inf, "ReduceMin")):
        named = o.constant(ends[None, :, place], DOUBLE)
        said = o.op("Where", hit, named, o.constant(far, DOUBLE))
        sides.append(o.op(kind, said, axes=[1], keepdims=1))
    return drop_crossed(o, sides[0], sides[1])


def cut_line(outcomes: list[Pairs]) -> tuple[Array, Array]:
    """The line cut at all ends: pieces (p, 2), points and what lies between, in order, and which
    outcome holds which, (outcomes, p)."""
    ends = sorted({end for one in outcomes for pair in one for end in pair if math.isfinite(end)})
    line: list[tuple[float, float]] = []
    before = -math.inf
    for end in ends:
        line += [(before, end), (end, end)]
        before = end
    line.append((before, math.inf))
    inside = [[any(a <= p and q <= b for a, b in one) for p, q in line] for one in outcomes]
    return np.array(line), np.array(inside)


def pick_pieces(o: Ops, allowed: Value, pieces: Array) -> SetNodes:
    """The allowed pieces of the line; a point only where neither neighbour is allowed."""
    count = len(pieces)
    point = np.arange(count) % 2 == 1
    left = np.zeros((count, count), bool)
    left[np.arange(count - 1), np.arange(1, count)] = True  # column j has its neighbour j - 1
    around = o.constant((left | left.T) & point[None], SINGLE)
    covered = o.op("Greater", o.op("MatMul", o.cast(allowed, SINGLE), around), o.constant(0.0))
    alone = o.op("And", allowed, o.op("Not", covered))
    nothing = o.constant(math.nan, DOUBLE)
    ends = (o.op("Where", alone, o.constant(pieces[None, :, i], DOUBLE), nothing) for i in (0, 1))
    return SetNodes(next(ends), next(ends), width=count)
