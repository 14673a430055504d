"""Knowledge about a number as nodes: the expert's number, and the set in which it has to lie."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..expressions import Tree
from ..knowledge import Known
from ..sources import Limits, NamedNumber, Table
from .knowledge import see_rows
from .ops import DOUBLE, SINGLE, Array, Ops, Value
from .outputs import squeeze
from .sets import (
    Pairs,
    SetNodes,
    bound_set,
    cut_line,
    holds,
    join,
    meet,
    narrowest,
    nearest,
    pick_pieces,
    some_number,
)
from .sources import View, looked_at, refuse_rows
from .tables import Answer, answer_table, hit_rules


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

    `numbers` are the one that is given out and both ends of its interval, (n, 1) each.
    """
    refused = o.op("Or", refused, o.op("Not", some_number(o, sets)))
    nothing = o.constant(math.nan, DOUBLE)
    shown = [
        o.op("Where", refused, nothing, nearest(o, sets, o.guard(value, DOUBLE)))
        for value in numbers
    ]
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
