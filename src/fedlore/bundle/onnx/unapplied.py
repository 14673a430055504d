"""How many rules a missing value leaves open, as nodes: `sources.unapplied` in a graph."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...knowledge.missing import list_columns
from ...knowledge.sources.writing import parts_of
from ...knowledge.tables.table import Table
from ...knowledge.views import Mask
from .builder import INT64, SINGLE, Builder
from .finishing import GraphOutput
from .tables import hit_nodes


def give_unapplied(build: Builder, x: str, models: Iterable[Any]) -> list[GraphOutput]:
    """The output `unapplied`, (n, d) int64, where values may be missing in rows x; else none."""
    if not build.width:
        return []
    counts = _count(build, x, models)
    if counts is None:
        counts = build.op("Mul", _holes(build, x), build.constant(0.0))
    code = build.onnx.TensorProto.INT64
    build.op("Cast", counts, name="unapplied", to=code)
    return [("unapplied", "INT64", ["n", build.width])]


def _count(build: Builder, x: str, models: Iterable[Any]) -> str | None:
    """For each missing value how many rules and formulas it leaves open, (n, d) float32."""
    found = None
    for model in models:
        some = _count_one(build, x, model)
        if some is not None:
            found = some if found is None else build.op("Add", found, some)
    return found


def _count_one(build: Builder, x: str, model: Any) -> str | None:
    if isinstance(model, Mask):
        columns = list(model.columns)
        back = np.eye(build.width)[columns]  # each column of the view to its place
        seen = build.op("Gather", x, build.constant(columns, INT64), axis=1)
        with build.narrowed(len(columns)):
            inside = _count(build, seen, [model.model])
        return None if inside is None else build.op("MatMul", inside, build.constant(back, SINGLE))
    parts = parts_of(model)
    if parts is not None:
        return _count(build, x, parts)
    table = getattr(model, "table", model)
    if not isinstance(table, Table):
        looks = np.zeros((1, build.width))
        looks[0, list(list_columns(model, build.width))] = 1.0
        return build.op("Mul", _holes(build, x), build.constant(looks))
    asks = np.zeros((len(table.rules), build.width))
    for place, index in enumerate(table.order):
        asks[place, [column for column, _ in table.rules[index].conditions]] = 1.0
    may_hit = hit_nodes(build, x, table, perhaps=True)  # surely it does not, where it asks a hole
    return build.op("Mul", build.op("MatMul", may_hit, build.constant(asks)), _holes(build, x))


def _holes(build: Builder, x: str) -> str:
    return build.cast(build.op("IsNaN", x), SINGLE)
