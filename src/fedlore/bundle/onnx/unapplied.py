"""How many rules a missing value leaves open, as nodes: `sources.unapplied` in a graph."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...kernel.graph.ops import INT64, SINGLE, Value
from ...kernel.graph.tables import hit_rules
from ...knowledge.bridge import table_of
from ...knowledge.missing import list_columns
from ...knowledge.sources.writing import parts_of
from ...knowledge.tables.table import Table
from ...knowledge.views import Mask
from .finishing import GraphOutput
from .sources import Rows


def give_unapplied(rows: Rows, models: Iterable[Any]) -> list[GraphOutput]:
    """The output `unapplied`, (n, d) int64, where values may be missing; else none."""
    if not rows.width:
        return []
    counts = _count(rows, models)
    if counts is None:
        counts = rows.build.op("Mul", _holes(rows), rows.build.constant(0.0))
    return [GraphOutput("unapplied", rows.build.cast(counts, INT64), "INT64", (rows.width,))]


def _count(rows: Rows, models: Iterable[Any]) -> Value | None:
    """For each missing value how many rules and formulas it leaves open, (n, d) float32."""
    found = None
    for model in models:
        some = _count_one(rows, model)
        if some is not None:
            found = some if found is None else rows.build.op("Add", found, some)
    return found


def _count_one(rows: Rows, model: Any) -> Value | None:
    build = rows.build
    if isinstance(model, Mask):
        back = np.eye(rows.width)[list(model.columns)]  # each column of the view to its place
        inside = _count(rows.of_columns(model.columns), [model.model])
        return None if inside is None else build.op("MatMul", inside, build.constant(back))
    parts = parts_of(model)
    if parts is not None:
        return _count(rows, parts)
    table = getattr(model, "table", model)
    if not isinstance(table, Table):
        looks = np.zeros((1, rows.width))
        looks[0, list(list_columns(model, rows.width))] = 1.0
        return build.op("Mul", _holes(rows), build.constant(looks))
    known = table_of(table)
    asks = np.zeros((len(known.rules), rows.width))
    for place, rule in enumerate(known.rules):
        asks[place, list(rule.spans)] = 1.0
    may_hit = hit_rules(build, rows.x, known, perhaps=True)  # not for sure, where it asks a hole
    return build.op("Mul", build.op("MatMul", may_hit, build.constant(asks)), _holes(rows))


def _holes(rows: Rows) -> Value:
    return rows.build.cast(rows.build.op("IsNaN", rows.x), SINGLE)
