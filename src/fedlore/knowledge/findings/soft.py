"""What is said of rules that hold in most cases only: over the scope, and beside the data."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...core.statistics import exact_share
from ...core.tensors import without_gradient
from ...kernel.findings import Finding, Place
from ..formulas import GradedFormula
from ..missing import hide_others
from ..models import Knowledge
from ..soft import SoftRange
from ..sources.catalog import leaves
from ..tables.soft import SoftTable
from ..tables.table import Table
from .domain import Domain
from .tables import check_cells, lint_tables

if TYPE_CHECKING:
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
