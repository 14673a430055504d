"""Tables and formulas that limit together: is there a class that all of them allow, everywhere?

The scope is cut at the tables' thresholds until every rule is settled, or until the formulas show
that it does not matter; what is left is halved as formulas alone would be.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...knowledge.formulas.enclosure import enclose
from ...knowledge.formulas.formula import Formula
from ...knowledge.formulas.grading import FormulaRange, Grading
from ...knowledge.formulas.search import Verdict, decide_claim
from ...knowledge.schema import Schema
from ...knowledge.tables.bitwords import spans
from ...knowledge.tables.table import Table
from .single import LARGEST_SINGLE, scope_box, single_table

_BUDGET = 4_000  # parts of the scope
EACH = 2_000  # boxes of a part

Side = tuple[float, float]


def never_apart(tables: Sequence[Table], limits: Sequence[FormulaRange], schema: Schema) -> Verdict:
    """Whether in every row of the scope some class is allowed by all tables and all formulas."""
    known = [table for table in map(single_table, tables) if table is not None]
    waiting = [scope_box(schema)]
    looked = 0
    while waiting:
        if looked > _BUDGET:
            return Verdict("unknown", boxes=looked)
        box = waiting.pop()
        allowed, cuts = _classes(known, box, schema)
        found = _decide(allowed, limits, box, 60 if cuts else EACH)
        looked += 1
        if found.status == "proved":
            continue
        if not cuts:
            return Verdict(found.status, _row(found.example, box, schema), looked)
        column, cut = cuts[len(cuts) // 2]
        low, high = box[column]
        below = cut - 1 if schema.features[column].levels else _before(cut)
        for side in ((low, below), (cut, high)):
            waiting.append((*box[:column], side, *box[column + 1 :]))
    return Verdict("proved", boxes=looked)


def _row(
    row: tuple[float, ...] | None, box: Sequence[Side], schema: Schema
) -> tuple[float, ...] | None:
    """The row with a level where a feature has levels: all in the box are alike."""
    if row is None:
        return None
    parts = zip(row, box, schema.features, strict=True)
    return tuple(side[0] if feature.levels else value for value, side, feature in parts)


def _classes(
    tables: Sequence[Table], box: Sequence[Side], schema: Schema
) -> tuple[NDArray[np.bool_], list[tuple[int, float]]]:
    """The classes all tables allow all over a box, (k,), and the cuts of unsettled conditions."""
    allowed = np.ones(len(schema.classes), dtype=np.bool_)
    cuts: set[tuple[int, float]] = set()
    for table in tables:
        may_name, sure_name = np.zeros_like(allowed), np.zeros_like(allowed)
        left = np.ones_like(allowed)
        for rule in table.rules:
            may, sure, open_ = _meet(rule.conditions, box, schema)
            if not may:
                continue
            cuts |= open_
            named = np.isin(np.arange(len(allowed)), rule.outcome)
            left &= named
            may_name |= named
            sure_name |= named & sure
        if table.policy == "union":
            left = sure_name if may_name.any() else np.ones_like(allowed)
        allowed &= left
    return allowed, sorted(cuts)


def _meet(
    conditions: Sequence[tuple[int, object]], box: Sequence[Side], schema: Schema
) -> tuple[bool, bool, set[tuple[int, float]]]:
    """Whether conditions may hold in a box, whether they surely do, and where they change."""
    may = sure = True
    cuts: set[tuple[int, float]] = set()
    for column, condition in conditions:
        low, high = box[column]
        touched = inside = False
        for start, stop in spans(condition):  # type: ignore[arg-type]
            first = _after(start.value) if start.after else start.value
            last = stop.value if stop.after else _before(stop.value)
            if schema.features[column].levels:
                first, last = start.value, stop.value
            touched |= first <= high and last >= low
            inside |= first <= low and last >= high
            step = last + 1 if schema.features[column].levels else _after(last)
            cuts |= {(column, cut) for cut in (first, step) if low < cut <= high}
        may, sure = may and touched, sure and inside
    return may, sure, cuts if may and not sure else set()


def _decide(
    allowed: NDArray[np.bool_], limits: Sequence[FormulaRange], box: Sequence[Side], budget: int
) -> Verdict:
    """Whether in every row of a box the formulas leave one of some classes."""
    if not allowed.any():
        return Verdict("refuted", tuple((low + high) / 2 for low, high in box))
    fine = torch.from_numpy(allowed)
    grades = torch.arange(len(allowed))
    formulas = [f for one in limits for f in (one.lower, one.upper) if isinstance(f, Formula)]
    columns = {s.column for f in formulas for s in f.steps if s.op == "column"}

    def holds(low: Tensor, high: Tensor) -> Tensor:
        left = fine.expand(len(low), -1)
        for one in limits:
            grading = Grading(one.edges)
            if isinstance(one.lower, Formula):
                top = enclose(one.lower.steps, low, high).high
                left = left & ((grading(top).unsqueeze(1) <= grades) | top.isnan().unsqueeze(1))
            if isinstance(one.upper, Formula):
                end = enclose(one.upper.steps, low, high).low
                left = left & ((grading(end).unsqueeze(1) >= grades) | end.isnan().unsqueeze(1))
        return left.any(1)

    def broken(x: Tensor) -> Tensor:
        left = fine.expand(len(x), -1)
        for one in limits:
            low, high = one.limits(x)
            grading = Grading(one.edges)
            left = left & (grading(low).unsqueeze(1) <= grades)
            left = left & (grading(high).unsqueeze(1) >= grades)
        return ~left.any(1)

    return decide_claim(holds, broken, box=tuple(box), columns=sorted(columns), budget=budget)


def _after(value: float) -> float:
    return min(float(np.nextafter(np.float32(value), np.float32(np.inf))), LARGEST_SINGLE)


def _before(value: float) -> float:
    return max(float(np.nextafter(np.float32(value), np.float32(-np.inf))), -LARGEST_SINGLE)
