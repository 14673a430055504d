"""What is said of rules that hold in most cases only, and of λ row by row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...answers import Measured
from ...core.examples import Examples
from ...core.statistics import exact_share
from ...core.tensors import torch, without_gradient
from ...kernel.findings import Finding, Place
from ..formulas import GradedFormula
from ..missing import hide_others
from ..models import Knowledge
from ..regions import RowRegion
from ..soft import SoftRange
from ..sources.catalog import leaves
from ..tables.soft import SoftTable
from ..tables.table import Table
from .domain import Domain
from .tables import check_cells, lint_tables

if TYPE_CHECKING:
    from torch import Tensor

    from ...core.examples import Examples


_MOST_PAIRS = 500  # rules of a table that are compared with each other
_MISS = 0.05  # how often an interval may miss the true share


def list_soft(*models: Any) -> list[SoftRange]:
    """All that holds in most cases only in some models."""
    return [one for one in leaves(*models) if hasattr(one, "within")]


def lint_soft(
    predict: Sequence[Any], ranges: Sequence[SoftRange], trust: float, place: Place
) -> Iterator[Finding]:
    """Where soft rules count twice, say nothing, or are not heard; and that they are soft."""
    both = [*list_soft(*predict), *ranges]
    if not both:
        return
    soft = [one for one in both if isinstance(one, SoftTable)]
    for model in soft:
        table = model.table
        yield from lint_tables([table], []) if table.kind == "predict" else check_cells(table)
        yield from _weak(model)
        yield from _twice(model) if table.kind == "range" else ()
    rules = sum(c < 1 for model in soft for c in model.confidences)
    formulas = len(both) - len(soft)
    args = {"rules": rules, "formulas": formulas, "one": rules + formulas == 1}
    yield Finding("info", "soft", place, args)
    if trust == 0:
        yield Finding("info", "soft-unheard", place)
    outright = [one for one in leaves(*predict) if isinstance(one, Table | GradedFormula)]
    if ranges and outright:
        yield Finding("info", "soft-outright", place)


def _weak(model: SoftTable) -> Iterator[Finding]:
    """Rules that say no more than an even spread does."""
    k = len(model.table.schema.classes)
    for index, (rule, share) in enumerate(zip(model.table.rules, model.confidences, strict=True)):
        even = len(rule.outcome) / k
        if len(rule.outcome) < k and share <= even:
            args = {
                "rule": model.table.label(index),
                "share": share,
                "even": even,
                "against": share < even,
                "named": len(rule.outcome),
                "classes": k,
            }
            yield Finding("warning", "soft-weak", rule.place, args)


def _twice(model: SoftTable) -> Iterator[Finding]:
    """Rules that say the same where one of them does: as witnesses they are not independent.

    Asked of those that a row of the scope can meet, that may be wrong, and that leave a class out.
    """
    table, k = model.table, len(model.table.schema.classes)
    rules = list(zip(table.rules, model.confidences, strict=True))[:_MOST_PAIRS]
    domain = Domain.of(table.schema, [rule.conditions for rule, _ in rules])
    heard: list[tuple[int, list[set[int]]]] = []  # rules with their cells along each axis
    for i, (rule, share) in enumerate(rules):
        cells = [
            {cell for first, last in runs for cell in range(first, last + 1)}
            for runs in domain.runs(rule.conditions)
        ]
        if share < 1 and len(rule.outcome) < k and all(cells):
            heard.append((i, cells))
    for (i, one), (j, other) in itertools.combinations(heard, 2):
        pair = table.rules[i], table.rules[j]
        if pair[0].outcome != pair[1].outcome or pair[0].conditions == pair[1].conditions:
            continue  # two alike are called duplicates
        for wide, narrow, outer, inner in ((i, j, one, other), (j, i, other, one)):
            if all(map(set.issuperset, outer, inner)):
                args = {"rule": table.label(narrow), "other": table.label(wide)}
                yield Finding("warning", "counted-twice", table.rules[narrow].place, args)
                break


@without_gradient
def check_soft(known: Knowledge, data: Examples, file: str) -> Iterator[Finding]:
    """Confidences beside how often labelled rows bear them out."""
    if data.y is None:
        return
    x = hide_others(data.x, known.schema)
    found = wrong = 0
    for one in (s for model in list_soft(known.prediction) for s in model.statements(x)):
        rows = int(one.spoken.sum())
        if not rows or one.confidence == 1.0:
            continue
        right = int(one.right(data.y).sum())
        low, high = exact_share(right, rows, miss=_MISS)
        found += 1
        if low <= one.confidence <= high:
            continue
        wrong += 1
        # two digits, three where two would hide the difference
        digits = 3 if round(low, 2) <= one.confidence <= round(high, 2) else 2
        shares = {"was": right / rows, "least": low, "most": high}
        args = {"name": one.name, "share": one.confidence, "right": right, "rows": rows}
        args |= {name: f"{share:.{digits}f}" for name, share in shares.items()}
        yield Finding("warning", "confidence", one.place, args)
    if found:
        counts = {"found": found, "wrong": wrong, "by_chance": _MISS * found}
        yield Finding("info", "confidences", Place(file), counts)


_ROWS = 10  # on either side, to say anything
_SURE = 3.0  # standard errors from which rows contradict


def lint_trust(known: Knowledge, place: Place) -> Iterator[Finding]:
    """What can be said of [trust] without data."""
    rows = known.row_trust
    if rows is None:
        return
    if known.prediction is None:
        yield Finding("warning", "trust-unused", place)
    for number, region in enumerate(rows.regions, 1):
        whole = RowRegion("", rows.schema)
        if RowRegion(region.where, rows.schema).find_meeting(whole).status == "proved":
            args = {"number": number, "region_text": region.where}
            yield Finding("warning", "trust-empty", place, args)


def _missed(known: Knowledge, data: Examples | Measured) -> Tensor:
    """By how much the expert misses each label, (n,), NaN where he is silent.

    Of classes 1 - what he gives the label, of a number how far his own lies from it.
    """
    axis, calm = known.answers, replace(known, outside="widen", conflict="abstain")
    said, _ = axis.read(calm.annotate(data, axis, training=False))
    if said is None or data.y is None:
        return torch.full((len(data),), torch.nan)
    if known.line is not None:
        return (said - data.y).abs()
    right = said.gather(1, data.y.unsqueeze(1)).squeeze(1)
    return torch.where(axis.speaks(said), 1.0 - right, torch.nan)


def check_trust(known: Knowledge, data: Examples | Measured, file: str) -> Iterator[Finding]:
    """Regions with more trust than elsewhere in which the expert is worse than elsewhere."""
    rows = known.row_trust
    if rows is None:
        return
    missed = _missed(known, data)
    for trust, region in rows.stated_regions:
        inside, spoken = region.holds(data.x), ~missed.isnan()
        here, there = missed[inside & spoken], missed[~inside & spoken]
        if min(len(here), len(there)) < _ROWS:
            continue
        more = float(here.mean() - there.mean())
        error = float(here.var() / len(here) + there.var() / len(there)) ** 0.5
        away = trust - known.trust_at_prediction
        if away * more > 0 and abs(more) > _SURE * error:
            args = {
                "trust": trust,
                "region_text": region.where,
                "usual": known.trust_at_prediction,
                "rows": len(here),
                "others": len(there),
                "here": float(here.mean()),
                "there": float(there.mean()),
                "worse": more > 0,
            }
            yield Finding("warning", "trust-data", Place(file), args)
