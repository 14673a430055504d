"""Decision tables whose outcome is a number, or an interval of numbers: `[55..65]`, `>= 40`.

Conditions, hit policies and complaints are those of every other table; only the outcome differs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from ...answers import Sets
from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.cells import parse_set
from ...kernel.schema import Schema
from ...kernel.sheets import Sheet, outcome_texts
from ..missing import find_lacking
from .sheets import TableReading, parse_table
from .table import Table

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class NumberTable:
    """Rules about a number: a P-KM (`predict`) or an R-KM (`range`), as the table is.

    Of a prediction the rule that speaks names the number, and where none hits it is silent. Of a
    range all rules that hit allow a number (`intersect`), or one of them (`union`), and where none
    hits every number is possible. There a rule on a missing value may hit or not: it takes nothing
    away, and what it would add is possible.
    """

    table: Table  # its classes are the outcomes' texts
    sets: tuple[tuple[tuple[float, float], ...], ...]  # the intervals of each class
    of_number: ClassVar[bool] = True
    confidences: ClassVar[tuple[float, ...]] = ()  # its rules always hold

    def __call__(self, x: Tensor, /) -> Any:
        """(n, d) -> (n,), or `Sets`."""
        return self._allow(x) if self.table.kind == "range" else self._say(x)

    def _say(self, x: Tensor) -> Tensor:
        rows = self.table(x).double()
        said = rows @ rows.new_tensor([ends[0][0] for ends in self.sets])
        return torch.where(rows.sum(1) > 0, said, torch.nan)

    def _allow(self, x: Tensor) -> Sets:
        hits = self.table.hits(x)  # (n, rules)
        silent = ~hits.any(1)
        joins = self.table.policy == "union"
        if joins and find_lacking(self.table, x).any():
            hits = hits | self.table.undecided(x)
        found: Sets | None = None
        for rule, hit in zip(self.table.rules, hits.T, strict=True):
            ends = hit.new_tensor(self.sets[rule.outcome[0]], dtype=torch.float64).T  # (2, s)
            low, high = (side.expand(len(x), -1) for side in ends)
            if joins:  # a rule that does not hit adds nothing
                missed = ~hit.unsqueeze(1)
                said = Sets(low.masked_fill(missed, torch.nan), high.masked_fill(missed, torch.nan))
                found = said if found is None else found.join(said)
            else:  # and takes nothing away
                chosen = hit.unsqueeze(1)
                first = torch.arange(low.shape[1], device=x.device) == 0
                free = torch.where(first, torch.inf, torch.nan).double()
                said = Sets(torch.where(chosen, low, -free), torch.where(chosen, high, free))
                found = said if found is None else found.meet(said)
        assert found is not None  # a table has at least one rule
        return found.join(_everything(silent)) if joins and silent.any() else found

    def cells(self) -> list[list[str]]:
        """The table as text, header first, each outcome as the expert wrote it."""
        found = self.table.cells()
        place = found[0].index("then")
        for row, rule in zip(found[1:], self.table.rules, strict=True):
            row[place] = self.table.schema.classes[rule.outcome[0]]
        return found

    def looks_at(self, width: int) -> tuple[int, ...]:
        return self.table.looks_at(width)


def parse_numbers_table(
    page: Sheet, schema: Schema, **reading: Unpack[TableReading]
) -> NumberTable:
    """A sheet as a table of numbers or of intervals."""
    texts = outcome_texts(page, reading.get("outcome"))
    spare = ("no outcome", "no other outcome")[: max(0, 2 - len(texts))]  # a schema has 2 classes
    labelled = replace(schema, classes=(*texts, *spare))
    table = parse_table(page, labelled, **reading)
    named = {rule.outcome[0]: table.label(i) for i, rule in reversed([*enumerate(table.rules)])}
    found = []
    for index, text in enumerate(texts):
        try:
            found.append(parse_set(text))
        except KnowledgeError as error:
            where = named.get(index, f"outcome '{text}'")
            raise KnowledgeError(f"{page.file}, {where}: {error}") from None
    if table.kind == "range":
        return NumberTable(table, (*found, *(((math.nan, math.nan),),) * len(spare)))
    for index, ends in enumerate(found):
        if len(ends) != 1 or ends[0][0] != ends[0][1]:
            raise KnowledgeError(
                f"{page.file}, {named[index]}: a prediction names one number, got '{texts[index]}'"
            )
    # "4" and "4.0" are one number: such rules agree
    rules = [replace(rule, outcome=(found.index(found[rule.outcome[0]]),)) for rule in table.rules]
    same = replace(table, rules=tuple(rules))
    return NumberTable(same, (*found, *(((0.0, 0.0),),) * len(spare)))


def _everything(rows: Tensor) -> Sets:
    """All numbers for some rows, none for the others."""
    low = torch.where(rows, -torch.inf, torch.nan).double().unsqueeze(1)
    return Sets(low, -low)
