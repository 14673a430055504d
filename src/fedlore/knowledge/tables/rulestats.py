"""How each rule of a table does on data: the coverage table that weak supervision made usual."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...core.examples import Examples
from ...core.tensors import torch
from ...errors import KnowledgeError
from .table import Table

if TYPE_CHECKING:
    from torch import Tensor

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
