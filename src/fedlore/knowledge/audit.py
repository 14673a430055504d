"""How well knowledge and data agree, counted: as a whole, and rule by rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..answers import Bins, Line, Measured
from ..answers.axis import find_favoured, find_outside, share_right
from ..answers.measured import rmse
from ..core.examples import Examples
from ..core.tensors import torch, without_gradient
from ..errors import KnowledgeError
from .tables.table import Table

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Audit:
    """Counts over one data set. Shares are fractions of the rows; None where it does not apply."""

    rows: int
    abstained: int = 0  # rows on which the P-KM says nothing, conflicts included
    conflicts: int = 0  # rows on which the P-KM left the range (and was silenced or moved inside)
    outside: int = 0  # labels outside their range
    first_outside: int | None = None
    width: float | None = None  # mean number of classes the range allows, or mean length of the set
    hits: float | None = None  # share of labels the P-KM gets right
    classes: int | None = None
    rmse: float | None = None  # of a number, where the P-KM names one
    beyond: int = 0  # labels outside the bounds of a number
    span: float | None = None  # of these bounds

    def __str__(self) -> str:
        parts = [f"{self.rows} rows"]
        silent = f"silent on {self.abstained} rows"
        if self.hits is not None:
            parts.append(f"the expert is right on {self.hits:.1%}, {silent}")
        if self.rmse is not None:
            parts.append(f"the expert misses by {self.rmse:.4g} (RMSE), {silent}")
        if self.conflicts:
            parts.append(f"the expert's answer is outside the range on {self.conflicts} rows")
        if self.width is not None and self.span is None:
            parts.append(f"the range allows {self.width:.1f} of {self.classes} classes")
        elif self.width is not None:
            parts.append(f"ranges are {self.width:.4g} wide on average, the bounds {self.span:.4g}")
        if self.outside:
            parts.append(f"{self.outside} labels outside their range")
        if self.beyond:
            parts.append(f"{self.beyond} labels beyond the bounds")
        return "; ".join(parts)


def count(data: Examples, *, conflicts: int = 0) -> Audit:
    """Count annotated examples."""
    y, prior, allowed = data.y, data.prior, data.allowed
    known = prior if prior is not None else allowed
    outside, first = 0, None
    if allowed is not None and y is not None:
        out = find_outside(allowed, y)
        outside = int(out.sum())
        first = int(out.nonzero()[0]) if outside else None
    hits = None
    if prior is not None and y is not None and len(data):
        hits = float(share_right(find_favoured(prior), y).mean())
    return Audit(
        rows=len(data),
        abstained=0 if prior is None else int((prior == 0).all(1).sum()),
        conflicts=conflicts,
        outside=outside,
        first_outside=first,
        hits=hits,
        width=None if allowed is None or not len(data) else float(allowed.sum(1).float().mean()),
        classes=None if known is None else known.shape[1],
    )


@without_gradient
def audit_numbers(known: Any, data: Measured, bins: Bins) -> Audit:
    """How well knowledge and measured numbers agree, counted."""
    lenient = replace(known, conflict="abstain" if known.conflict == "error" else known.conflict)
    annotated = lenient.annotate(data, Line(bins), training=False)
    out, said = annotated.missed, annotated.said
    y = data.numbers()
    spoken = None if said is None else ~said.isnan()
    heard = spoken is not None and bool(spoken.any())
    return Audit(
        rows=len(data),
        abstained=0 if spoken is None else int((~spoken).sum()),
        conflicts=annotated.conflicts,
        outside=int(out.sum()),
        first_outside=int(out.nonzero()[0]) if out.any() else None,
        beyond=int(((y < bins.lower) | (y > bins.upper)).sum()),
        rmse=rmse(said[spoken], y[spoken]) if heard and said is not None else None,
        width=None if annotated.sets is None else float(annotated.sets.length.mean()),
        span=bins.upper - bins.lower,
    )


_Row = dict[str, str | int | float | None]

CELLS = 4_000_000  # hits held at a time


def rule_report(table: Table, examples: Examples) -> list[_Row]:
    """One row per rule, in the order of the table.

    `coverage`, `overlaps` and `conflicts` are shares of all data rows: those the rule hits, those
    another rule hits too, and those where another says something else (for ranges: shares no class
    with it). `decides` is the share where it has the last word. `accuracy` is the share of hit rows
    whose label it names, None without labels or hits.
    """
    table.schema.check(examples.x)
    n, rules, k = len(examples), len(table.rules), len(table.schema.classes)
    if n == 0:
        raise KnowledgeError("a rule report needs at least one row of data")
    outcomes = table.named.to(examples.x.device, torch.float32)
    totals = torch.zeros(5, rules, dtype=torch.float64, device=examples.x.device)
    for part in _parts(examples, rules):
        hits = table.hits(part.x)  # (b, rules)
        totals[0] += hits.sum(0)
        totals[1] += (hits & (hits.sum(1, keepdim=True) > 1)).sum(0)
        totals[2] += (hits & _find_opposed(hits, outcomes, table)).sum(0)
        totals[3] += table.first_of(hits).sum(0)
        if part.y is not None:
            legal = (part.y >= 0) & (part.y < k)
            named = outcomes.T[part.y.clamp(0, k - 1)] > 0  # (b, rules)
            totals[4] += (hits & named & legal.unsqueeze(1)).sum(0)
    hit, both, against, last, right = totals.tolist()
    labelled = examples.y is not None
    return [
        {
            "rule": table.rules[i].name or table.label(i),
            "row": table.rules[i].place.row,
            "outcome": ", ".join(table.schema.classes[c] for c in table.rules[i].outcome),
            "rows": int(hit[i]),
            "coverage": hit[i] / n,
            "overlaps": both[i] / n,
            "conflicts": against[i] / n,
            "decides": last[i] / n,
            "correct": int(right[i]) if labelled else None,
            "incorrect": int(hit[i] - right[i]) if labelled else None,
            "accuracy": right[i] / hit[i] if labelled and hit[i] else None,
        }
        for i in range(rules)
    ]


def report_rules(tables: Iterable[Any], examples: Examples | Measured) -> list[dict[str, object]]:
    """The same of all tables; where some hold in most cases only, with their confidences.

    Of tables about a number there is none.
    """
    if isinstance(examples, Measured):
        return []
    return [
        {"table": table.table.name, "kind": table.table.kind, **row}
        | ({"confidence": table.confidences[index]} if table.confidences else {})
        for table in tables
        for index, row in enumerate(rule_report(table.table, examples))
    ]


def _parts(examples: Examples, rules: int) -> Iterator[Examples]:
    size = max(CELLS // rules, 1)
    return (examples[start : start + size] for start in range(0, len(examples), size))


def _find_opposed(hits: Tensor, outcomes: Tensor, table: Table) -> Tensor:
    """Where a rule that shares no class with this one hits as well, (b, rules)."""
    if table.kind == "predict":  # one class each: some other class is named
        named = (hits.to(outcomes.dtype) @ outcomes) > 0  # (b, k)
        return (named.sum(1, keepdim=True) > 1).expand_as(hits)
    apart = (outcomes @ outcomes.T) == 0  # (rules, rules)
    return (hits.to(outcomes.dtype) @ apart.to(outcomes.dtype)) > 0
