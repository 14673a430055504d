"""Decision tables in CSV or XLSX files, as sources of all four answers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.tensors import torch
from ...kernel.cells import TableKind as Outcome
from ...kernel.cells import format_condition, format_outcome
from ...kernel.document import TableEntry
from ...kernel.measures import widen_rules
from ...kernel.schema import Schema
from ...kernel.sheets import MOST_RULES, Rule, Sheet, refusal
from ...words import Reason
from ..missing import has_prediction
from ..tables.numbers import NumberTable, parse_numbers_table
from ..tables.sheets import (
    TableReading,
    check_written,
    csv_bytes,
    examine_table,
    parse_sheet,
    read_sheet,
)
from ..tables.soft import SoftTable
from ..tables.table import Table
from .kind import (
    Asked,
    Attached,
    Opened,
    Reasons,
    Setting,
    SourceKind,
    refuse_of_number,
)

if TYPE_CHECKING:
    from torch import Tensor


def _page(entry: TableEntry, setting: Setting) -> Sheet:
    path = setting.files.path(entry.table)
    if path is not None:
        return read_sheet(path, sheet=entry.sheet)
    page = parse_sheet(setting.files.read(entry.table), entry.table, sheet=entry.sheet)
    return replace(page, file=own_name(entry.table))


def _examine(entry: TableEntry, asked: Asked, setting: Setting) -> Opened:
    page, schema = _page(entry, setting), setting.schema
    kind: Outcome = "predict" if asked in ("prediction", "number") else "range"
    reading: TableReading = {"kind": kind, "policy": entry.hit, "outcome": entry.outcome}
    reading["dated"] = setting.dated
    if asked in ("number", "set"):
        refuse_of_number(entry.confidence)
        return _widen(parse_numbers_table(page, schema, **reading), setting), []
    model, findings = examine_table(page, schema, confidence=entry.confidence, **reading)
    return model if model is None else _widen(model, setting), findings


def _widen(model: Any, setting: Setting) -> Any:
    """A range whose rules hold for sure, where other measures stand for features and err."""
    table = model.table
    if model.confidences or table.kind != "range":
        return model
    rules = widen_rules(table.rules, setting.errors, table.policy, table.name)
    if rules == table.rules:
        return model
    found = replace(table, rules=rules)
    return replace(model, table=found) if model.of_number else found


def _read(entry: TableEntry, asked: Asked, setting: Setting) -> Any:
    model, findings = _examine(entry, asked, setting)
    if model is None:
        raise refusal(findings)
    return model


def _write(model: Any, inner: object) -> dict[str, Any]:
    table, cells = model.table, model.cells()
    check: Callable[[], None] = partial(check_written, model)
    if model.of_number:
        check = partial(_read_again, table, cells)
    lines = _in_their_rows(cells, table.rules)
    file = Attached(cells, partial(csv_bytes, lines), partial(table_file, table.name), check)
    shares = {"confidence": min(model.confidences)} if model.confidences else {}
    return {"table": file, "hit": table.policy, **shares}


def _read_again(table: Table, cells: list[list[str]]) -> None:
    page = Sheet(table.name, "", tuple((i, tuple(row)) for i, row in enumerate(cells, 1)))
    reading: TableReading = {"kind": table.kind, "policy": table.policy, "outcome": "then"}
    reading["dated"] = True
    parse_numbers_table(page, table.schema, **reading)


def _in_their_rows(cells: list[list[str]], rules: Sequence[Rule]) -> list[list[str]]:
    """The header, and each rule in the row in which it was written, where that can be."""
    rows = [1, *(rule.place.row or 0 for rule in rules)]
    steps = [after - before for before, after in itertools.pairwise(rows)]
    if min(steps) < 1 or rows[-1] > MOST_RULES:
        return cells
    found = cells[:1]
    for step, row in zip(steps, cells[1:], strict=True):
        found += [[]] * (step - 1) + [row]
    return found


def table_file(name: str, place: int) -> str:
    """What the table at a place is written as: its own name is kept, so that people know it.

    >>> table_file("rules of 2024.xlsx", 2), table_file("table-2-rules-of-2024.csv", 1)
    ('table-2-rules-of-2024.xlsx.csv', 'table-1-rules-of-2024.csv')
    >>> table_file("table", 1), table_file("table-2.csv", 1)
    ('table-1.csv', 'table-1.csv')
    """
    path = Path(own_name(name))
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", path.stem).strip("-")[:40]
    kind = path.suffix.lower() if path.suffix.lower() in (".tsv", ".xlsx", ".xlsm") else ""
    nameless = not plain or re.fullmatch(r"table(-\d+)?", plain)
    return f"table-{place}.csv" if nameless else f"table-{place}-{plain}{kind}.csv"


def own_name(name: str) -> str:
    """What the file was called by who wrote it, of which `table_file` made a name.

    >>> own_name("table-2-rules-of-2024.xlsx.csv"), own_name("table-1-range.csv")
    ('rules-of-2024.xlsx', 'range.csv')
    """
    own = re.sub(r"^table-\d+-", "", name)
    return re.sub(r"(\.tsv|\.xls[xm])\.csv$", r"\1", own)


def _words(model: Any, x: Tensor) -> Reasons:
    """The rules that hit a range's rows; the rule that speaks in a prediction's."""
    table, numbers = model.table, model.of_number
    if model.confidences:
        return _rules(table, x, model.speaking(x), confidences=model.confidences)
    if table.kind == "range":
        every = None if numbers else len(table.schema.classes)
        return _rules(table, x, table.hits(x), every=every, texts=numbers)
    # a hole may leave open who speaks
    speaking = table.first_of(table.hits(x) & has_prediction(table, x).unsqueeze(1))
    return _rules(table, x, speaking, texts=numbers)


def rule_text(rule: Rule, schema: Schema, kind: Outcome, *, text: bool = False) -> str:
    """`ash > 12 and sulphur <= 1 -> B..C`."""
    parts = []
    for column, condition in rule.conditions:
        feature = schema.features[column]
        cell = format_condition(condition, feature)
        link = " " if cell[:1] in "<>=" or cell.startswith(("in ", "not ")) else " = "
        parts.append(feature.name + (" in " if cell[:1] in "[(" else link) + cell)
    then = schema.classes[rule.outcome[0]] if text else ""
    outcome = then or format_outcome(rule.outcome, schema.classes, kind)
    return f"{' and '.join(parts) or 'always'} -> {outcome}"


def _rules(
    table: Table,
    x: Tensor,
    hits: Tensor,
    *,
    every: int | None = None,
    texts: bool = False,
    confidences: Sequence[float] = (),
) -> Reasons:
    """A reason per rule that hits; a rule that allows all `every` classes limits nothing."""
    limits = [every is None or len(rule.outcome) < every for rule in table.rules]
    rows, rules = (hits.cpu() & torch.tensor(limits)).numpy().nonzero()
    said = np.empty(len(table.rules), dtype=object)
    for rule in np.unique(rules).tolist():  # most rules hit no row: only the others are described
        args = {
            "place": table.place,
            "rule": table.label(rule),
            "text": rule_text(table.rules[rule], table.schema, table.kind, text=texts),
            "confidence": confidences[rule] if confidences else 1.0,
        }
        said[rule] = Reason("rule", args)
    each = said[rules].tolist()
    ends = np.searchsorted(rows, np.arange(len(x) + 1)).tolist()
    return [each[start:stop] for start, stop in itertools.pairwise(ends)]


TABLE = SourceKind(
    name="table",
    entry=TableEntry,
    models=(Table, SoftTable, NumberTable),
    asked=("prediction", "range", "number", "set"),
    read=_read,
    write=_write,
    words=_words,
    examine=_examine,
    lint=lambda model, place: (),  # all tables at once, in lint.logic
)
