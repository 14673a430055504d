"""From a spreadsheet to a decision table and back, with every complaint at its cell."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ...core.files.workbook import Broken, SheetCell
from ...errors import KnowledgeError
from ...kernel.findings import Finding
from ...kernel.schema import Feature, Schema
from .cells import (
    LONGEST,
    Condition,
    TableKind,
    format_condition,
    format_outcome,
    number,
    parse_condition,
    parse_outcome,
    short,
)
from .confidences import format_confidence, parse_confidence
from .sheets import Sheet, read_sheet, write_sheet
from .soft import SoftTable
from .table import POLICIES, Rule, Table, TablePolicy
from .titles import SheetColumn, read_titles

MOST_RULES = 100_000
MOST_FINDINGS = 100


def read_rules(
    path: str | Path,
    schema: Schema,
    *,
    kind: TableKind,
    policy: TablePolicy | None = None,
    outcome: str | None = None,
    sheet: str | None = None,
) -> Table:
    """Read a decision table from CSV or XLSX; the first fault found is raised with its place.

    The default policy is `intersect` for ranges; for predictions `priority` where the table has
    such a column, else `first`.
    """
    page = read_sheet(path, sheet=sheet)
    return parse_table(page, schema, kind=kind, policy=policy, outcome=outcome)


def parse_table(
    page: Sheet,
    schema: Schema,
    *,
    kind: TableKind,
    policy: TablePolicy | None = None,
    outcome: str | None = None,
) -> Table:
    """A sheet as a table; the first fault found is raised with its place."""
    table = parse_rules(page, schema, kind=kind, policy=policy, outcome=outcome)
    if isinstance(table, SoftTable):
        soft = [i for i, confidence in enumerate(table.confidences) if confidence < 1]
        raise KnowledgeError(
            f"{page.place()}: {table.table.labels(soft)} hold in most cases only, and here every "
            "rule must always hold: leave the column 'confidence' out, or name the table in a "
            "knowledge file about classes"
        )
    return table


def parse_rules(
    page: Sheet,
    schema: Schema,
    *,
    kind: TableKind,
    policy: TablePolicy | None = None,
    outcome: str | None = None,
    confidence: float | None = None,
) -> Table | SoftTable:
    """The same where rules may hold in most cases only; `confidence` is of those that say none."""
    table, findings = examine_table(
        page, schema, kind=kind, policy=policy, outcome=outcome, confidence=confidence
    )
    if table is None:
        raise _refusal(findings)
    return table


def table_of(
    rows: Iterable[Mapping[str, str | float]],
    schema: Schema,
    *,
    kind: TableKind,
    policy: TablePolicy | None = None,
    outcome: str | None = None,
    name: str = "table",
) -> Table:
    """A decision table from rows of cells, such as {"ash": "> 12", "then": "II"}."""
    written = [
        {key: cell if isinstance(cell, str) else number(cell) for key, cell in row.items()}
        for row in rows
    ]
    header = list(dict.fromkeys(key for row in written for key in row))
    lines = [tuple(row.get(key, "") for key in header) for row in written]
    page = Sheet(name, "", tuple(enumerate([tuple(header), *lines])))  # the first rule is row 1
    return parse_table(page, schema, kind=kind, policy=policy, outcome=outcome)


def table_cells(table: Table | SoftTable) -> list[list[str]]:
    """The table as text, header first: a canonical form, equal for equal tables."""
    if isinstance(table, SoftTable):
        shares = ["confidence", *map(format_confidence, table.confidences)]
        cells = table_cells(table.table)
        return [[*row, share] for row, share in zip(cells, shares, strict=True)]
    schema, kind = table.schema, table.kind
    used = sorted({column for rule in table.rules for column, _ in rule.conditions})
    features = [schema.features[column] for column in used]
    extras = [
        ("priority", [number(rule.priority) for rule in table.rules]),
        ("rule", [rule.name for rule in table.rules]),
        ("note", [rule.note for rule in table.rules]),
    ]
    shown = [
        (title, cells)
        for title, cells in extras
        if (table.policy == "priority" if title == "priority" else any(cells))
    ]
    rows = [[_title(feature) for feature in features] + ["then"] + [title for title, _ in shown]]
    for index, rule in enumerate(table.rules):
        conditions = dict(rule.conditions)
        row = [format_condition(conditions.get(column), schema.features[column]) for column in used]
        row.append(format_outcome(rule.outcome, schema.classes, kind))
        rows.append(row + [cells[index] for _, cells in shown])
    return rows


def write_table(table: Table, path: str | Path) -> None:
    """Write a table to CSV or XLSX so that reading it gives an equal one."""
    check_written(table)
    write_sheet(table_cells(table), path)


def check_written(model: Table | SoftTable) -> None:
    """Refuse a table whose cells, read again, would not be the same table."""
    rows, table = table_cells(model), model.table if isinstance(model, SoftTable) else model
    page = Sheet(table.name, "", tuple((i, tuple(row)) for i, row in enumerate(rows, 1)))
    again, findings = examine_table(
        page, table.schema, kind=table.kind, policy=table.policy, outcome="then"
    )
    if again is None:  # a cell that would be too long, a feature called 'then'
        raise _refusal(findings)
    if again != model:
        raise KnowledgeError(f"{table.name}: names and notes must not begin or end with spaces")


def examine_table(
    page: Sheet,
    schema: Schema,
    *,
    kind: TableKind,
    policy: TablePolicy | None = None,
    outcome: str | None = None,
    confidence: float | None = None,
) -> tuple[Table | SoftTable | None, list[Finding]]:
    """A sheet as a table, or None and all that is wrong with it."""
    findings: list[Finding] = []
    rows = [(row, cells) for row, cells in page.rows if any(_is_filled(cell) for cell in cells)]
    if kind not in POLICIES:
        raise KnowledgeError(f"a table is of kind predict or range, got '{kind}'")
    if len(rows) < 2 or len(rows) > MOST_RULES + 1:  # with the header
        case = "empty" if len(rows) < 2 else "long"
        return None, [Finding("error", "size", page.place(), {"most": MOST_RULES}, case)]
    columns = read_titles(page, rows[0], schema, outcome, findings)
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
        rule, own = _rule(page, row, cells, columns, schema, kind, findings)
        rules.append(rule)
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
    table = Table(schema, tuple(rules), kind, policy, page.file)
    return SoftTable(table, tuple(confidences)) if soft else table, []


def _rule(
    page: Sheet,
    row: int,
    cells: Sequence[SheetCell],
    columns: Sequence[SheetColumn],
    schema: Schema,
    kind: TableKind,
    findings: list[Finding],
) -> tuple[Rule, float | None]:
    """A rule, and its confidence where it says one."""
    conditions: list[tuple[int, Condition]] = []
    values: dict[str, str] = {}
    chosen: tuple[int, ...] = ()
    priority, confidence = 0.0, None
    if len(cells) < len(columns) or any(_is_filled(cell) for cell in cells[len(columns) :]):
        args = {"cells": len(cells), "columns": len(columns)}
        findings.append(Finding("error", "cell", page.place(row), args, "width"))
    for column, cell in zip(columns, cells, strict=False):
        try:
            if isinstance(cell, Broken):
                raise KnowledgeError(f"the cell cannot be read: {cell.reason}")
            if len(cell) > LONGEST:
                raise KnowledgeError(f"a cell may have {LONGEST} characters, it has {len(cell)}")
            if column.role == "feature":
                condition = parse_condition(cell, schema.features[column.index])
                if condition is not None:
                    conditions.append((column.index, condition))
            elif column.role == "then":
                chosen = parse_outcome(cell, schema.classes, kind)
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
        place=page.place(row),
    )
    return rule, confidence


def _priority(cell: str) -> float:
    plain = parse_condition(cell, Feature("priority"))
    text = format_condition(plain, Feature("priority"))
    if not text.startswith("= "):
        raise KnowledgeError(f"a priority is a number, 1 speaks first, got {short(cell)}")
    return float(text.removeprefix("= "))


def _is_filled(cell: SheetCell) -> bool:
    return isinstance(cell, Broken) or bool(cell.strip())


def _title(feature: Feature) -> str:
    return f"{feature.name} [{feature.unit}]" if feature.unit else feature.name


def _refusal(findings: Sequence[Finding]) -> KnowledgeError:
    first, more = findings[0], len(findings) - 1
    tail = f" (and {more} more)" if more else ""
    return KnowledgeError(f"{first.place}: {first.message}{tail}")
