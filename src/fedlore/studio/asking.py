"""The draft asked about rows, through the very functions that training and `predict` use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..answers import Measured
from ..core.examples import Examples
from ..data.rows.strict import Unusable, strict_values
from ..errors import FedloreError, KnowledgeError
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.findings.checkup import Checkup
from ..knowledge.sources.catalog import leaves
from ..knowledge.tables.table import Table


@dataclass(frozen=True)
class Heard:
    """What the knowledge says of n rows; numbers have `low` and `high` in place of `allowed`."""

    expert: Tensor  # (n,): a class, -1 where he is silent; or a number, NaN where he is
    allowed: Tensor | None  # (n, k) bool
    low: Tensor | None  # (n,)
    high: Tensor | None
    refused: Tensor  # (n,) bool: the rules contradict each other there
    prior: Tensor | None = None  # (n, k)


def usable(checkup: Checkup) -> tuple[Knowledge, Schema]:
    """The knowledge of a checkup, or a sentence why there is none."""
    known = checkup.knowledge
    if known is None or known.schema is None:
        first = next((f for f in checkup.findings if f.severity == "error"), None)
        why = "" if first is None else f" ({first.place}: {first.message})"
        raise KnowledgeError(f"the rules cannot be used yet: mend the errors first{why}")
    return known, known.schema


def read_row(row: Mapping[str, str | float | None], schema: Schema) -> Tensor:
    """One row as it was typed, (1, d) float32; a decimal comma is a point."""
    said: dict[str, Any] = {}
    levels = {feature.name: bool(feature.levels) for feature in schema.features}
    for name, value in row.items():
        said[name] = _typed(value, levels.get(name, False))
    try:
        values = strict_values([said], schema)
    except Unusable as error:
        raise KnowledgeError(str(error).removeprefix("row 1, ").removeprefix("row 1: ")) from None
    return torch.tensor(values, dtype=torch.float32)


def _typed(value: str | float | None, level: bool) -> str | float | None:
    if isinstance(value, str) and not level:
        text = value.strip()
        try:
            return float(text.replace(",", ".") if text.count(",") == 1 else text)
        except ValueError:
            return text or None
    if isinstance(value, str):
        return value.strip() or None
    return float(value) if value is not None and not level else value


@torch.no_grad()
def hear_knowledge(checkup: Checkup, x: Tensor) -> Heard:
    """What the knowledge says of rows; where it contradicts itself the others are still told."""
    known, schema = usable(checkup)
    refused = torch.zeros(len(x), dtype=torch.bool)
    for table in tables_in(checkup):
        refused |= _clashes(table, x)
    good = (~refused).nonzero().flatten()
    parts = list(_ask_parts(known, x, good, refused))
    n, k = len(x), len(schema.classes)
    if known.line is not None:
        ends = [torch.full((n,), torch.nan, dtype=torch.float64) for _ in range(3)]
        for rows, found in parts:
            for end, value in zip(ends, found, strict=True):
                end[rows] = value.double()
        return Heard(ends[0], None, ends[1], ends[2], refused)
    expert = torch.full((n,), -1, dtype=torch.int64)
    allowed, prior = torch.ones(n, k, dtype=torch.bool), torch.zeros(n, k)
    for rows, (said, may) in parts:
        prior[rows], allowed[rows] = said.float(), may
        expert[rows] = torch.where(said.sum(1) > 0, said.argmax(1), -1)
    allowed[refused] = False
    return Heard(expert, allowed, None, None, refused, prior)


def _ask_parts(
    known: Knowledge, x: Tensor, rows: Tensor, refused: Tensor
) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
    """The answers by parts that can be answered; rows that cannot are marked, found by halving."""
    waiting = [rows]
    while waiting:
        part = waiting.pop()
        if not len(part):
            continue
        try:
            yield part, ask_once(known, x[part])
        except KnowledgeError:
            if len(part) == 1:
                refused[part] = True
            else:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]


def ask_once(known: Knowledge, x: Tensor) -> tuple[Tensor, ...]:
    """The answers to rows, all of them or none: what is contradicted is raised."""
    if known.bins is None:
        k = len(known.require_schema().classes)
        found = known.annotate(Examples(x), known.answers)
        prior = torch.zeros(len(x), k) if found.prior is None else found.prior
        every = torch.ones(len(x), k, dtype=torch.bool)
        return prior, every if found.allowed is None else found.allowed
    rows = known.annotate(Measured(x), training=False)
    said = torch.full((len(x),), torch.nan) if rows.said is None else rows.said
    if rows.sets is None:
        return (
            said,
            torch.full_like(said, known.bins.lower),
            torch.full_like(said, known.bins.upper),
        )
    low = rows.sets.lower.nan_to_num(torch.inf).amin(1)
    high = rows.sets.upper.nan_to_num(-torch.inf).amax(1)
    return said, low, high


def _clashes(table: Table, x: Tensor) -> Tensor:
    """Rows on which a table refuses to answer, as far as whole rows show it, (n,) bool."""
    if table.policy not in ("intersect", "unique"):
        return torch.zeros(len(x), dtype=torch.bool)
    hits = table.hits(x).float()
    outcomes = torch.zeros(len(table.rules), len(table.schema.classes))
    for index, rule in enumerate(table.rules):
        outcomes[index, list(rule.outcome)] = 1.0
    if table.policy == "intersect":
        return (hits @ (1.0 - outcomes) > 0).all(1)
    return (hits @ outcomes > 0).sum(1) > 1


def tables_in(checkup: Checkup) -> list[Table]:
    """The decision tables whose rules speak of classes."""
    known = checkup.knowledge
    if known is None or known.line is not None:
        return []
    return [model for model in leaves(known.prediction, known.range) if isinstance(model, Table)]


def tried_row(row: Mapping[str, str | float | None], checkup: Checkup) -> Tensor:
    """The row a person tries, refused in a sentence where it is none."""
    _, schema = usable(checkup)
    try:
        return read_row(row, schema)
    except FedloreError as error:
        raise KnowledgeError(f"this row cannot be tried: {error}") from None
