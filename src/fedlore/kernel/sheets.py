"""Decision tables as they are written: cells of a sheet into rules, each complaint at its cell."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Literal

from ..errors import KnowledgeError, unknown
from .cells import (
    ALWAYS,
    LONGEST,
    Closed,
    Condition,
    TableKind,
    Validity,
    format_condition,
    parse_condition,
    parse_confidence,
    parse_day,
    parse_outcome,
    short,
    single_spans,
)
from .findings import Finding, Place
from .schema import Feature

_FAULT = "table"  # the code of errors raised here

MOST_RULES = 100_000
MOST_FINDINGS = 100
OUTCOMES = ("then", "outcome", "range")  # names of the outcome column
DATES = ("from", "until")  # columns of the days on which a rule holds
EXTRAS = ("priority", "confidence", "rule", "note", *DATES)
SEPARATORS = ",;\t|"
_HEADER = re.compile(r"([^\[\]]*?)\s*(?:\[([^\[\]]*)\])?")

TablePolicy = Literal["first", "unique", "priority", "intersect", "union"]
POLICIES: dict[TableKind, tuple[TablePolicy, ...]] = {
    "predict": ("first", "unique", "priority"),
    "range": ("intersect", "union"),
}


@dataclass(frozen=True)
class Broken:
    """A cell that holds something other than text or a plain number, and why it is refused."""

    reason: str
    shown: str = ""  # what a copy of it says

    def __str__(self) -> str:
        return self.shown


SheetCell = str | Broken


@dataclass(frozen=True)
class Sheet:
    """One sheet as text; `rows` are numbered as the spreadsheet numbers them."""

    file: str
    name: str  # empty for CSV
    rows: tuple[tuple[int, tuple[SheetCell, ...]], ...]

    @property
    def filled(self) -> list[tuple[int, tuple[SheetCell, ...]]]:
        """The rows in which anything stands."""
        return [(row, cells) for row, cells in self.rows if any(map(_is_filled, cells))]

    def place(self, row: int | None = None, column: str = "") -> Place:
        return Place(self.file, self.name, row, column)


@dataclass(frozen=True)
class Rule:
    """If all conditions hold, then the outcome."""

    conditions: tuple[tuple[int, Condition], ...]  # by column, ascending; the others are free
    outcome: tuple[int, ...]  # class indices, ascending; one for a prediction
    priority: float = 0.0  # the smallest number speaks first, as in "priority 1"
    name: str = ""
    note: str = ""
    validity: Validity = ALWAYS  # the days on which it holds, in a file that is read as a whole
    place: Place = field(default=Place(), compare=False)

    @cached_property
    def spans(self) -> dict[int, tuple[Closed, ...]]:
        """The numbers of single precision that each condition allows, by column."""
        return {column: single_spans(condition) for column, condition in self.conditions}


@dataclass(frozen=True)
class Rules:
    """The rules of a sheet, in its order, and how often each holds."""

    rules: tuple[Rule, ...]
    policy: TablePolicy
    confidences: tuple[float, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The rules in the order in which they speak."""
        return speaking_order(self.rules, self.policy)


def speaking_order(rules: Sequence[Rule], policy: str) -> tuple[int, ...]:
    """The places of rules in the order in which they speak."""
    if policy != "priority":
        return tuple(range(len(rules)))
    return tuple(sorted(range(len(rules)), key=lambda index: rules[index].priority))


@dataclass(frozen=True)
class SheetColumn:
    """A column of a table."""

    role: str  # feature, then, one of the extras, or blank
    title: str
    index: int = -1  # of the feature


def parse_csv(text: str, name: str) -> Sheet:
    """The text of a CSV file; cells end at the mark under which the header has most of them."""
    text = text.removeprefix("\ufeff")
    head = re.split(r"[\r\n]", text, maxsplit=1)[0]
    separator = max(SEPARATORS, key=lambda mark: len(next(csv.reader([head], delimiter=mark), [])))
    rows: list[tuple[int, tuple[SheetCell, ...]]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for index, row in enumerate(reader, 1):
            rows.append((index, tuple(row)))
    except csv.Error as error:
        place = Place(name, row=len(rows) + 1)
        raise KnowledgeError(f"{place}: not readable as CSV: {error}") from error
    return Sheet(name, "", tuple(rows))


def refusal(findings: Sequence[Finding]) -> KnowledgeError:
    """What is wrong with a sheet, as an error: the first fault, and how many more."""
    first, more = findings[0], len(findings) - 1
    tail = f" (and {more} more)" if more else ""
    return KnowledgeError(f"{first.place}: {first.message}{tail}")


def examine_rules(
    page: Sheet,
    features: Sequence[Feature],
    classes: Sequence[str],
    *,
    kind: TableKind,
    policy: TablePolicy | None = None,
    outcome: str | None = None,
    confidence: float | None = None,
    dated: bool = False,
) -> tuple[Rules | None, list[Finding]]:
    """The rules of a sheet, or None and all that is wrong with it.

    Rules with dates are refused, as they must not be taken for rules of all days, unless the
    caller says that it reads a whole file, `dated`.
    """
    findings: list[Finding] = []
    rows = page.filled
    if kind not in POLICIES:
        raise KnowledgeError(f"a table is of kind predict or range, got '{kind}'")
    if len(rows) < 2 or len(rows) > MOST_RULES + 1:  # with the header
        case = "empty" if len(rows) < 2 else "long"
        return None, [Finding("error", "size", page.place(), {"most": MOST_RULES}, case)]
    columns = read_titles(page, rows[0], features, outcome, findings)
    has_priority = any(column.role == "priority" for column in columns)
    if policy is None:
        policy = POLICIES[kind][0] if not (has_priority and kind == "predict") else "priority"
    if has_priority != (policy == "priority"):
        case = "column" if has_priority else "no-column"
        findings.append(Finding("error", "priority", page.place(), {"policy": policy}, case))
    if findings:
        return None, findings
    rules, confidences = [], []
    for row, cells in rows[1:]:
        rule, own = _rule(page, row, cells, columns, features, classes, kind, findings)
        rules.append(rule)
        if rule.validity != ALWAYS and not dated:
            findings.append(Finding("error", "cell", page.place(row), {"error": _DATED}))
        confidences.append(own or confidence or 1.0)
        if len(findings) >= MOST_FINDINGS:
            break
    soft = min(confidences) < 1.0
    if soft and policy in ("unique", "union"):
        other = "first or priority" if kind == "predict" else "intersect"
        args = {"fits": other, "policy": policy}
        findings.append(Finding("error", "confidence", page.place(), args, "policy"))
    if findings:
        return None, findings
    return Rules(tuple(rules), policy, tuple(confidences)), []


_DATED = (
    "the rule holds on some days only: name its table in a knowledge.toml, which is read as of a "
    "day, or leave the columns 'from' and 'until' out"
)


def _rule(
    page: Sheet,
    row: int,
    cells: Sequence[SheetCell],
    columns: Sequence[SheetColumn],
    features: Sequence[Feature],
    classes: Sequence[str],
    kind: TableKind,
    findings: list[Finding],
) -> tuple[Rule, float | None]:
    """A rule, and its confidence where it says one."""
    conditions: list[tuple[int, Condition]] = []
    values: dict[str, str] = {}
    days: dict[str, date | None] = {}
    chosen: tuple[int, ...] = ()
    priority, confidence = 0.0, None
    if len(cells) < len(columns) or any(map(_is_filled, cells[len(columns) :])):
        args = {"cells": len(cells), "columns": len(columns)}
        findings.append(Finding("error", "cell", page.place(row), args, "width"))
    for column, cell in zip(columns, cells, strict=False):
        try:
            if column.role in DATES:
                days[column.role] = parse_date_cell(cell)
                continue
            if isinstance(cell, Broken):
                raise KnowledgeError(f"the cell cannot be read: {cell.reason}")
            if len(cell) > LONGEST:
                raise KnowledgeError(f"a cell may have {LONGEST} characters, it has {len(cell)}")
            if column.role == "feature":
                condition = parse_condition(cell, features[column.index])
                if condition is not None:
                    conditions.append((column.index, condition))
            elif column.role == "then":
                chosen = parse_outcome(cell, classes, kind)
            elif column.role == "priority":
                priority = _priority(cell)
            elif column.role == "confidence":
                confidence = parse_confidence(cell) if cell.strip() else None
            elif column.role == "blank" and cell.strip():
                raise KnowledgeError(f"{short(cell)} stands in a column without a name")
            else:
                values[column.role] = cell.strip()
        except KnowledgeError as error:
            place = page.place(row, column.title)
            findings.append(Finding("error", "cell", place, {"error": str(error)}))
    rule = Rule(
        conditions=tuple(sorted(conditions, key=lambda item: item[0])),
        outcome=chosen,
        priority=priority,
        name=values.get("rule", ""),
        note=values.get("note", ""),
        validity=Validity(days.get("from"), days.get("until")),
        place=page.place(row),
    )
    return rule, confidence


def parse_date_cell(cell: SheetCell) -> date | None:
    """The day in a cell, be it a date of the spreadsheet or its text; None in an empty one."""
    text = cell.shown.removesuffix(" 00:00:00") if isinstance(cell, Broken) else cell
    if isinstance(cell, Broken) and not text:
        raise KnowledgeError(f"the cell cannot be read: {cell.reason}")
    return parse_day(text.strip()) if text.strip() not in ("", "-") else None


def _priority(cell: str) -> float:
    plain = parse_condition(cell, Feature("priority"))
    text = format_condition(plain, Feature("priority"))
    if not text.startswith("= "):
        raise KnowledgeError(f"a priority is a number, 1 speaks first, got {short(cell)}")
    return float(text.removeprefix("= "))


def _text(cell: SheetCell) -> str:
    return "" if isinstance(cell, Broken) else cell.strip()


def _is_filled(cell: SheetCell) -> bool:
    return isinstance(cell, Broken) or bool(cell.strip())


def outcome_texts(page: Sheet, outcome: str | None) -> tuple[str, ...]:
    """The different texts of the outcome column, in their order; a sheet without one has none."""
    rows = [[_text(cell) for cell in cells] for _, cells in page.filled]
    wanted = OUTCOMES if outcome is None else (outcome.lower(),)
    titles = [title.lower() for title in rows[0]] if rows else []
    place = next((i for i, title in enumerate(titles) if title in wanted), None)
    if place is None:
        return ()
    return tuple(dict.fromkeys(row[place] for row in rows[1:] if len(row) > place and row[place]))


def read_titles(
    page: Sheet,
    header: tuple[int, tuple[SheetCell, ...]],
    features: Sequence[Feature],
    outcome: str | None,
    findings: list[Finding],
) -> list[SheetColumn]:
    """The columns of a table, header given; what is wrong with them joins the findings."""
    row, cells = header
    columns: list[SheetColumn] = []
    for position, cell in enumerate(cells, 1):
        try:
            column = _column(cell, features, outcome)
            if column.title and column.title in [one.title for one in columns]:
                raise KnowledgeError(f"column '{column.title}' is there twice")
            columns.append(column)
        except KnowledgeError as error:
            place = page.place(row, (_text(cell) or f"number {position}")[:60])
            findings.append(Finding("error", "header", place, {"error": str(error)}))
    found = [column.title for column in columns if column.role == "then"]
    if len(found) != 1 and not findings:
        wanted = [outcome] if outcome else list(OUTCOMES)
        args = {"wanted": wanted, "found": len(found)}
        findings.append(Finding("error", "header", page.place(row), args, "outcome"))
    return columns


def feature_titled(text: str, features: Sequence[Feature]) -> int | None:
    """The place of the feature with this name or this title in data, its unit behind it or not."""
    for place, feature in enumerate(features):
        for title in (feature.column, feature.name):
            known = "" if title is None else title.strip()
            if known and text in (known, f"{known} [{feature.unit}]", f"{known} ({feature.unit})"):
                return place
    return None


def _column(cell: SheetCell, features: Sequence[Feature], outcome: str | None) -> SheetColumn:
    if isinstance(cell, Broken):
        raise KnowledgeError(cell.reason)
    text = cell.strip()
    if not text:
        return SheetColumn("blank", "")
    if len(text) > 200:
        raise KnowledgeError(f"a column name may have 200 characters, got {len(text)}")
    if outcome is not None and text == outcome:
        return SheetColumn("then", text)
    place = feature_titled(text, features)
    if place is not None:
        return SheetColumn("feature", features[place].name, place)
    parts = _HEADER.fullmatch(text)
    name, unit = (parts[1].strip(), parts[2]) if parts else (text, None)
    names = [feature.name for feature in features]
    if name in names:
        feature = features[names.index(name)]
        if unit is not None and unit.strip() != feature.unit:
            raise KnowledgeError(
                f"the unit is [{unit}], but '{name}' is declared in [{feature.unit}]"
            )
        return SheetColumn("feature", name, names.index(name))
    if outcome is None and name.lower() in OUTCOMES:
        return SheetColumn("then", name)
    if name.lower() in EXTRAS:
        return SheetColumn(name.lower(), name)
    wanted = OUTCOMES if outcome is None else (outcome,)
    raise KnowledgeError(unknown("column", name, (*names, *wanted, *EXTRAS)))
