"""Knowledge about a number as nodes, through the kernel's compiler."""

from collections.abc import Callable
from typing import Any

from ...errors import KnowledgeError
from ...kernel.graph.numbers import (
    NumberNodes,
    band_set,
    first_point,
    formula_point,
    join_number,
    limit_set,
    meet_all,
    table_point,
    table_set,
)
from ...kernel.graph.ops import Value
from ...kernel.graph.sets import SetNodes, bound_set, join
from ...kernel.graph.tables import Answer
from ...kernel.numbersets import NamedNumber
from ...knowledge.bridge import table_of
from ...knowledge.combine import AllOf, AnyOf, FirstOf
from ...knowledge.conformal import ConformalInterval
from ...knowledge.formulas.formula import Formula
from ...knowledge.intervals import Band, Between
from ...knowledge.models import Knowledge
from ...knowledge.tables.numbers import IntervalTable, NumberTable
from ...knowledge.views import Mask
from .sources import Rows, tree_of


def number_nodes(
    rows: Rows, known: Knowledge, bounds: tuple[float, float], unusable: Value
) -> NumberNodes:
    """The knowledge with its policies, as `Knowledge.annotate` has it."""
    sets = None
    if known.range is not None:
        lacking = rows.lacking(known.range) if known.when_empty == "all" else None
        sets = bound_set(rows.build, add_set(rows, known.range), bounds, known.when_empty, lacking)
    point = None if known.prediction is None else add_point(rows, known.prediction)
    return join_number(rows.build, point, sets, bounds, known.conflict, unusable)


def add_point(rows: Rows, model: Any) -> Answer:
    """The number that an expert names, (n, 1) double with NaN where he is silent."""
    found: Answer = _make(_POINTS, model)(rows, model)
    return found


def add_set(rows: Rows, model: Any) -> SetNodes:
    """The set of numbers that a range allows, before the bounds."""
    found: SetNodes = _make(_SETS, model)(rows, model)
    return found


def _make(catalog: dict[type, Callable[[Rows, Any], Any]], model: Any) -> Callable[..., Any]:
    if type(model) not in catalog:
        raise KnowledgeError(
            f"a {type(model).__name__} of numbers cannot be put into a graph: use a table or a "
            "formula"
        )
    return catalog[type(model)]


def _number_table(rows: Rows, model: NumberTable) -> Answer:
    table = table_of(model.table)
    return table_point(rows.view, table, [model.values[min(rule.outcome)] for rule in table.rules])


def _first_of(rows: Rows, model: FirstOf) -> Answer:
    parts = [add_point(rows, one) for one in model.predictions]
    return first_point(rows.build, parts, [rows.lacking(one) for one in model.predictions])


def _between(rows: Rows, model: Between) -> SetNodes:
    ends = [
        side if side is None or isinstance(side, float | int) else tree_of(side)
        for side in (model.lower, model.upper)
    ]
    return limit_set(rows.view, *ends)


def _band(rows: Rows, model: Band) -> SetNodes:
    return band_set(rows.build, add_point(rows, model.point), model.below, model.above)


def _conformal(rows: Rows, model: ConformalInterval) -> SetNodes:
    return band_set(rows.build, add_point(rows, model.point), model.radius, model.radius)


def _interval_table(rows: Rows, model: IntervalTable) -> SetNodes:
    table = table_of(model.table)
    return table_set(rows.view, table, [model.sets[min(rule.outcome)] for rule in table.rules])


def _all_of(rows: Rows, model: AllOf) -> SetNodes:
    parts = [add_set(rows, one) for one in model.ranges]
    return meet_all(rows.build, parts, strict=model.empty == "error")


def _any_of(rows: Rows, model: AnyOf) -> SetNodes:
    return join(rows.build, [add_set(rows, one) for one in model.ranges])


_POINTS: dict[type, Callable[[Rows, Any], Answer]] = {
    Formula: lambda rows, model: formula_point(rows.view, NamedNumber(model.tree)),
    NumberTable: _number_table,
    FirstOf: _first_of,
    Mask: lambda rows, model: add_point(rows.of_columns(model.columns), model.model),
}
_SETS: dict[type, Callable[[Rows, Any], SetNodes]] = {
    Between: _between,
    Band: _band,
    ConformalInterval: _conformal,
    IntervalTable: _interval_table,
    AllOf: _all_of,
    AnyOf: _any_of,
    Mask: lambda rows, model: add_set(rows.of_columns(model.columns), model.model),
}
