"""Knowledge about a number as nodes: the expert's number, and closed sets as columns of ends.

Ends are in double precision, in increasing order and NaN where there is no interval, as in `Sets`;
intervals of one set may touch, which no answer depends on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...answers import Bins
from ...errors import KnowledgeError
from ...knowledge.combine import AllOf, AnyOf, FirstOf
from ...knowledge.formulas.formula import Formula
from ...knowledge.numbers.conformal import ConformalInterval
from ...knowledge.numbers.numbers import Numbers
from ...knowledge.numbers.ranges import Band, Between
from ...knowledge.numbers.tables import IntervalTable, NumberTable
from ...knowledge.views import Mask
from .builder import DOUBLE, INT64, SINGLE, Builder
from .cells import fill_row
from .formulas import number_node
from .holes import lacking_nodes
from .sets import (
    SetNodes,
    empty_nodes,
    hold_nodes,
    join_nodes,
    meet_nodes,
    nearest_nodes,
    some_nodes,
)
from .tables import hit_nodes, table


@dataclass(frozen=True)
class ToldNodes:
    """What the expert says of a number in the graph, within the bounds."""

    said: str | None  # (n, 1) double, NaN where he is silent
    sets: SetNodes | None
    refused: str | None  # (n, 1) bool


def tell_nodes(build: Builder, x: str, known: Numbers, bins: Bins) -> ToldNodes:
    """The knowledge on rows x, float32 (n, d), with its policies, as `Numbers.examine` has it."""
    sets = None
    refused: str | None = None
    if known.range is not None:
        lacking = lacking_nodes(build, x, known.range) if known.empty == "all" else None
        sets = _bounded(build, add_set(build, x, known.range), known, bins, lacking)
        refused = sets.refused
    if known.prediction is None:
        return ToldNodes(None, sets, refused)
    said, wrong = add_point(build, x, known.prediction)
    refused = build.either(refused, wrong)
    limits = sets or SetNodes(
        fill_row(build, bins.lower, 1, DOUBLE), fill_row(build, bins.upper, 1, DOUBLE)
    )
    inside = build.any(hold_nodes(build, limits, said))
    spoken = build.op("Not", build.op("IsNaN", said))
    conflict = build.op("And", spoken, build.op("Not", inside))
    if known.conflict == "error":
        return ToldNodes(said, sets, build.either(refused, conflict))
    nothing = build.constant(math.nan, DOUBLE)
    moved = nearest_nodes(build, limits, said) if known.conflict == "project" else nothing
    return ToldNodes(build.op("Where", conflict, moved, said), sets, refused)


def add_point(build: Builder, x: str, model: Any) -> tuple[str, str | None]:
    """The number that an expert names, (n, 1) double with NaN where he is silent."""
    if isinstance(model, Formula):
        return build.cast(number_node(build, x, model), DOUBLE), None
    if isinstance(model, NumberTable):
        said = table(build, x, model.table)
        rows = build.cast(said.rows, DOUBLE)
        values = build.constant(np.array(model.values)[:, None], DOUBLE)
        named = build.op("Greater", build.total(rows), build.constant(0.0, DOUBLE))
        number = build.op("MatMul", rows, values)
        nothing = build.constant(math.nan, DOUBLE)
        return build.op("Where", named, number, nothing), said.refused
    if isinstance(model, FirstOf):
        parts = [add_point(build, x, one) for one in model.predictions]
        number, over = parts[0][0], None
        for before, (other, _) in zip(model.predictions, parts[1:], strict=False):
            over = build.either(over, lacking_nodes(build, x, before))  # he might have spoken
            silent = build.op("IsNaN", number)
            silent = silent if over is None else build.op("And", silent, build.op("Not", over))
            number = build.op("Where", silent, other, number)
        return number, build.either(*[wrong for _, wrong in parts])
    if isinstance(model, Mask):
        with build.narrowed(len(model.columns)):
            return add_point(build, _masked(build, x, model), model.model)
    raise _refusal(model)


def add_set(build: Builder, x: str, model: Any) -> SetNodes:
    """The set of numbers that a range allows, before the bounds."""
    make = _SETS.get(type(model))
    if make is None:
        raise _refusal(model)
    return make(build, x, model)


def _refusal(model: Any) -> KnowledgeError:
    return KnowledgeError(
        f"a {type(model).__name__} of numbers cannot be put into a graph: use a table or a formula"
    )


def _masked(build: Builder, x: str, model: Mask) -> str:
    return build.op("Gather", x, build.constant(list(model.columns), INT64), axis=1)


def _between(build: Builder, x: str, model: Between) -> SetNodes:
    ends = []
    for side, far in ((model.lower, -math.inf), (model.upper, math.inf)):
        if side is None or isinstance(side, float | int):
            ends.append(fill_row(build, far if side is None else float(side), 1, DOUBLE))
            continue
        value = build.cast(number_node(build, x, side), DOUBLE)
        none = build.op("IsNaN", value)
        ends.append(build.op("Where", none, build.constant(far, DOUBLE), value))
    low, high = ends
    both = model.lower is not None and model.upper is not None
    return SetNodes(low, high, build.op("Greater", low, high) if both else None)


def _band(build: Builder, x: str, model: Band | ConformalInterval) -> SetNodes:
    middle, wrong = add_point(build, x, model.point)
    below, above = (
        (model.below, model.above) if isinstance(model, Band) else (model.radius, model.radius)
    )
    silent = build.op("IsNaN", middle)
    ends = []
    for op, width, far in (("Sub", below, -math.inf), ("Add", above, math.inf)):
        end = build.op(op, middle, build.constant(width, DOUBLE))
        ends.append(build.op("Where", silent, build.constant(far, DOUBLE), end))
    return SetNodes(ends[0], ends[1], wrong)


def _interval_table(build: Builder, x: str, model: IntervalTable) -> SetNodes:
    rules = [model.table.rules[i] for i in model.table.order]
    outcomes = [model.sets[rule.outcome[0]] for rule in rules]
    hits = hit_nodes(build, x, model.table)  # (n, rules), 0 or 1
    if model.table.policy == "intersect" and all(len(one) == 1 for one in outcomes):
        return _narrowest(build, hits, np.array([one[0] for one in outcomes]))
    pieces, inside = _pieces(outcomes)
    joins = model.table.policy == "union"
    may_hit = hit_nodes(build, x, model.table, perhaps=True) if joins and build.width else hits
    count = build.op("MatMul", may_hit, build.constant(inside if joins else ~inside, SINGLE))
    some = build.op("Greater", count, build.constant(0.0))  # (n, pieces)
    if joins:
        silent = build.op("Not", build.any(build.op("Greater", hits, build.constant(0.0))))
        allowed = build.op("Or", some, silent)
    else:
        allowed = build.op("Not", some)
    return _chosen(build, allowed, pieces)


def _narrowest(build: Builder, hits: str, ends: NDArray[np.float64]) -> SetNodes:
    """One interval a rule: the highest lower end and the lowest upper one of those that hit."""
    hit = build.op("Greater", hits, build.constant(0.0))
    sides = []
    for place, far, op in ((0, -math.inf, "ReduceMax"), (1, math.inf, "ReduceMin")):
        said = build.op(
            "Where", hit, build.constant(ends[None, :, place], DOUBLE), build.constant(far, DOUBLE)
        )
        sides.append(build.op(op, said, axes=[1], keepdims=1))
    return empty_nodes(build, sides[0], sides[1])


def _pieces(
    outcomes: list[tuple[tuple[float, float], ...]],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The line cut at all ends: pieces (p, 2), points and what lies between, in order, and which
    rule holds which, (rules, p)."""
    ends = sorted({end for one in outcomes for pair in one for end in pair if math.isfinite(end)})
    line: list[tuple[float, float]] = []
    before = -math.inf
    for end in ends:
        line += [(before, end), (end, end)]
        before = end
    line.append((before, math.inf))
    inside = np.array(
        [[any(a <= p and q <= b for a, b in one) for p, q in line] for one in outcomes]
    )
    return np.array(line), inside


def _chosen(build: Builder, allowed: str, pieces: NDArray[np.float64]) -> SetNodes:
    """The allowed pieces; a point only where neither neighbour is allowed."""
    count = len(pieces)
    point = np.arange(count) % 2 == 1
    left = np.zeros((count, count), bool)
    left[np.arange(count - 1), np.arange(1, count)] = True  # column j has its neighbour j - 1
    beside = build.op(
        "MatMul", build.cast(allowed, SINGLE), build.constant((left | left.T) & point[None], SINGLE)
    )
    covered = build.op("Greater", beside, build.constant(0.0))
    alone = build.op("And", allowed, build.op("Not", covered))
    nothing = build.constant(math.nan, DOUBLE)
    low, high = (
        build.op("Where", alone, build.constant(pieces[None, :, i], DOUBLE), nothing)
        for i in (0, 1)
    )
    return SetNodes(low, high, count=count)


def _meet(build: Builder, x: str, model: AllOf) -> SetNodes:
    """What all ranges leave; whether nothing of it may be left is the policy's to say."""
    found = add_set(build, x, model.ranges[0])
    for one in model.ranges[1:]:
        found = meet_nodes(build, found, add_set(build, x, one), strict=model.empty == "error")
    return found


def _join(build: Builder, x: str, model: AnyOf) -> SetNodes:
    return join_nodes(build, [add_set(build, x, one) for one in model.ranges])


def _bounded(
    build: Builder, sets: SetNodes, known: Numbers, bins: Bins, lacking: str | None
) -> SetNodes:
    """What of a set lies in the bounds; where nothing does the row is refused, or all allowed."""
    low = build.op("Max", sets.lower, build.constant(bins.lower, DOUBLE))
    high = build.op("Min", sets.upper, build.constant(bins.upper, DOUBLE))
    found = empty_nodes(build, low, high, sets.count, none=build.op("IsNaN", sets.lower))
    empty = build.op("Not", some_nodes(build, found))
    if known.empty == "error":
        return replace(found, refused=build.either(sets.refused, empty))
    nothing = build.constant(math.nan, DOUBLE)
    if lacking is not None:  # nothing may be left
        empty = build.op("Or", empty, lacking)
        ends = (build.op("Where", lacking, nothing, end) for end in (found.lower, found.upper))
        found = SetNodes(next(ends), next(ends), count=found.count)
    first, last = (
        build.op("Where", empty, build.constant(end, DOUBLE), nothing)
        for end in (bins.lower, bins.upper)
    )
    return SetNodes(
        build.op("Concat", first, found.lower, axis=1),
        build.op("Concat", last, found.upper, axis=1),
        sets.refused,
        sets.count + 1,
    )


def _masked_set(build: Builder, x: str, model: Mask) -> SetNodes:
    with build.narrowed(len(model.columns)):
        return add_set(build, _masked(build, x, model), model.model)


_SETS: dict[type, Callable[[Builder, str, Any], SetNodes]] = {
    Between: _between,
    Band: _band,
    ConformalInterval: _band,
    IntervalTable: _interval_table,
    AllOf: _meet,
    AnyOf: _join,
    Mask: _masked_set,
}
