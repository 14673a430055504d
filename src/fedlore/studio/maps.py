"""The answer along features: a curve over one, a map over two, the nearest row with another answer.

Axes are cut at every threshold that a rule has, so that for tables each cell of a map has one
answer; formulas are sampled in the middle of the cells.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import KnowledgeError
from ..kernel.schema import Feature, Schema
from ..knowledge.findings.checkup import Checkup
from ..knowledge.missing import join_columns
from .answers import ClassAnswers, answer_draft, rule_tables, usable

STEPS = 48  # cells along an axis, before thresholds are added
MOST_CUTS = 96
PAIRS = 40_000  # rows looked at for two changes at once


@dataclass(frozen=True)
class MapAxis:
    """One feature as neighbouring cells: their edges and a value inside each."""

    feature: Feature
    column: int
    edges: tuple[float, ...]  # one more than cells; empty for levels
    values: tuple[float, ...]

    def describe(self) -> dict[str, Any]:
        f = self.feature
        return {"name": f.name, "unit": f.unit, "levels": list(f.levels),
                "edges": list(self.edges), "values": list(self.values)}  # fmt: skip


def axis_of(checkup: Checkup, schema: Schema, name: str, at: float, steps: int = STEPS) -> MapAxis:
    """A feature from one end of its scope to the other, cut at the thresholds of all rules."""
    column = schema.column(name)
    feature = schema.features[column]
    if feature.levels:
        return MapAxis(feature, column, (), tuple(float(i) for i in range(len(feature.levels))))
    cuts = thresholds(checkup, column)
    low, high = ends_of(feature, cuts, at)
    inner = [cut for cut in cuts if low < cut < high]
    if len(inner) > MOST_CUTS:
        inner = inner[:: math.ceil(len(inner) / MOST_CUTS)]
    even = np.linspace(low, high, steps + 1).tolist()
    near = (high - low) / steps / 4
    kept = [v for v in even[1:-1] if all(abs(v - cut) > near for cut in inner)]
    edges = sorted({low, high, *inner, *kept})
    values = [a + (b - a) / 2 for a, b in zip(edges, edges[1:], strict=False)]
    return MapAxis(feature, column, tuple(edges), tuple(values))


def thresholds(checkup: Checkup, column: int) -> list[float]:
    """The numbers at which some rule changes its mind about a feature."""
    known, _ = usable(checkup)
    conditions = [
        dict(rule.conditions).get(column)
        for _, table in rule_tables(known.prediction, known.range)
        for rule in table.rules
    ]
    spans = [s for one in conditions if one is not None for s in one.spans]
    return sorted({end.value for span in spans for end in span if math.isfinite(end.value)})


def ends_of(feature: Feature, cuts: Sequence[float], at: float) -> tuple[float, float]:
    """The scope; where there is none, some room around the thresholds and the row."""
    known = ([*cuts, at] if math.isfinite(at) else [*cuts]) or [0.0]
    room = (max(known) - min(known)) * 0.2 or abs(known[0]) * 0.5 or 1.0
    low = feature.low if math.isfinite(feature.low) else min(known) - room
    high = feature.high if math.isfinite(feature.high) else max(known) + room
    return (low, high) if low < high else (low, low + 1.0)


def middle_of(feature: Feature) -> float:
    """A value to hold a feature at: the middle of its scope, or its first level."""
    low, high = ends_of(feature, [], math.nan)
    return 0.0 if feature.levels else low + (high - low) / 2


def draw_curve(checkup: Checkup, x: Tensor, name: str) -> dict[str, Any]:
    """The answer along one feature, all others as in the row."""
    _, schema = usable(checkup)
    column = schema.column(name)
    axis = axis_of(checkup, schema, name, float(x[0, column]), steps=2 * STEPS)
    rows = x.repeat(len(axis.values), 1)
    rows[:, column] = torch.tensor(axis.values)
    return {
        "axis": axis.describe(),
        "at": _finite(float(x[0, column])),
        **answer_draft(checkup, rows).rows(),
    }


def draw_map(checkup: Checkup, x: Tensor, names: Sequence[str]) -> dict[str, Any]:
    """The answer over two features, all others as in the row; rows of the map from the bottom."""
    _, schema = usable(checkup)
    if len(set(names)) != 2:
        raise KnowledgeError("a map needs two different features")
    across, up = (
        axis_of(checkup, schema, name, float(x[0, schema.column(name)])) for name in names
    )
    wide, tall = len(across.values), len(up.values)
    rows = x.repeat(wide * tall, 1)
    rows[:, across.column] = torch.tensor(across.values).repeat(tall)
    rows[:, up.column] = torch.tensor(up.values).repeat_interleave(wide)
    at = [_finite(float(x[0, axis.column])) for axis in (across, up)]
    return {
        "across": across.describe(),
        "up": up.describe(),
        "at": at,
        **answer_draft(checkup, rows).rows(),
    }


def find_nearest(checkup: Checkup, x: Tensor, wanted: str) -> dict[str, Any] | None:
    """The smallest change of one feature, else of two, after which the answer is a class.

    Changes are measured in scopes. Where no expert speaks, a class counts that is the only one
    allowed. None where thresholds and samples show no such row.
    """
    known, schema = usable(checkup)
    if wanted not in schema.classes:
        raise KnowledgeError(f"there is no class '{wanted}'")
    target = schema.classes.index(wanted)
    models = [m for m in (known.prediction, known.range) if m is not None]
    looked = join_columns(models, x.shape[1])
    options = {c: _options(checkup, schema, c, float(x[0, c])) for c in looked}
    single = [((c, v),) for c, some in options.items() for v in some]
    found = _best(checkup, x, single, target, schema)
    if found is None:
        pairs = [(a, b) for (a,) in single for (b,) in single if a[0] < b[0]]
        found = _best(checkup, x, pairs[:: max(1, math.ceil(len(pairs) / PAIRS))], target, schema)
    if found is None:
        return None
    return {
        schema.names[c]: schema.features[c].levels[int(v)] if schema.features[c].levels else v
        for c, v in found
    }


def _options(checkup: Checkup, schema: Schema, column: int, at: float) -> list[float]:
    """Values worth trying: both sides of every threshold, and some in between."""
    feature = schema.features[column]
    if feature.levels:
        return [float(i) for i in range(len(feature.levels)) if i != at]
    cuts = thresholds(checkup, column)
    low, high = ends_of(feature, cuts, at)
    step = 10.0 ** (math.floor(math.log10(high - low)) - 3)  # a thousandth, in round numbers
    ensemble = [round(cut / step) * step + k * step for cut in cuts for k in (-1, 0, 1)]
    even = np.linspace(low, high, 33).tolist()
    found = {float(f"{v:.6g}") for v in (*ensemble, *even, *cuts)}
    return sorted(v for v in found if low <= v <= high and v != at)


def _best(
    checkup: Checkup,
    x: Tensor,
    changes: Sequence[tuple[tuple[int, float], ...]],
    target: int,
    schema: Schema,
) -> tuple[tuple[int, float], ...] | None:
    if not changes:
        return None
    rows, costs = x.numpy().repeat(len(changes), 0), np.zeros(len(changes))
    each = np.arange(len(changes))
    for part in zip(*changes, strict=True):  # the first change of each, then the second
        columns, values = (np.array(some) for some in zip(*part, strict=True))
        rows[each, columns] = values
        costs += [_cost(schema.features[c], float(x[0, c]), v) for c, v in part]
    heard = answer_draft(checkup, torch.from_numpy(rows))
    assert isinstance(heard, ClassAnswers)
    only = heard.silent & heard.allowed[:, target] & (heard.allowed.sum(1) == 1)
    good = ((heard.expert == target) | only) & ~heard.refused
    if not good.any():
        return None
    return changes[int(np.where(good.numpy(), costs, np.inf).argmin())]


def _cost(feature: Feature, before: float, after: float) -> float:
    if feature.levels or not math.isfinite(before):
        return 0.5
    span = feature.high - feature.low
    return abs(after - before) / (span if math.isfinite(span) else max(abs(before), 1.0))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
