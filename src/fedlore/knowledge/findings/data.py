"""What labelled rows say about knowledge (rows out of scope, labels outside, a weak expert).

Also columns that no model should learn from, and rules that no example and no row ever used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...answers import Measured
from ...answers.axis import find_outside
from ...core.examples import Examples
from ...core.tensors import torch, without_gradient
from ...errors import KnowledgeError
from ...kernel.findings import Finding, Place, Severity
from ...kernel.schema import Feature, Schema
from ..audit import Audit, audit_numbers
from ..missing import hide_others
from ..models import Knowledge
from ..protocols import Conflict
from ..soft import has_soft
from ..sources.catalog import parts_of
from ..sources.table import own_name
from .examples import Expectation
from .shapes import check_turns
from .soft import check_soft, check_trust

if TYPE_CHECKING:
    from torch import Tensor


_CONFLICTS: dict[Conflict, Severity] = {
    "error": "error",
    "abstain": "warning",
    "restrict": "info",
    "project": "info",
}
_FIRST = 2  # the row of a file below its header


def lint_data(
    known: Knowledge, data: Examples | Measured, file: str
) -> tuple[list[Finding], Audit | None]:
    """What is found in data, and counts over them where they can be read."""
    schema = known.require_schema()
    found = [*_scope(schema, data.x, file), *_columns(schema, data, file)]
    audit: Audit | None = None
    try:
        if isinstance(data, Measured):
            assert known.bins is not None  # of a number
            audit = audit_numbers(known, data, known.bins)
            found += _numbers(known, audit, data, file)
        else:
            audit = known.audit(data, known.answers)
            found += _classes(known, audit, data, file)
            found += check_soft(known, data, file)
        if data.y is not None:
            found += check_turns(known, data.x, data.y, file)
            found += check_trust(known, data, file)
    except KnowledgeError as error:
        found.append(Finding("error", "data", Place(file), {"error": error.in_file}))
    return found, audit


def _scope(schema: Schema, x: Tensor, file: str) -> Iterator[Finding]:
    for column, feature in enumerate(schema.features):
        values = x[:, column]
        beyond = (values < feature.low) | (values > feature.high)
        if beyond.any():
            rows = (beyond.nonzero().flatten() + _FIRST).tolist()
            args = {"feature": feature.name, "low": feature.low, "high": feature.high, "rows": rows}
            place = Place(file, row=rows[0], column=feature.name)
            yield Finding("warning", "out-of-scope", place, args)


def _columns(schema: Schema, data: Examples | Measured, file: str) -> Iterator[Finding]:
    """Columns to learn nothing from, and labels that teach nothing."""
    number = isinstance(data, Measured)
    y = None if data.y is None else data.y.double().numpy()
    there = (~data.x.isnan()).sum(0).tolist()
    for feature, count in zip(schema.features, there, strict=True):
        where, args = Place(file, column=feature.name), {"feature": feature.name, "rows": count}
        if count and not feature.have:
            yield Finding("warning", "absent-values", where, args)
        if not count and feature.have and len(data.x):
            yield Finding("warning", "empty-column", where, args)
    for place, kind, other in find_columns(data.x.double().numpy(), y, number=number):
        if kind == "id-column" and schema.features[place].date:
            continue  # a row a day
        if not there[place]:
            continue
        names = {"feature": schema.names[place], "other": schema.names[other or 0]}
        yield Finding("warning", kind, Place(file, column=names["feature"]), names)
    if not number and y is not None and len(y) > 1 and (y == y[0]).all():
        args = {"rows": len(y), "name": schema.classes[int(y[0])]}
        yield Finding("warning", "one-class", Place(file), args)


def _classes(known: Knowledge, audit: Audit, data: Examples, file: str) -> Iterator[Finding]:
    if audit.outside:
        calm = replace(known, conflict="abstain")
        allowed = calm.annotate(data, known.answers, training=False).allowed
        assert allowed is not None and data.y is not None  # some were counted
        rows = (find_outside(allowed, data.y).nonzero().flatten() + _FIRST).tolist()
        yield _label_outside(known, rows[0], file, {"rows": rows})
    if audit.conflicts:
        yield _conflicts(known, audit.conflicts, file, "rows")
    # of what holds in most cases only each confidence is looked at, see `check_soft`
    if audit.hits is not None and data.y is not None and not has_soft(known.prediction):
        majority = float(data.y.bincount().max()) / len(data)
        if audit.hits < majority:
            shares = {"hits": audit.hits, "majority": majority}
            yield Finding("warning", "weak-expert", Place(file), shares)


def _numbers(known: Knowledge, audit: Audit, data: Measured, file: str) -> Iterator[Finding]:
    if audit.beyond and known.bins is not None:
        args = {"count": audit.beyond, "lower": known.bins.lower, "upper": known.bins.upper}
        yield Finding("error", "label-beyond", Place(file), args)
    if audit.outside:
        first = (audit.first_outside or 0) + _FIRST
        yield _label_outside(known, first, file, {"count": audit.outside}, "number")
    if audit.conflicts:
        yield _conflicts(known, audit.conflicts, file, "number-rows")
    spread = float(data.numbers().std(correction=0)) if len(data) else math.nan
    if audit.rmse is not None and audit.rmse > spread:
        args = {"error": audit.rmse, "spread": spread}
        yield Finding("warning", "weak-expert", Place(file), args, "number")


def _label_outside(
    known: Knowledge, row: int, file: str, args: dict[str, object], case: str = ""
) -> Finding:
    severity: Severity = "error" if known.outside == "error" else "warning"
    args |= {"policy": known.outside}
    return Finding(severity, "label-outside", Place(file, row=row), args, case)


def _conflicts(known: Knowledge, count: int, file: str, case: str) -> Finding:
    args = {"count": count, "policy": known.conflict}
    return Finding(_CONFLICTS[known.conflict], "outside-range", Place(file), args, case)


_FEW = 20  # rows below which all this may be chance
_EXACT = 2.0**53  # from here on whole numbers are no longer told apart
_LARGE = 1e5  # whole numbers from here on that never come twice name something


def find_columns(
    x: NDArray[np.float64], y: NDArray[np.float64] | None, *, number: bool
) -> Iterator[tuple[int, str, int | None]]:
    """Columns (n, d) that are suspicious, of what kind, and of which other column one is a copy."""
    if len(x) < _FEW:
        return
    seen: dict[bytes, int] = {}
    for place in range(x.shape[1]):
        values = np.ascontiguousarray(x[:, place], dtype=np.float64) + 0.0  # -0 is 0
        distinct = np.unique(values[~np.isnan(values)])
        other = seen.setdefault(values.tobytes(), place)
        if len(distinct) < 2:
            yield place, "constant-column", None
        elif y is not None and _is_label(values, y, number):
            yield place, "label-column", None
        elif other != place:
            yield place, "copied-column", other
        elif distinct[0] >= _EXACT or len(distinct) == len(values) and _names_rows(distinct):
            yield place, "id-column", None


def _names_rows(distinct: NDArray[np.float64]) -> bool:
    """Whole numbers, no two alike: running ones, or ones that are too large to be measured."""
    if (distinct != np.round(distinct)).any():
        return False
    return bool(distinct[-1] - distinct[0] == len(distinct) - 1 or distinct[0] >= _LARGE)


def _is_label(values: NDArray[np.float64], y: NDArray[np.float64], number: bool) -> bool:
    """Whether a column says the label in other words: one value each, or on a straight line."""
    if number:
        known = ~np.isnan(values)
        if known.sum() < _FEW or not y[known].std() or not values[known].std():
            return False
        return bool(abs(np.corrcoef(values[known], y[known])[0, 1]) > 1 - 1e-12)
    pairs = np.unique(np.stack([values, y]), axis=1).shape[1]
    return bool(pairs == len(np.unique(values)) == len(np.unique(y)) > 2)


def check_measure(feature: Feature, there: Any, said: Any, file: str) -> Iterator[Finding]:
    """Rows that have a feature and another measure of it, (n,) each, held against its error."""
    both = np.isfinite(there) & np.isfinite(said)
    if feature.own is None or not both.any():
        return
    off = (said - there)[both]
    far = np.abs(off) > feature.own.within * (1 + 1e-6)
    args = {"feature": feature.name, "own": feature.own.name, "within": feature.own.within}
    args |= {"count": int(far.sum()), "rows": len(off), "mean": float(off.mean())}
    args |= {"most": float(np.abs(off).max())}
    kind, case = ("warning", "off") if far.any() else ("info", "holds")
    yield Finding(kind, "measure", Place(file, column=feature.own.name), args, case)  # type: ignore[arg-type]


@dataclass(frozen=True)
class RuleUse:
    """A rule, and to how many of the rows that were looked at it applied."""

    place: Place  # with its row
    name: str
    rows: int


@dataclass(frozen=True)
class Evidence:
    """Rows that may show rules at work."""

    examples: Sequence[Expectation] = ()
    data: Tensor | None = None  # (n, d)
    monitored: Mapping[str, int] | None = None  # by the name of a question: rows it was judged on
    monitored_rows: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are of each kind, without those that nobody looked at."""
        data = 0 if self.data is None else len(self.data)
        said = {"examples": len(self.examples), "data": data, "monitored": self.monitored_rows}
        return {kind: count for kind, count in said.items() if count}


@without_gradient
def count_uses(known: Knowledge, seen: Evidence) -> list[RuleUse]:
    """Every rule of every table, in its order; one that holds whatever a row says applies to all.

    Of a row with a missing value only those count that apply for sure.
    """
    parts = [torch.tensor([one.values for one in seen.examples], dtype=torch.float32)]
    parts += [] if seen.data is None else [seen.data.float()]
    parts = [part for part in parts if len(part)]
    x = hide_others(torch.cat(parts), known.schema) if parts else None
    found = []
    for model, rows in _tables((known.prediction, known.range), x):
        table, file = model.table, own_name(model.table.place.file)
        hits = [0] * len(table.rules) if rows is None else table.hits(rows).sum(0).tolist()
        for index, (rule, count) in enumerate(zip(table.rules, hits, strict=True)):
            label = table.label(index)
            names = {f"{table.place}, {label}", f"{file}, {label}"}
            heard = sum((seen.monitored or {}).get(name, 0) for name in names)
            place = replace(table.place, row=rule.place.row)
            found.append(RuleUse(place, label, int(count) + heard))
    files = list(dict.fromkeys(one.place.file for one in found))
    return sorted(found, key=lambda one: (files.index(one.place.file), one.place.row or 0))


def lint_coverage(known: Knowledge | None, seen: Evidence) -> list[Finding]:
    """The rules that nothing of all that was looked at has ever shown at work, table by table."""
    if known is None or not seen.counts:
        return []
    uses = count_uses(known, seen)
    found = []
    for place in dict.fromkeys(replace(one.place, row=None) for one in uses):
        own = [one for one in uses if replace(one.place, row=None) == place]
        idle = [one.name for one in own if not one.rows]
        if idle:
            args = {"of": idle, "rules": len(own), "seen": seen.counts}
            found.append(Finding("info", "never-applied", place, args))
    return found


def _tables(models: Sequence[Any], x: Tensor | None) -> Iterator[tuple[Any, Tensor | None]]:
    """The tables among models and their parts, each with the rows as it sees them."""
    for model in models:
        see = getattr(model, "see", None)
        if see is not None:
            yield from _tables([model.model], None if x is None else see(x))
            continue
        parts = parts_of(model)
        if parts is not None:
            yield from _tables(parts, x)
        elif hasattr(model, "table"):
            yield model, x
