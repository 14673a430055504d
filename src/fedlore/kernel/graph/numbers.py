"""Knowledge about a number as nodes: the expert's number, and the set in which it has to lie.

A set is columns of ends in double precision, in increasing order and NaN where there is no
interval; intervals of one set may touch, which no answer depends on.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..expressions import Tree
from ..knowledge import Known
from ..sources import Limits, NamedNumber, Table
from .knowledge import see_rows, squeeze
from .ops import DOUBLE, INT64, SINGLE, Answer, Array, Ops, Value
from .sources import View, answer_table, hit_rules, looked_at, refuse_rows

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


class NumberNodes(NamedTuple):
    """What the expert says of a number, within the bounds."""

    point: Value | None  # (n, 1) double, NaN where he is silent
    sets: SetNodes | None  # None: the bounds are the set
    refused: Value  # (n, 1) bool
    trust: Value | None = None  # λ, (n, 1), where a row has one of its own


def compile_number_knowledge(o: Ops, known: Known) -> NumberNodes:
    """Knowledge about a number on the graph's rows."""
    view = see_rows(o, known)
    sets, point = set_answer(view, known), point_answer(view, known)
    unusable = refuse_rows(o, o.cast(o.rows, SINGLE), known.columns)
    trust = None if known.row_trust is None else view.trust(known.row_trust, known.trust)
    bounds = (known.number.lower, known.number.upper)
    nodes = join_number(o, point, sets, bounds, known.conflict, unusable)
    return nodes._replace(trust=trust)


def set_answer(view: View, known: Known) -> SetNodes | None:
    """What the sources of the range allow together, within the bounds; None: there are none."""
    o, side = view.o, known.range
    if not side.sources:
        return None
    parts = [_set(view, known, source) for source in side.sources]
    if side.combine == "any" and len(parts) > 1:
        found = join(o, parts)
    else:
        found = meet_all(o, parts, strict=side.empty == "error")
    lacking = None if side.empty == "error" else view.lacking(looked_at(side.sources))
    return bound_set(o, found, (known.number.lower, known.number.upper), side.empty, lacking)


def point_answer(view: View, known: Known) -> Answer | None:
    """The number that the experts name, before the range; None where there are none."""
    sources = known.predict.sources
    if not sources:
        return None
    parts = [_point(view, known, source) for source in sources]
    return first_point(view.o, parts, [view.lacking(looked_at([source])) for source in sources])


def join_number(
    o: Ops,
    point: Answer | None,
    sets: SetNodes | None,
    bounds: tuple[float, float],
    conflict: str,
    unusable: Value,
) -> NumberNodes:
    """Point and set under the policy for a number outside; `unusable` rows are refused too."""
    refused = None if sets is None else sets.refused
    if point is None:
        return NumberNodes(None, sets, o.either(unusable, refused))
    refused = o.either(refused, point.refused)
    limits = sets or bound_rows(o, bounds)
    inside = o.any(holds(o, limits, point.rows))
    spoken = o.op("Not", o.op("IsNaN", point.rows))
    outside = o.op("And", spoken, o.op("Not", inside))
    if conflict == "error":
        return NumberNodes(point.rows, sets, o.either(unusable, refused, outside))
    nothing = o.constant(math.nan, DOUBLE)
    moved = nearest(o, limits, point.rows) if conflict == "project" else nothing
    kept = o.op("Where", outside, moved, point.rows)
    return NumberNodes(kept, sets, o.either(unusable, refused))


def bound_rows(o: Ops, bounds: tuple[float, float]) -> SetNodes:
    """The bounds for every row."""
    return SetNodes(*(o.fill(end, 1, DOUBLE) for end in bounds))


def limit_set(view: View, lower: Tree | float | None, upper: Tree | float | None) -> SetNodes:
    """Between two formulas or numbers; one that is absent or undefined does not limit."""
    o, ends = view.o, []
    for side, far in ((lower, -math.inf), (upper, math.inf)):
        if not isinstance(side, tuple):
            ends.append(o.fill(far if side is None else float(side), 1, DOUBLE))
            continue
        value = o.cast(view.formulas.value(side), DOUBLE)
        ends.append(o.op("Where", o.op("IsNaN", value), o.constant(far, DOUBLE), value))
    low, high = ends
    both = lower is not None and upper is not None
    return SetNodes(low, high, o.op("Greater", low, high) if both else None)


def band_set(o: Ops, point: Answer, below: float, above: float) -> SetNodes:
    """All numbers around a point; everything where it is silent."""
    silent = o.op("IsNaN", point.rows)
    ends = []
    for kind, width, far in (("Sub", below, -math.inf), ("Add", above, math.inf)):
        end = o.op(kind, point.rows, o.constant(width, DOUBLE))
        ends.append(o.op("Where", silent, o.constant(far, DOUBLE), end))
    return SetNodes(ends[0], ends[1], point.refused)


def table_set(view: View, table: Table, outcomes: list[Pairs]) -> SetNodes:
    """What the rules that hit name, one outcome a rule."""
    o = view.o
    hits = hit_rules(o, view.x, table)  # (n, rules), 0 or 1
    if table.policy == "intersect" and all(len(one) == 1 for one in outcomes):
        return narrowest(o, hits, np.array([one[0] for one in outcomes]))
    pieces, inside = cut_line(outcomes)
    joins = table.policy == "union"
    may_hit = hit_rules(o, view.x, table, perhaps=True) if joins and view.holes else hits
    count = o.op("MatMul", may_hit, o.constant(inside if joins else ~inside, SINGLE))
    some = o.op("Greater", count, o.constant(0.0))  # (n, pieces)
    if joins:
        silent = o.op("Not", o.any(o.op("Greater", hits, o.constant(0.0))))
        return pick_pieces(o, o.op("Or", some, silent), pieces)
    return pick_pieces(o, o.op("Not", some), pieces)


def formula_point(view: View, source: NamedNumber) -> Answer:
    """The number that a formula names, (n, 1) double, NaN where it is undefined."""
    return Answer(view.o.cast(view.formulas.value(source.tree), DOUBLE))


def table_point(view: View, table: Table, values: Sequence[float]) -> Answer:
    """The number that a table names, one value a rule."""
    o, named = view.o, sorted(set(values))
    rules = [
        replace(rule, outcome=(named.index(value),))
        for rule, value in zip(table.rules, values, strict=True)
    ]
    over = Table(table.name, rules, table.policy, len(named))
    found = answer_table(o, view.x, over, view.holes)
    rows = o.cast(found.rows, DOUBLE)
    some = o.op("Greater", o.total(rows), o.constant(0.0, DOUBLE))
    number = o.op("MatMul", rows, o.constant(np.array(named)[:, None], DOUBLE))
    return Answer(o.op("Where", some, number, o.constant(math.nan, DOUBLE)), found.refused)


def first_point(o: Ops, parts: Sequence[Answer], lacking: Sequence[Value | None]) -> Answer:
    """The first expert who names a number; whoever lacks a value might have spoken."""
    number, over = parts[0].rows, None
    for part, lacks in zip(parts[1:], lacking, strict=False):
        over = o.either(over, lacks)
        silent = o.op("IsNaN", number)
        silent = silent if over is None else o.op("And", silent, o.op("Not", over))
        number = o.op("Where", silent, part.rows, number)
    return Answer(number, o.either(*[part.refused for part in parts]))


def meet_all(o: Ops, parts: Sequence[SetNodes], *, strict: bool) -> SetNodes:
    """What all sets hold; `strict` refuses a row in which nothing is left."""
    found = parts[0]
    for part in parts[1:]:
        found = meet(o, found, part, strict=strict)
    return found


def number_outputs(
    o: Ops, sets: SetNodes, refused: Value, numbers: Sequence[Value]
) -> tuple[Value, Value, Value]:
    """Number (n,), interval (n, 2) and refusals (n,), each number moved to the nearest of a set.

    `numbers` are the one that is given out and both ends of its interval, (n, 1) each; whatever
    they are, the ends lie on either side of the number.
    """
    refused = o.op("Or", refused, o.op("Not", some_number(o, sets)))
    nothing = o.constant(math.nan, DOUBLE)
    number, low, high = (o.guard(value, DOUBLE) for value in numbers)
    ends = o.op("Min", low, number), o.op("Max", high, number)
    shown = [o.op("Where", refused, nothing, nearest(o, sets, value)) for value in (number, *ends)]
    interval = o.op("Concat", *shown[1:], axis=1)
    return squeeze(o, shown[0]), interval, squeeze(o, refused)


def _set(view: View, known: Known, source: Table | Limits) -> SetNodes:
    if isinstance(source, Limits):
        return limit_set(view, source.lower, source.upper)
    outcomes = [_pairs(known.number.pieces, sorted(rule.outcome)) for rule in source.rules]
    return table_set(view, source, outcomes)


def _point(view: View, known: Known, source: Table | NamedNumber) -> Answer:
    if isinstance(source, NamedNumber):
        return formula_point(view, source)
    values = [float(known.number.pieces[min(rule.outcome), 0]) for rule in source.rules]
    return table_point(view, source, values)


def _pairs(pieces: Array, places: Sequence[int]) -> Pairs:
    """The intervals that some pieces of the line make."""
    found: list[tuple[float, float]] = []
    for before, place in zip((None, *places), places, strict=False):
        low, high = pieces[place].tolist()
        if before == place - 1:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return tuple(found)
