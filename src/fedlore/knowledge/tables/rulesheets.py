"""From a spreadsheet to a decision table and back, with every complaint at its cell."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.files.workbook import Broken, SheetCell
from ...errors import KnowledgeError, unknown
from ..findings import Finding
from ..schema import Feature, Schema
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
from .sheets import Sheet, read_sheet, write_sheet
from .table import POLICIES, Rule, Table, TablePolicy

OUTCOMES = ("then", "outcome", "range")  # names of the outcome column
EXTRAS = ("priority", "rule", "note")
MOST_RULES = 100_000
MOST_FINDINGS = 100

_HEADER = re.compile(r"([^\[\]]*?)\s*(?:\[([^\[\]]*)\])?")


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
    table, findings = examine_table(page, schema, kind=kind, policy=policy, outcome=outcome)
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


def table_cells(table: Table) -> list[list[str]]:
    """The table as text, header first: a canonical form, equal for equal tables."""
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


def check_written(table: Table) -> None:
    """Refuse a table whose cells, read again, would not be the same table."""
    rows = table_cells(table)
    page = Sheet(table.name, "", tuple((i, tuple(row)) for i, row in enumerate(rows, 1)))
    again, findings = examine_table(
        page, table.schema, kind=table.kind, policy=table.policy, outcome="then"
    )
    if again is None:  # a cell that would be too long, a feature called 'then'
        raise _refusal(findings)
    if again != table:
        raise KnowledgeError(f"{table.name}: names and notes must not begin or end with spaces")


def examine_table(
    page: Sheet,
    schema: Schema,
    *,
    kind: TableKind,
    policy: TablePolicy | None = None,
    outcome: str | None = None,
) -> tuple[Table | None, list[Finding]]:
    """A sheet as a table, or None and all that is wrong with it."""
    findings: list[Finding] = []
    rows = [(row, cells) for row, cells in page.rows if any(_is_filled(cell) for cell in cells)]
    if kind not in POLICIES:
        raise KnowledgeError(f"a table is of kind predict or range, got '{kind}'")
    if len(rows) < 2 or len(rows) > MOST_RULES + 1:  # with the header
        why = "has no rules" if len(rows) < 2 else f"has more than {MOST_RULES} rules"
        return None, [Finding("error", "size", f"the table {why}", page.place())]
    columns = _columns(page, rows[0], schema, outcome, findings)
    has_priority = any(column.role == "priority" for column in columns)
    if policy is None:
        policy = POLICIES[kind][0] if not (has_priority and kind == "predict") else "priority"
    if has_priority != (policy == "priority"):
        have = "has" if has_priority else "has no"
        message = f"the table {have} column 'priority' and the policy is {policy}"
        findings.append(Finding("error", "priority", message, page.place()))
    if findings:
        return None, findings
    rules = []
    for row, cells in rows[1:]:
        rules.append(_rule(page, row, cells, columns, schema, kind, findings))
        if len(findings) >= MOST_FINDINGS:
            break
    if findings:
        return None, findings
    return Table(schema, tuple(rules), kind, policy, page.file), []


@dataclass(frozen=True)
class _Column:
    role: str  # feature, then, priority, rule, note, or blank
    title: str
    index: int = -1  # of the feature


def _columns(
    page: Sheet,
    header: tuple[int, tuple[SheetCell, ...]],
    schema: Schema,
    outcome: str | None,
    findings: list[Finding],
) -> list[_Column]:
    row, cells = header
    columns = []
    for position, cell in enumerate(cells, 1):
        try:
            columns.append(_column(cell, schema, outcome))
            if [column.title for column in columns].count(columns[-1].title) > 1 and columns[
                -1
            ].title:
                raise KnowledgeError(f"column '{columns[-1].title}' is there twice")
        except KnowledgeError as error:
            title = cell if isinstance(cell, str) and cell.strip() else f"number {position}"
            findings.append(Finding("error", "header", str(error), page.place(row, title[:60])))
    found = [column.title for column in columns if column.role == "then"]
    if len(found) != 1 and not findings:
        wanted = f"'{outcome}'" if outcome else " or ".join(f"'{name}'" for name in OUTCOMES)
        message = f"there must be one outcome column, {wanted}, found {len(found)}"
        findings.append(Finding("error", "header", message, page.place(row)))
    return columns


def _column(cell: SheetCell, schema: Schema, outcome: str | None) -> _Column:
    if isinstance(cell, Broken):
        raise KnowledgeError(cell.reason)
    text = cell.strip()
    if not text:
        return _Column("blank", "")
    if len(text) > 200:
        raise KnowledgeError(f"a column name may have 200 characters, got {len(text)}")
    if outcome is not None and text == outcome:
        return _Column("then", text)
    parts = _HEADER.fullmatch(text)
    name, unit = (parts[1].strip(), parts[2]) if parts else (text, None)
    if name in schema.names:
        feature = schema.features[schema.column(name)]
        if unit is not None and unit.strip() != feature.unit:
            raise KnowledgeError(
                f"the unit is [{unit}], but '{name}' is declared in [{feature.unit}]"
            )
        return _Column("feature", name, schema.column(name))
    if outcome is None and name.lower() in OUTCOMES:
        return _Column("then", name)
    if name.lower() in EXTRAS:
        return _Column(name.lower(), name)
    wanted = OUTCOMES if outcome is None else (outcome,)
    raise KnowledgeError(unknown("column", name, (*schema.names, *wanted, *EXTRAS)))


def _rule(
    page: Sheet,
    row: int,
    cells: Sequence[SheetCell],
    columns: Sequence[_Column],
    schema: Schema,
    kind: TableKind,
    findings: list[Finding],
) -> Rule:
    conditions: list[tuple[int, Condition]] = []
    values: dict[str, str] = {}
    chosen: tuple[int, ...] = ()
    priority = 0.0
    if len(cells) < len(columns) or any(_is_filled(cell) for cell in cells[len(columns) :]):
        message = f"the row has {len(cells)} cells, the header {len(columns)}"
        findings.append(Finding("error", "cell", message, page.place(row)))
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
            elif column.role == "blank" and cell.strip():
                raise KnowledgeError(f"{short(cell)} stands in a column without a name")
            else:
                values[column.role] = cell.strip()
        except KnowledgeError as error:
            findings.append(Finding("error", "cell", str(error), page.place(row, column.title)))
    return Rule(
        conditions=tuple(sorted(conditions, key=lambda item: item[0])),
        outcome=chosen,
        priority=priority,
        name=values.get("rule", ""),
        note=values.get("note", ""),
        place=page.place(row),
    )


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
