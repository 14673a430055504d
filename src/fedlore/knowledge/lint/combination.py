"""The sources of a file held against each other, as they will act together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...kernel.findings import Finding, Place, Severity
from ...kernel.knowledge import Known
from ...kernel.prove import inside, leaves, never_apart
from ...kernel.schema import Schema
from ..bridge import known_of, source_of
from ..formulas.grading import SoftFormula
from ..tables.table import Table
from .arithmetic import gave_up, report_verdict

_OUTSIDE = "outside-range"
_BUDGET = 20_000  # boxes for all sources at once


@dataclass(frozen=True)
class Combination:
    """How the sources of a file are put together."""

    schema: Schema
    predict: Sequence[object]
    ranges: Sequence[object]
    alternatives: bool  # of the ranges one is enough
    empty: str  # what happens where the ranges leave nothing
    averaged: bool  # all predictions speak
    conflict: str  # what happens where the prediction leaves the range


def lint_combination(
    combination: Combination, found: Sequence[Finding], place: Place
) -> list[Finding]:
    """What was found of pairs, held against the whole, and what only the whole shows."""
    parts = [*_prediction(combination, found, place), _ranges(combination, place)]
    return [finding for finding in parts if finding is not None]


def _ranges(combination: Combination, place: Place) -> Finding | None:
    """Ranges that exclude each other; tables alone are decided elsewhere."""
    ranges = combination.ranges
    tables = all(isinstance(model, Table) for model in ranges)
    if combination.alternatives or len(ranges) < 2 or tables:
        return None
    views = [(model, source_of(model)) for model in ranges]
    severity: Severity = "error" if combination.empty == "error" else "info"
    finding = Finding(severity, "empty-range", place, case=combination.empty)
    for model, one in views:
        if one is None:
            return gave_up(finding, model)
    known = known_of(combination.schema, (), [one for _, one in views])
    return report_verdict(never_apart(known, _BUDGET), finding, combination.schema)


def _prediction(
    combination: Combination, found: Sequence[Finding], place: Place
) -> Iterator[Finding | None]:
    """The prediction against the range: what pairs suggest counts only if the whole does it."""
    predict, ranges = combination.predict, combination.ranges
    soft = any(isinstance(model, SoftFormula) for model in predict)
    if not predict or not ranges or (soft and combination.conflict != "error"):
        yield from found
        return
    finding = Finding("error", _OUTSIDE, place)
    experts = [(model, source_of(model)) for model in predict]
    limits = [(model, source_of(model)) for model in ranges]
    odd = [model for model, one in (*experts, *limits) if one is None]
    if odd or len(predict) + len(ranges) == 2:  # two are held against each other elsewhere
        yield from found
        yield gave_up(finding, odd[0]) if odd else None
        return
    known = known_of(
        combination.schema,
        [one for _, one in experts if one is not None],
        [one for _, one in limits if one is not None],
        alternatives=combination.alternatives,
        empty=combination.empty,
        averaged=combination.averaged,
    )
    kept = [f for f in found if f.kind != _OUTSIDE or _leaves(known, f.counterexample)]
    yield from kept
    if not any(f.kind == _OUTSIDE for f in kept):
        yield report_verdict(inside(known, _BUDGET), finding, combination.schema)


def _leaves(known: Known, row: Mapping[str, float | str]) -> bool:
    """Whether the whole leaves the range in a row that a pair was found to leave it."""
    values = [
        float(feature.levels.index(str(row[feature.name])))
        if feature.levels
        else float(row[feature.name])
        for feature in known.columns
    ]
    return bool(leaves(known, np.array([values], np.float32))[0])
