"""Whole lines of rows along one feature, and whether what is said of them keeps an order.

Tables are constant on cells: one row for each cell, and one on each threshold, is every row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...answers import Sets
from ...core.rng import stream
from ...core.tensors import torch
from ...kernel.cells import NumberSpans
from ...kernel.schema import Feature, Schema
from ..tables.table import Table

if TYPE_CHECKING:
    from torch import Tensor


_MOST_ROWS = 200_000  # of a grid
_LINES, _STEPS = 512, 24  # of a sample
_FAR = 1e3  # beyond the last threshold, where the scope has no end


@dataclass(frozen=True, eq=False)
class RowLines:
    """Lines of rows, each with rising values of one column and everything else equal."""

    rows: Tensor  # (lines·steps, d), line by line
    lines: int
    whole: bool  # whether every row of the scope is like one of these


def lay_grid(
    schema: Schema, column: int, tables: Iterable[Table], thresholds: Sequence[tuple[int, float]]
) -> RowLines | None:
    """One row for each cell of some tables and beside each threshold; None: there are too many."""
    cuts: dict[int, set[float]] = {}
    for table in tables:
        for rule in table.rules:
            for place, condition in rule.conditions:
                found = cuts.setdefault(place, set())
                if isinstance(condition, NumberSpans):
                    ends = (end.value for span in condition.spans for end in span)
                    found.update(end for end in ends if math.isfinite(end))
    for place, value in thresholds:
        cuts.setdefault(place, set()).add(value)
    values = [
        _values(feature, cuts.get(i, set())) if i in cuts or i == column else _one(feature)
        for i, feature in enumerate(schema.features)
    ]
    values[column] = [v for v in values[column] if not math.isnan(v)]
    count = math.prod(len(some) for some in values)
    if count > _MOST_ROWS:
        return None
    order = [i for i in range(len(values)) if i != column] + [column]
    rows = torch.tensor(
        list(itertools.product(*(values[i] for i in order))), dtype=torch.float64
    )  # the column runs fastest
    back = torch.empty_like(rows)
    back[:, order] = rows
    return RowLines(back, count // len(values[column]), True)


def draw_lines(schema: Schema, column: int, hints: Sequence[float]) -> RowLines:
    """Some lines at random over the scope."""
    draw = stream("shape lines", column)
    ends = [_ends(feature, hints) for feature in schema.features]
    low, high = torch.tensor(ends, dtype=torch.float64).T
    rows = low + (high - low) * torch.rand(_LINES, len(ends), generator=draw).double()
    for i, feature in enumerate(schema.features):
        if feature.levels:
            rows[:, i] = rows[:, i].floor().clamp(max=len(feature.levels) - 1.0)
    a, b = ends[column]
    along = torch.linspace(a, b, _STEPS - 2 * min(len(hints), 4), dtype=torch.float64).tolist()
    inside = [h for h in hints if a < h < b][:4]
    along = sorted({*along, *inside, *(math.nextafter(h, math.inf) for h in inside)})
    rows = rows.repeat_interleave(len(along), 0)
    rows[:, column] = torch.tensor(along, dtype=torch.float64).repeat(_LINES)
    return RowLines(rows, _LINES, False)


def masks_in_order(low: Tensor, high: Tensor) -> Tensor:
    """Whether sets of classes rise from the first to the second, (n, k) bool each -> (n,) bool.

    The strong set order: of any two members the smaller is in the first, the larger in the second.
    """
    k = low.shape[1]
    at = torch.arange(k)
    only_low = torch.where(low & ~high, at, -1).amax(1)
    only_high = torch.where(high & ~low, at, k).amin(1)
    first, last = torch.where(high, at, k).amin(1), torch.where(low, at, -1).amax(1)
    return (only_low < first) & (only_high > last)


def rows_in_order(low: Tensor, high: Tensor) -> Tensor:
    """Whether predictions rise by dominance and nobody falls silent, (n, k) each -> (n,) bool."""
    rises = (high.double().cumsum(1) <= low.double().cumsum(1) + 1e-6).all(1)
    spoken = (low.sum(1) > 0) == (high.sum(1) > 0)
    return rises & spoken


def sets_in_order(a: Sets, b: Sets) -> Tensor:
    """Whether sets of numbers rise: intervals by their ends, others where they stay the same."""
    single = (~a.lower.isnan()).sum(1).eq(1) & (~b.lower.isnan()).sum(1).eq(1)

    def ends(s: Sets) -> tuple[Tensor, Tensor]:
        return s.lower.nan_to_num(nan=math.inf).amin(1), s.upper.nan_to_num(nan=-math.inf).amax(1)

    (a_low, a_high), (b_low, b_high) = ends(a), ends(b)
    same = (a.lower.nan_to_num() == b.lower.nan_to_num()).all(1)
    same &= (a.upper.nan_to_num() == b.upper.nan_to_num()).all(1)
    return same | (single & (a_low <= b_low) & (a_high <= b_high))


def _values(feature: Feature, cuts: set[float]) -> list[float]:
    """A value for each cell of an axis, and what stands for a missing one."""
    absent = [math.nan] if feature.may_miss or feature.other else []
    if feature.levels:
        return [float(i) for i in range(len(feature.levels))] + absent
    inner = sorted(cut for cut in cuts if feature.low <= cut <= feature.high)
    low = feature.low if math.isfinite(feature.low) else (inner[0] if inner else 0.0) - _FAR
    high = feature.high if math.isfinite(feature.high) else (inner[-1] if inner else 0.0) + _FAR
    marks = sorted({low, *inner, high})
    middles = [(a + b) / 2 for a, b in itertools.pairwise(marks)]
    return sorted({*marks, *middles}) + absent


def _one(feature: Feature) -> list[float]:
    """Any value: nobody looks at it."""
    return [0.0 if feature.levels else _ends(feature, ())[0]]


def _ends(feature: Feature, hints: Sequence[float]) -> tuple[float, float]:
    if feature.levels:
        return 0.0, float(len(feature.levels))
    near = [h for h in hints if feature.low <= h <= feature.high] or [0.0]
    low = feature.low if math.isfinite(feature.low) else min(near) - _FAR
    return low, feature.high if math.isfinite(feature.high) else max(near) + _FAR
