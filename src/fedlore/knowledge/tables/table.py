"""Decision tables: a rule per row, evaluated on whole tensors.

A condition compares in the dtype of the column: the threshold 0.1 is rounded as the value 0.1 in
the data was, so `<= 0.1` holds for it in float32 too. A threshold too large for the dtype lies
beyond all its finite numbers. On a categorical feature a number that is no level's index satisfies
no condition. A condition on a missing value (NaN) is unknown: a range is the union of what it is
with such a rule firing and not firing, a prediction speaks where such rules cannot change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.cells import TableKind, format_condition, format_outcome, number
from ...kernel.findings import Place
from ...kernel.schema import Schema
from ...kernel.sheets import DATES, POLICIES, Rule, TablePolicy, speaking_order
from ...kernel.sources import Table as KernelTable
from ..missing import find_lacking
from .program import TableProgram, row_dtype

if TYPE_CHECKING:
    from torch import Tensor

_MOST_HITS = 1 << 22  # rows times rules at a time, where they are looked at one by one


@dataclass(frozen=True)
class Table:
    """Rules with a hit policy: a P-KM (`predict`) or an R-KM (`range`), callable on rows.

    `first`: the first rule that hits; `priority`: the one with the smallest number, ties in row
    order; `unique`: hitting rules must agree. No hit abstains (a zero row).
    `intersect`: classes that every hitting rule allows; `union`: those that one allows. No hit
    allows all.
    """

    of_number: ClassVar[bool] = False
    confidences: ClassVar[tuple[float, ...]] = ()  # its rules always hold

    schema: Schema
    rules: tuple[Rule, ...]
    kind: TableKind
    policy: TablePolicy
    name: str = field(default="table", compare=False)  # a file name, for messages

    def __post_init__(self) -> None:
        if self.policy not in POLICIES.get(self.kind, ()):
            known = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in POLICIES.items())
            raise KnowledgeError(
                f"no hit policy '{self.policy}' for a table of kind '{self.kind}' ({known})"
            )
        if not self.rules:
            raise KnowledgeError(f"{self.name}: a table needs at least one rule")
        for index, rule in enumerate(self.rules):
            self._check(rule, self.label(index))

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n, k): one-hot or zero rows of x's dtype, or bool for ranges."""
        said = self._say(x)
        if self.policy != "intersect":  # there a rule that may fire takes nothing away for sure
            lacking = find_lacking(self, x)
            if lacking.any():
                said[lacking] = self._say_perhaps(x[lacking]).to(said.dtype)
        return said

    def looks_at(self, width: int) -> tuple[int, ...]:
        return self._columns

    @cached_property
    def _columns(self) -> tuple[int, ...]:
        return tuple(sorted({column for rule in self.rules for column, _ in rule.conditions}))

    def _say(self, x: Tensor) -> Tensor:
        """The answers with every rule on a missing value left out."""
        x, program = self._ready(x)
        if self.policy in ("first", "priority"):
            return program.first(x, row_dtype(x))
        if self.policy == "intersect":
            allowed = program.all_of(x)
            self._refuse(x, ~allowed.any(1), "leave no class")
            return allowed
        named = program.any_of(x)
        if self.policy == "union":
            return named.logical_or_(~named.any(1, keepdim=True))
        self._refuse(x, named.sum(1) > 1, "disagree, and the policy is unique")
        return named.to(row_dtype(x))

    def _say_perhaps(self, x: Tensor) -> Tensor:
        """The answers where rules may or may not hit, (n, d) -> (n, k) bool."""
        x, sure = self._ready(x)
        perhaps = self._ready(x, perhaps=True)[1]
        outcomes = torch.from_numpy(sure.outcomes).to(x.device)  # (rules, k)
        parts = []
        for rows in torch.split(x, max(_MOST_HITS // len(self.rules), 1)):
            hits, may_hit = sure.hits(rows), perhaps.hits(rows)  # (n, rules)
            if self.policy in ("first", "priority"):  # behind a sure rule none can speak
                may_hit = may_hit & (hits.cumsum(1) == hits)
            named = may_hit.float() @ outcomes.float() > 0
            some = hits.any(1, keepdim=True)
            one = named.sum(1, keepdim=True) == 1
            parts.append(named | ~some if self.policy == "union" else named & some & one)
        return torch.cat(parts)

    def hits(self, x: Tensor) -> Tensor:
        """Which rule hits which row, (n, d) -> (n, rules) bool, in the order of the table."""
        x, program = self._ready(x)
        return self._in_order(program.hits(x))

    def undecided(self, x: Tensor) -> Tensor:
        """Which rule hits or not as a missing value may be, (n, d) -> (n, rules) bool."""
        x, program = self._ready(x, perhaps=True)
        return self._in_order(program.hits(x)) & ~self.hits(x)

    def first_of(self, hits: Tensor) -> Tensor:
        """Of the rules that hit, those that have a say: one, or all where they are combined."""
        if self.policy not in ("first", "priority"):
            return hits
        order = torch.tensor(self.order, device=hits.device)
        ranked = hits[:, order]
        first = ranked & (ranked.cumsum(1) == 1)
        return torch.zeros_like(hits).index_copy_(1, order, first)

    def _in_order(self, hits: Tensor) -> Tensor:
        if self.policy == "priority":
            hits = hits[:, torch.tensor(np.argsort(self.order), device=hits.device)]
        return hits

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The rules in the order in which they speak."""
        return speaking_order(self.rules, self.policy)

    @cached_property
    def named(self) -> Tensor:
        """Which rule names which class, (rules, k) bool."""
        found = torch.zeros(len(self.rules), len(self.schema.classes), dtype=torch.bool)
        for index, rule in enumerate(self.rules):
            found[index, list(rule.outcome)] = True
        return found

    @property
    def table(self) -> Table:
        """The rules, which all kinds of tables have under this name."""
        return self

    @property
    def kernel_source(self) -> KernelTable:
        rules = [self.rules[index] for index in self.order]
        return KernelTable(self.name, rules, self.policy, len(self.schema.classes))

    @property
    def place(self) -> Place:
        """Where the whole table stands."""
        return Place(self.name, self.rules[0].place.sheet)

    def cells(self) -> list[list[str]]:
        """The table as text, header first: a canonical form, equal for equal tables."""
        columns = [(column, self.schema.features[column]) for column in self._columns]
        extras = {
            "priority": [
                number(r.priority) if self.policy == "priority" else "" for r in self.rules
            ],
            "rule": [rule.name for rule in self.rules],
            "note": [rule.note for rule in self.rules],
            **{title: self._days(end) for end, title in enumerate(DATES)},
        }
        shown = {title: cells for title, cells in extras.items() if any(cells)}
        titles = [f"{f.name} [{f.unit}]" if f.unit else f.name for _, f in columns]
        rows = [[*titles, "then", *shown]]
        for index, rule in enumerate(self.rules):
            conditions = dict(rule.conditions)
            row = [format_condition(conditions.get(column), f) for column, f in columns]
            row.append(format_outcome(rule.outcome, self.schema.classes, self.kind))
            rows.append(row + [cells[index] for cells in shown.values()])
        return rows

    def _days(self, end: int) -> list[str]:
        """The first days of rules, or the days on which they hold no more, as cells."""
        return ["" if (day := rule.validity[end]) is None else str(day) for rule in self.rules]

    def label(self, index: int) -> str:
        """What to call a rule in a message."""
        rule = self.rules[index]
        where = f"row {rule.place.row}" if rule.place.row is not None else f"rule {index + 1}"
        return f"'{rule.name}' ({where})" if rule.name else where

    def labels(self, chosen: Sequence[int], most: int = 5) -> str:
        """What to call several rules, in one phrase."""
        names = [self.label(index) for index in chosen[:most]]
        if len(chosen) > most:
            return ", ".join(names) + f" and {len(chosen) - most} more"
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))

    def _ready(self, x: Tensor, *, perhaps: bool = False) -> tuple[Tensor, TableProgram]:
        self.schema.check(x)
        if x.is_complex():
            raise KnowledgeError(f"rows must hold real numbers, got {x.dtype}")
        key = (x.dtype, x.device, perhaps)
        program = self._programs.get(key)
        if program is None:
            conditions = [self.rules[index].conditions for index in self.order]
            outcomes = self.named[list(self.order)].numpy()
            program = self._programs[key] = TableProgram.of(conditions, outcomes, *key)
        return x.detach(), program

    @cached_property
    def _programs(self) -> dict[tuple[torch.dtype, torch.device, bool], TableProgram]:
        return {}

    def _refuse(self, x: Tensor, bad: Tensor, why: str) -> None:
        if not bad.any():
            return
        row = int(bad.nonzero()[0])
        hit = self.hits(x[row : row + 1])[0].nonzero().flatten().tolist()
        text = f"{self.place}: data row {row}: {self.labels(hit)} hit and {why}"
        raise KnowledgeError(text, row=row)

    def _check(self, rule: Rule, label: str) -> None:
        columns = [column for column, _ in rule.conditions]
        d, k = len(self.schema.features), len(self.schema.classes)
        if columns != sorted(set(columns)) or not all(0 <= column < d for column in columns):
            raise KnowledgeError(f"{label}: conditions must name columns 0 to {d - 1}, ascending")
        for column, condition in rule.conditions:
            feature = self.schema.features[column]
            if bool(condition.chosen) != bool(feature.levels):
                raise KnowledgeError(f"{label}: the condition does not fit '{feature.name}'")
            if not all(0 <= level < len(feature.levels) for level in condition.chosen):
                raise KnowledgeError(f"{label}: '{feature.name}' has no such level")
        classes = list(rule.outcome)
        if not classes or classes != sorted(set(classes)) or not 0 <= classes[0] <= classes[-1] < k:
            raise KnowledgeError(f"{label}: the outcome must be classes 0 to {k - 1}, ascending")
        if self.kind == "predict" and len(classes) != 1:
            raise KnowledgeError(f"{label}: a prediction names one class, got {len(classes)}")
