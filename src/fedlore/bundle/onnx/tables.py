"""Decision tables as nodes: columns into buckets, buckets into hits, hits into classes.

The thresholds are those of single precision, as they are when `Personal` sees rows of a file.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...knowledge.tables.bitwords import spans
from ...knowledge.tables.cells import START, STOP, Condition, Cut
from ...knowledge.tables.table import Table
from .builder import BOOL, INT64, SINGLE, Builder


class Said(NamedTuple):
    """What a knowledge model answers, (n, k), and where it refuses to, (n, 1) or never."""

    rows: str
    refused: str | None = None


def table(build: Builder, x: str, model: Table) -> Said:
    """A table on rows x, float32 (n, d): float32 rows of a P-KM, bool rows of an R-KM."""
    k = len(model.schema.classes)
    outcomes = np.zeros((len(model.rules), k), BOOL)
    for position, index in enumerate(model.order):
        outcomes[position, list(model.rules[index].outcome)] = True
    hits = hit_nodes(build, x, model)  # (n, rules), 0 or 1
    if build.width and model.policy != "intersect":
        return _say_perhaps(build, x, model, hits, outcomes)
    if model.policy in ("first", "priority"):
        return Said(_first(build, hits, outcomes))
    if model.policy == "intersect":
        allowed = build.op("Not", _meet(build, hits, ~outcomes))
        return Said(allowed, build.op("Not", build.any(allowed)))
    named = _meet(build, hits, outcomes)
    if model.policy == "union":
        return Said(build.op("Or", named, build.op("Not", build.any(named))))
    rows = build.cast(named, SINGLE)
    return Said(rows, build.op("Greater", build.total(rows), build.constant(1.0)))


def _say_perhaps(
    build: Builder, x: str, model: Table, hits: str, outcomes: NDArray[np.bool_]
) -> Said:
    """The same where rules on missing values may hit or not, as `Table` has it."""
    may_hit = hit_nodes(build, x, model, perhaps=True)
    if model.policy in ("first", "priority"):  # behind a sure rule none can speak
        before = build.op("CumSum", hits, build.constant(1, INT64))
        reached = build.cast(build.op("Equal", before, hits), SINGLE)
        may_hit = build.op("Mul", may_hit, reached)
    named = _meet(build, may_hit, outcomes)
    some = build.any(hits)
    if model.policy == "union":
        return Said(build.op("Or", named, build.op("Not", some)))
    one = build.op("Equal", build.total(build.cast(named, SINGLE)), build.constant(1.0))
    rows = build.cast(build.op("And", named, build.op("And", some, one)), SINGLE)
    if model.policy != "unique":
        return Said(rows)
    sure = build.total(build.cast(_meet(build, hits, outcomes), SINGLE))
    return Said(rows, build.op("Greater", sure, build.constant(1.0)))


def hit_nodes(build: Builder, x: str, model: Table, *, perhaps: bool = False) -> str:
    """Which rule hits which row, or with `perhaps` may hit it, in the order in which they speak."""
    used: dict[int, list[tuple[int, Condition]]] = {}
    for position, index in enumerate(model.order):
        for column, condition in model.rules[index].conditions:
            used.setdefault(column, []).append((position, condition))
    hits = None
    for column, conditions in sorted(used.items()):
        cuts, satisfied = _buckets(conditions, len(model.rules))
        satisfied[-1] = 1.0 if perhaps else satisfied[-1]
        value = build.column(x, column)  # (n,)
        bucket = build.constant(0, INT64)
        if len(cuts):
            wide = build.op("Unsqueeze", value, build.constant([1], INT64))
            beyond = build.cast(build.op("GreaterOrEqual", wide, build.constant(cuts)), INT64)
            bucket = build.op("ReduceSum", beyond, build.constant([1], INT64), keepdims=0)
        missing = build.constant(len(cuts) + 1, INT64)
        bucket = build.op("Where", build.op("IsNaN", value), missing, bucket)
        found = build.op("Gather", build.constant(satisfied), bucket, axis=0)  # (n, rules)
        hits = found if hits is None else build.op("Mul", hits, found)
    if hits is None:  # rules without conditions hit every row
        shape = build.op(
            "Concat",
            build.op("Shape", x, start=0, end=1),
            build.constant([len(model.rules)], INT64),
            axis=0,
        )
        hits = build.op("Expand", build.constant([[1.0]]), shape)
    return hits


def _buckets(
    conditions: list[tuple[int, Condition]], rules: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The cuts of a column, (m,), and which rules each bucket satisfies, (m + 2, rules).

    Bucket b holds the values from cut b-1 to cut b, the last one NaN.
    """
    ends = {end for _, condition in conditions for span in spans(condition) for end in span}
    first = {cut: _first_value(cut) for cut in ends - {START, STOP}}
    cuts = sorted(set(first.values()))
    rank = {value: place for place, value in enumerate(cuts)}
    satisfied = np.ones((len(cuts) + 2, rules), SINGLE)
    for rule, condition in conditions:
        satisfied[:, rule] = 0.0
        for start, stop in spans(condition):
            begin = 0 if start == START else rank[first[start]] + 1
            end = len(cuts) + 1 if stop == STOP else rank[first[stop]] + 1
            satisfied[begin:end, rule] = 1.0
    return np.array(cuts, SINGLE), satisfied


def _first_value(cut: Cut) -> float:
    """The smallest number of single precision on the far side of a cut: x > 12 is x >= next(12)."""
    value = torch.tensor(cut.value, dtype=torch.float64).float()
    if cut.after or float(value) == -np.inf:
        value = torch.nextafter(value, torch.tensor(torch.inf))
    return float(value)


def _first(build: Builder, hits: str, outcomes: NDArray[np.bool_]) -> str:
    """The outcome of the first rule that hits, one-hot; a zero row where none does."""
    which = build.op("ArgMax", hits, axis=1, keepdims=0)  # the first of equal ones
    row = build.op("Gather", build.constant(outcomes, SINGLE), which, axis=0)
    some = build.op("ReduceMax", hits, axes=[1], keepdims=1)
    return build.op("Mul", row, some)


def _meet(build: Builder, hits: str, classes: NDArray[np.bool_]) -> str:
    """The classes that some hitting rule marks, (n, k) bool."""
    count = build.op("MatMul", hits, build.constant(classes, SINGLE))
    return build.op("Greater", count, build.constant(0.0))
