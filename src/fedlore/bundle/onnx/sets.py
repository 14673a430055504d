"""Sets of numbers as nodes: columns of ends that meet, join, and hold the nearest number."""

import math
from dataclasses import dataclass, replace

from .builder import DOUBLE, INT64, Builder
from .cells import fill_row


@dataclass(frozen=True)
class SetNodes:
    """The ends of each row's intervals, (n, s) double, and where the knowledge refuses, (n, 1)."""

    lower: str
    upper: str
    refused: str | None = None
    count: int = 1  # s


def nearest_nodes(build: Builder, sets: SetNodes, value: str) -> str:
    """The number of each set that is nearest to a value, (n, 1); of two the lower one."""
    none = build.op("IsNaN", sets.lower)
    zero = build.constant(0.0, DOUBLE)
    low, high = (build.op("Where", none, zero, end) for end in (sets.lower, sets.upper))
    found = build.op("Min", build.op("Max", value, low), high)  # (n, s)
    away = build.op("Abs", build.op("Sub", found, value))
    away = build.op("Where", none, build.constant(math.inf, DOUBLE), away)
    which = build.op("ArgMin", away, axis=1, keepdims=1)
    return build.op("GatherElements", found, which, axis=1)


def meet_nodes(build: Builder, a: SetNodes, b: SetNodes, *, strict: bool) -> SetNodes:
    """What lies in both sets; `strict` refuses a row in which they leave nothing of each other."""
    refused = build.either(a.refused, b.refused)
    first, second = build.constant([2], INT64), build.constant([1], INT64)

    def wide(one: str, other: str) -> tuple[str, str]:  # (n, s, 1) and (n, 1, t)
        return build.op("Unsqueeze", one, first), build.op("Unsqueeze", other, second)

    low = build.op("Max", *wide(a.lower, b.lower))
    high = build.op("Min", *wide(a.upper, b.upper))
    none = build.op("Or", *(build.op("IsNaN", end) for end in wide(a.lower, b.lower)))
    low, high, none = (build.op("Flatten", part, axis=1) for part in (low, high, none))
    found = empty_nodes(build, low, high, a.count * b.count, none=none)
    if not strict:
        return replace(found, refused=refused)
    gone = build.op("And", some_nodes(build, a), build.op("Not", some_nodes(build, found)))
    return replace(found, refused=build.either(refused, gone))


def join_nodes(build: Builder, parts: list[SetNodes]) -> SetNodes:
    """All intervals in order, each cut off where those before it have reached."""
    lower = build.op("Concat", *[part.lower for part in parts], axis=1)
    upper = build.op("Concat", *[part.upper for part in parts], axis=1)
    count = sum(part.count for part in parts)
    none, far = build.op("IsNaN", lower), build.constant(math.inf, DOUBLE)
    size = build.constant([count], INT64)
    key = build.op("Where", none, far, lower)
    low, order = build.ops("TopK", key, size, results=2, axis=1, largest=0, sorted=1)
    closed = build.op("Where", none, build.constant(-math.inf, DOUBLE), upper)
    high = build.op("GatherElements", closed, order, axis=1)
    reach = fill_row(build, -math.inf, 1, DOUBLE)
    nothing = build.constant(math.nan, DOUBLE)
    lows, highs = [], []
    for place in range(count):
        at = build.constant([place], INT64)
        begin, end = (build.op("Gather", part, at, axis=1) for part in (low, high))
        swallowed = build.op("LessOrEqual", end, reach)
        lows.append(build.op("Where", swallowed, nothing, build.op("Max", begin, reach)))
        highs.append(build.op("Where", swallowed, nothing, end))
        reach = build.op("Max", reach, end)
    return SetNodes(
        build.op("Concat", *lows, axis=1),
        build.op("Concat", *highs, axis=1),
        build.either(*[part.refused for part in parts]),
        count,
    )


def empty_nodes(
    build: Builder, low: str, high: str, count: int = 1, *, none: str | None = None
) -> SetNodes:
    """Ends with NaN in place of those that crossed, or where there was nothing."""
    gone = build.op("Greater", low, high)
    gone = gone if none is None else build.op("Or", gone, none)
    nothing = build.constant(math.nan, DOUBLE)
    return SetNodes(
        build.op("Where", gone, nothing, low), build.op("Where", gone, nothing, high), None, count
    )


def some_nodes(build: Builder, sets: SetNodes) -> str:
    """Whether a set holds any number, (n, 1)."""
    return build.any(build.op("Not", build.op("IsNaN", sets.lower)))


def hold_nodes(build: Builder, sets: SetNodes, value: str) -> str:
    """Which intervals hold a number, ends included, (n, s); none holds what is not there."""
    there = build.op("Not", build.op("IsNaN", sets.lower))
    begun = build.op("LessOrEqual", sets.lower, value)
    open_ = build.op("LessOrEqual", value, sets.upper)
    return build.op("And", there, build.op("And", begun, open_))
