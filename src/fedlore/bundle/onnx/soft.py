"""Rules that hold in most cases only, as nodes: `knowledge.tables.soft` in a graph.

Everything is computed in double precision, as there; the rows that come out are single again.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...knowledge.tables.soft import SoftTable
from .builder import BOOL, DOUBLE, INT64, SINGLE, Builder
from .tables import Said, hit_nodes


class LeanNodes(NamedTuple):
    """What is added to the log weight of each class, (n, k), and where anything is, (n, 1)."""

    rows: str
    heard: str


def every_class(build: Builder, x: str, k: int) -> str:
    """A range that excludes nothing, (n, k) bool."""
    rows = build.op("Shape", x, start=0, end=1)
    wide = build.op("Concat", rows, build.constant([k], INT64), axis=0)
    return build.op("Expand", build.constant([[True]], BOOL), wide)


def table_lean(build: Builder, x: str, model: SoftTable, allowed: str) -> LeanNodes:
    """The soft rules of a table that are heard, each inside the range."""
    outcomes, confidences = _in_order(model)
    speaking = build.op(
        "Mul", _speaking(build, x, model), build.constant(confidences[None] < 1, SINGLE)
    )
    inside = build.op("MatMul", build.cast(allowed, DOUBLE), build.constant(outcomes.T, DOUBLE))
    hit = build.op("Greater", speaking, build.constant(0.0))
    toward, against, heard = _odds(build, confidences, inside, allowed, hit)
    lean = build.op(
        "Add",
        build.op("MatMul", toward, build.constant(outcomes, DOUBLE)),
        build.op("MatMul", against, build.constant(1.0 - outcomes, DOUBLE)),
    )
    return LeanNodes(build.op("Mul", lean, build.cast(allowed, DOUBLE)), build.any(heard))


def table_rows(build: Builder, x: str, model: SoftTable, allowed: str, unsure: str | None) -> Said:
    """A soft table as a prediction: a rule that always holds names its class outright."""
    outcomes, confidences = _in_order(model)
    sure = build.op(
        "MatMul",
        build.cast(_speaking(build, x, model), DOUBLE),
        build.constant(outcomes * (confidences == 1)[:, None], DOUBLE),
    )
    soft = lean_rows(build, table_lean(build, x, model, allowed), allowed, unsure)
    named = build.any(build.op("Greater", sure, build.constant(0.0, DOUBLE)))
    return Said(build.cast(build.op("Where", named, sure, soft), SINGLE))


def set_lean(build: Builder, named: str, confidence: float, allowed: str) -> LeanNodes:
    """What is said of named classes, (n, k) bool, with one confidence."""
    both = build.op("And", named, allowed)
    inside = build.total(build.cast(both, DOUBLE))
    toward, against, heard = _odds(build, np.array([confidence]), inside, allowed, None)
    lean = build.op("Where", named, toward, against)
    lean = build.op("Where", build.op("And", heard, allowed), lean, build.constant(0.0, DOUBLE))
    return LeanNodes(lean, heard)


def lean_rows(build: Builder, lean: LeanNodes, allowed: str, unsure: str | None) -> str:
    """Distributions over the range, (n, k) double; zero rows where nothing is heard for sure."""
    masked = build.op("Where", allowed, lean.rows, build.constant(-math.inf, DOUBLE))
    shares = build.op("Softmax", masked, axis=1)
    heard = lean.heard
    if unsure is not None:
        heard = build.op("And", heard, build.op("Not", unsure))
    return build.op("Where", heard, shares, build.constant(0.0, DOUBLE))


def undecided_nodes(build: Builder, x: str, model: SoftTable) -> str | None:
    """Rows in which a missing value leaves open whether a rule hits, (n, 1); None: never."""
    if not build.width or model.table.kind == "predict":
        return None
    may_hit = hit_nodes(build, x, model.table, perhaps=True)
    return build.any(build.op("Greater", may_hit, hit_nodes(build, x, model.table)))


def soften_rows(
    build: Builder,
    expert: Said | None,
    leans: Sequence[LeanNodes],
    allowed: str,
    unsure: str | None,
) -> Said:
    """An expert's rows with the odds of all soft ranges multiplied in."""
    lean = leans[0]
    for more in leans[1:]:
        lean = LeanNodes(
            build.op("Add", lean.rows, more.rows), build.op("Or", lean.heard, more.heard)
        )
    alone = lean_rows(build, lean, allowed, unsure)
    if expert is None:
        return Said(build.cast(alone, SINGLE))
    zero, one = build.constant(0.0, DOUBLE), build.constant(1.0, DOUBLE)
    said = build.cast(expert.rows, DOUBLE)
    top = build.op("ReduceMax", lean.rows, axes=[1], keepdims=1)
    moved = build.op("Mul", said, build.op("Exp", build.op("Sub", lean.rows, top)))
    total = build.total(moved)
    some = build.op("Greater", total, zero)
    kept = build.op("Div", moved, build.op("Where", some, total, one))
    kept = build.op("Where", build.op("And", some, lean.heard), kept, said)
    if unsure is not None:
        outright = build.any(build.op("Equal", said, one))
        lost = build.op("And", unsure, build.op("Not", outright))
        kept = build.op("Where", lost, zero, kept)
    spoken = build.any(build.op("Not", build.op("Equal", said, zero)))
    rows = build.op("Where", spoken, kept, alone)
    return Said(build.cast(rows, SINGLE), expert.refused)


def _speaking(build: Builder, x: str, model: SoftTable) -> str:
    """Which rules are heard, (n, rules), in the order in which they speak."""
    hits = hit_nodes(build, x, model.table)
    if model.table.kind == "range":
        return hits
    may_hit = hit_nodes(build, x, model.table, perhaps=True) if build.width else hits
    count = build.op("CumSum", may_hit, build.constant(1, INT64))
    first = build.cast(build.op("Equal", count, build.constant(1.0)), SINGLE)
    return build.op("Mul", hits, first)


def _odds(
    build: Builder, confidences: np.ndarray, inside: str, allowed: str, hit: str | None
) -> tuple[str, str, str]:
    """Log weights against an even spread, 0 where nothing is heard, and where something is."""
    zero, one = build.constant(0.0, DOUBLE), build.constant(1.0, DOUBLE)
    every = build.total(build.cast(allowed, DOUBLE))
    outside = build.op("Sub", every, inside)
    heard = build.op("And", build.op("Greater", inside, zero), build.op("Greater", outside, zero))
    heard = heard if hit is None else build.op("And", hit, heard)
    sides = []
    for share, count in ((confidences, inside), (1.0 - confidences, outside)):
        mass = build.op("Mul", build.constant(share[None], DOUBLE), every)
        ratio = build.op("Log", build.op("Div", mass, build.op("Max", count, one)))
        sides.append(build.op("Where", heard, ratio, zero))
    return sides[0], sides[1], heard


def _in_order(model: SoftTable) -> tuple[np.ndarray, np.ndarray]:
    """Which rule names which class, (rules, k), and confidences, in the order they speak."""
    table = model.table
    outcomes = np.zeros((len(table.rules), len(table.schema.classes)))
    for position, index in enumerate(table.order):
        outcomes[position, list(table.rules[index].outcome)] = 1.0
    return outcomes, np.array([model.confidences[index] for index in table.order])
