"""Which rules have ever applied: to an example, to a row of data, to a monitored row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...core.tensors import torch, without_gradient
from ...kernel.findings import Finding, Place
from ..missing import hide_others
from ..models import Knowledge
from ..sources.catalog import parts_of
from ..sources.table import own_name
from .examples import Expectation

if TYPE_CHECKING:
    from torch import Tensor


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
