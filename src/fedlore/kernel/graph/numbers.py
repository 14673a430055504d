"""Knowledge about a number as nodes: the expert's number, and the set in which it has to lie.

A set is columns of ends in double precision, in increasing order and NaN where there is no
interval; intervals of one set may touch, which no answer depends on.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from ..cells import cut_line
from ..expressions import Tree
from ..knowledge import Known
from ..sources import Limits, Prediction, Side, Table
from .knowledge import see_rows, squeeze
from .ops import DOUBLE, INT64, SINGLE, Answer, Array, Ops, Value
from .sources import View, answer_table, first_prediction, hit_rules, refuse_rows

_ROWWISE: dict[str, Any] = {"axes": [1], "keepdims": 1}
Pairs = tuple[tuple[float, float], ...]  # closed intervals, in order, none touching another


class SetNodes(NamedTuple):
    """The ends of each row's intervals, (n, s) double, and where the knowledge refuses, (n, 1)."""

    lower: Value
    upper: Value
    refused: Value | None = None
    width: int = 1  # s


def nearest(o: Ops, sets: SetNodes, value: Value) -> Value:
    """The number of each set that is nearest to a value, (n, 1); of two the lower one."""
    none = o.isnan(sets.lower)
    low, high = (o.where(none, 0.0, end) for end in (sets.lower, sets.upper))
    found = o.between(value, low, high)  # (n, s)
    away = o.where(none, math.inf, abs(found - value))
    which = o.op("ArgMin", away, axis=1, keepdims=1)
    return o.op("GatherElements", found, which, axis=1)


def some_number(o: Ops, sets: SetNodes) -> Value:
    """Whether a set holds any number, (n, 1)."""
    return o.any(~o.isnan(sets.lower))


def holds(o: Ops, sets: SetNodes, value: Value) -> Value:
    """Which intervals hold a number, ends included, (n, s); none holds what is not there."""
    return ~o.isnan(sets.lower) & ((sets.lower <= value) & (value <= sets.upper))


def drop_crossed(
    o: Ops, low: Value, high: Value, count: int = 1, *, none: Value | None = None
) -> SetNodes:
    """Ends with NaN in place of those that crossed, or where there was nothing."""
    gone = low > high if none is None else (low > high) | none
    return SetNodes(o.where(gone, math.nan, low), o.where(gone, math.nan, high), width=count)


def meet(o: Ops, a: SetNodes, b: SetNodes, *, strict: bool) -> SetNodes:
    """What lies in both sets; `strict` refuses a row in which they leave nothing of each other."""
    refused = o.either(a.refused, b.refused)
    first, second = o.constant([2], INT64), o.constant([1], INT64)

    def wide(one: Value, other: Value) -> tuple[Value, Value]:  # (n, s, 1) and (n, 1, t)
        return o.op("Unsqueeze", one, first), o.op("Unsqueeze", other, second)

    low, high = o.larger(*wide(a.lower, b.lower)), o.smaller(*wide(a.upper, b.upper))
    none = o.either(*(o.isnan(end) for end in wide(a.lower, b.lower)))
    low, high, none = (o.op("Flatten", part, axis=1) for part in (low, high, none))
    found = drop_crossed(o, low, high, a.width * b.width, none=none)
    if strict:
        refused = o.either(refused, some_number(o, a) & ~some_number(o, found))
    return found._replace(refused=refused)


def join(o: Ops, parts: list[SetNodes]) -> SetNodes:
    """All intervals in order, each cut off where those before it have reached."""
    lower, upper = o.concat(*[p.lower for p in parts]), o.concat(*[p.upper for p in parts])
    count = sum(part.width for part in parts)
    none = o.isnan(lower)
    key, size = o.where(none, math.inf, lower), o.constant([count], INT64)
    low, order = o.ops("TopK", key, size, results=2, axis=1, largest=0, sorted=1)
    high = o.op("GatherElements", o.where(none, -math.inf, upper), order, axis=1)
    reach = o.fill(-math.inf, 1, DOUBLE)
    lows, highs = [], []
    for place in range(count):
        begin, end = (o.columns(part, [place]) for part in (low, high))
        swallowed = end <= reach
        lows.append(o.where(swallowed, math.nan, o.larger(begin, reach)))
        highs.append(o.where(swallowed, math.nan, end))
        reach = o.larger(reach, end)
    refused = o.either(*[part.refused for part in parts])
    return SetNodes(o.concat(*lows), o.concat(*highs), refused, count)


def bound_set(
    o: Ops, sets: SetNodes, bounds: tuple[float, float], empty: str, lacking: Value | None
) -> SetNodes:
    """What of a set lies in the bounds; where nothing does the row is refused, or all allowed."""
    low, high = o.larger(sets.lower, bounds[0]), o.smaller(sets.upper, bounds[1])
    found = drop_crossed(o, low, high, sets.width, none=o.isnan(sets.lower))
    none = ~some_number(o, found)
    if empty == "error":
        return found._replace(refused=o.either(sets.refused, none))
    ends = [found.lower, found.upper]
    if lacking is not None:  # nothing may be left
        none = none | lacking
        ends = [o.where(lacking, math.nan, end) for end in ends]
    nothing = o.constant(math.nan, DOUBLE)
    lower, upper = (
        o.concat(o.where(none, bound, nothing), end)
        for bound, end in zip(bounds, ends, strict=True)
    )
    return SetNodes(lower, upper, sets.refused, sets.width + 1)


def narrowest(o: Ops, hits: Value, ends: Array) -> SetNodes:
    """One interval a rule: the highest lower end and the lowest upper one of those that hit."""
    low, high = (
        o.op(kind, o.where(hits > 0.0, o.constant(ends[None, :, at], DOUBLE), far), **_ROWWISE)
        for at, far, kind in ((0, -math.inf, "ReduceMax"), (1, math.inf, "ReduceMin"))
    )
    return drop_crossed(o, low, high)


def cut_outcomes(outcomes: list[Pairs]) -> tuple[Array, Array]:
    """The line cut at all ends: pieces (p, 2), points and what lies between, in order, and which
    outcome holds which, (outcomes, p)."""
    line = cut_line(end for one in outcomes for pair in one for end in pair)
    inside = [[any(a <= p and q <= b for a, b in one) for p, q in line] for one in outcomes]
    return line, np.array(inside)


def pick_pieces(o: Ops, allowed: Value, pieces: Array) -> SetNodes:
    """The allowed pieces of the line; a point only where neither neighbour is allowed."""
    count = len(pieces)
    point = np.arange(count) % 2 == 1
    left = np.eye(count, k=1, dtype=bool)  # column j has its neighbour j - 1
    around = o.constant((left | left.T) & point[None], SINGLE)
    alone = allowed & ~(o.op("MatMul", o.cast(allowed, SINGLE), around) > 0.0)
    low, high = (o.where(alone, o.constant(end[None], DOUBLE), math.nan) for end in pieces.T)
    return SetNodes(low, high, width=count)


class NumberNodes(NamedTuple):
    """What the expert says of a number, within the bounds."""

    point: Value | None  # (n, 1) double, NaN where he is silent
    sets: SetNodes | None  # None: the bounds are the set
    refused: Value  # (n, 1) bool
    trust: Value | None = None  # λ, (n, 1), where a row has one of its own


def compile_number_knowledge(o: Ops, known: Known) -> NumberNodes:
    """Knowledge about a number on the graph's rows."""
    view = see_numbers(o, known)
    sets, point = set_answer(view, known), point_answer(view, known)
    unusable = refuse_rows(o, o.cast(o.rows, SINGLE), known.columns)
    trust = None if known.row_trust is None else view.trust(known.row_trust, known.trust)
    nodes = join_number(o, point, sets, known.number.bounds, known.conflict, unusable)
    return nodes._replace(trust=trust)


class NumberView(View):
    """Rows as knowledge about a number sees them; tables name pieces of the line."""

    pieces: Array  # (p, 2)

    def set(self, source: Any) -> SetNodes:
        """The set of numbers that a source allows, or several together, before the bounds."""
        return SETS[type(source)](self, source)

    def point(self, source: Any) -> Answer:
        """The number that a source names, or the first of several, (n, 1) double, else NaN."""
        return POINTS[type(source)](self, source)


def see_numbers(o: Ops, known: Known) -> NumberView:
    """The graph's rows as knowledge about a number sees them."""
    seen = see_rows(o, known)
    view = NumberView(o, seen.x, holes=seen.holes)
    view.pieces = known.number.pieces
    return view


def set_answer(view: NumberView, known: Known) -> SetNodes | None:
    """What the sources of the range allow together, within the bounds; None: there are none."""
    side = known.range
    if not side.sources:
        return None
    lacking = None if side.empty == "error" else view.lacking(side.sources)
    return bound_set(view.o, view.set(side), known.number.bounds, side.empty, lacking)


def point_answer(view: NumberView, known: Known) -> Answer | None:
    """The number that the experts name, before the range; None where there are none."""
    return view.point(known.predict) if known.predict.sources else None


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
    outside = ~o.isnan(point.rows) & ~o.any(holds(o, limits, point.rows))
    if conflict == "error":
        return NumberNodes(point.rows, sets, o.either(unusable, refused, outside))
    moved = nearest(o, limits, point.rows) if conflict == "project" else math.nan
    return NumberNodes(o.where(outside, moved, point.rows), sets, o.either(unusable, refused))


def bound_rows(o: Ops, bounds: tuple[float, float]) -> SetNodes:
    """The bounds for every row."""
    return SetNodes(*(o.fill(end, 1, DOUBLE) for end in bounds))


def limit_set(view: View, lower: Tree | float | None, upper: Tree | float | None) -> SetNodes:
    """Between two formulas or numbers; one that is absent or undefined does not limit."""
    o, ends = view.o, []
    for side, far in ((lower, -math.inf), (upper, math.inf)):
        if isinstance(side, tuple):
            value = o.cast(view.formulas.value(side), DOUBLE)
            ends.append(o.where(o.isnan(value), far, value))
        else:
            ends.append(o.fill(far if side is None else float(side), 1, DOUBLE))
    low, high = ends
    return SetNodes(low, high, None if lower is None or upper is None else low > high)


def band_set(o: Ops, point: Answer, below: float, above: float) -> SetNodes:
    """All numbers around a point; everything where it is silent."""
    silent = o.isnan(point.rows)
    low = o.where(silent, -math.inf, point.rows - float(below))
    return SetNodes(low, o.where(silent, math.inf, point.rows + float(above)), point.refused)


def table_set(view: View, table: Table, outcomes: list[Pairs]) -> SetNodes:
    """What the rules that hit name, one outcome a rule."""
    o = view.o
    hits = hit_rules(o, view.x, table)  # (n, rules), 0 or 1
    if table.policy == "intersect" and all(len(one) == 1 for one in outcomes):
        return narrowest(o, hits, np.array([one[0] for one in outcomes]))
    pieces, inside = cut_outcomes(outcomes)
    joins = table.policy == "union"
    may_hit = hit_rules(o, view.x, table, perhaps=True) if joins and view.holes else hits
    count = o.op("MatMul", may_hit, o.constant(inside if joins else ~inside, SINGLE))
    some = count > 0.0  # (n, pieces)
    return pick_pieces(o, some | ~o.any(hits > 0.0) if joins else ~some, pieces)


def formula_point(view: View, tree: Tree) -> Answer:
    """The number that a formula names, (n, 1) double, NaN where it is undefined."""
    return Answer(view.o.cast(view.formulas.value(tree), DOUBLE))


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
    number = o.op("MatMul", rows, o.constant(np.array(named)[:, None], DOUBLE))
    return Answer(o.where(o.total(rows) > 0.0, number, math.nan), found.refused)


def number_outputs(
    o: Ops, sets: SetNodes, refused: Value, numbers: Sequence[Value]
) -> tuple[Value, Value, Value]:
    """Number (n,), interval (n, 2) and refusals (n,), each number moved to the nearest of a set.

    `numbers` are the one that is given out and both ends of its interval, (n, 1) each; whatever
    they are, the ends lie on either side of the number.
    """
    refused = refused | ~some_number(o, sets)
    number, low, high = (o.guard(value, DOUBLE) for value in numbers)
    ends = o.smaller(low, number), o.larger(high, number)
    shown = [o.where(refused, math.nan, nearest(o, sets, value)) for value in (number, *ends)]
    return squeeze(o, shown[0]), o.concat(*shown[1:]), squeeze(o, refused)


def _table_set(view: NumberView, table: Table) -> SetNodes:
    outcomes = [_pairs(view.pieces, sorted(rule.outcome)) for rule in table.rules]
    return table_set(view, table, outcomes)


def _side_set(view: NumberView, side: Side) -> SetNodes:
    parts = [view.set(source) for source in side.sources]
    if side.combine == "any" and len(parts) > 1:
        return join(view.o, parts)
    return reduce(partial(meet, view.o, strict=side.empty == "error"), parts)


def _table_point(view: NumberView, table: Table) -> Answer:
    values = [float(view.pieces[min(rule.outcome), 0]) for rule in table.rules]
    return table_point(view, table, values)


def _first_point(view: NumberView, side: Side) -> Answer:
    """The first expert who names a number."""
    parts = [view.point(source) for source in side.sources]
    lacking = [view.lacking([source]) for source in side.sources]
    return first_prediction(view.o, parts, lacking, lambda number: ~view.o.isnan(number))


#: What each kind of source says of a number.
SETS: dict[type, Callable[[NumberView, Any], SetNodes]] = {
    Table: _table_set,
    Limits: lambda view, source: limit_set(view, source.lower, source.upper),
    Side: _side_set,
}
POINTS: dict[type, Callable[[NumberView, Any], Answer]] = {
    Table: _table_point,
    Prediction: lambda view, source: formula_point(view, source.tree),
    Side: _first_point,
}


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
