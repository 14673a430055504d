"""Decision tables from CSV and XLSX files, and back. Nothing in a file is ever executed."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Required, TypedDict, Unpack

from ...core.textfiles import marked_encoding
from ...core.workbooks import openpyxl_package, parse_page
from ...errors import FedloreError, KnowledgeError
from ...kernel.cells import TableKind, number
from ...kernel.findings import Finding
from ...kernel.schema import Schema
from ...kernel.sheets import Sheet, TablePolicy, examine_rules, parse_csv, refusal
from .soft import SoftTable
from .table import Table

_LARGEST = 32 * 2**20  # bytes, unpacked
MOST_CELLS = 2_000_000


class TableReading(TypedDict, total=False):
    """How a sheet is read as rules."""

    kind: Required[TableKind]
    policy: TablePolicy | None  # by default as the kind and the columns have it
    outcome: str | None  # the title of the outcome's column, where it is not `then`
    dated: bool  # whether its rules may have dates: they are read, and never asked


def read_rules(
    path: str | Path, schema: Schema, *, sheet: str | None = None, **reading: Unpack[TableReading]
) -> Table:
    """Read a decision table from CSV or XLSX; the first fault found is raised with its place.

    The default policy is `intersect` for ranges; for predictions `priority` where the table has
    such a column, else `first`.
    """
    return parse_table(read_sheet(path, sheet=sheet), schema, **reading)


def parse_table(page: Sheet, schema: Schema, **reading: Unpack[TableReading]) -> Table:
    """A sheet as a table; the first fault found is raised with its place."""
    table, findings = examine_table(page, schema, **reading)
    if table is None:
        raise refusal(findings)
    if isinstance(table, SoftTable):
        soft = [i for i, confidence in enumerate(table.confidences) if confidence < 1]
        raise KnowledgeError(
            f"{page.place()}: {table.table.labels(soft)} hold in most cases only, and here every "
            "rule must always hold: leave the column 'confidence' out, or name the table in a "
            "knowledge file about classes"
        )
    return table


def table_of(
    rows: Iterable[Mapping[str, str | float]],
    schema: Schema,
    *,
    name: str = "table",
    **reading: Unpack[TableReading],
) -> Table:
    """A decision table from rows of cells, such as {"ash": "> 12", "then": "II"}."""
    written = [
        {key: cell if isinstance(cell, str) else number(cell) for key, cell in row.items()}
        for row in rows
    ]
    header = list(dict.fromkeys(key for row in written for key in row))
    lines = [tuple(row.get(key, "") for key in header) for row in written]
    page = Sheet(name, "", tuple(enumerate([tuple(header), *lines])))  # the first rule is row 1
    return parse_table(page, schema, **reading)


def write_table(table: Table, path: str | Path) -> None:
    """Write a table to CSV or XLSX so that reading it gives an equal one."""
    check_written(table)
    write_sheet(table.cells(), path)


def check_written(model: Table | SoftTable) -> None:
    """Refuse a table whose cells, read again, would not be the same table."""
    rows, table = model.cells(), model.table
    page = Sheet(table.name, "", tuple((i, tuple(row)) for i, row in enumerate(rows, 1)))
    again, findings = examine_table(
        page, table.schema, kind=table.kind, policy=table.policy, outcome="then", dated=True
    )
    if again is None:  # a cell that would be too long, a feature called 'then'
        raise refusal(findings)
    if again != model:
        raise KnowledgeError(f"{table.name}: names and notes must not begin or end with spaces")


def examine_table(
    page: Sheet,
    schema: Schema,
    *,
    confidence: float | None = None,
    **reading: Unpack[TableReading],
) -> tuple[Table | SoftTable | None, list[Finding]]:
    """A sheet as a table, or None and all that is wrong with it.

    Rules may hold in most cases only; `confidence` is of those that say none.
    """
    found, findings = examine_rules(
        page, schema.features, schema.classes, confidence=confidence, **reading
    )
    if found is None:
        return None, findings
    table = Table(schema, found.rules, reading["kind"], found.policy, page.file)
    return SoftTable(table, found.confidences) if min(found.confidences) < 1.0 else table, []


def read_sheet(path: str | Path, *, sheet: str | None = None) -> Sheet:
    """Read a CSV or XLSX file; of a workbook the named sheet, or the first."""
    path = Path(path)
    _kind(path.name)
    try:
        _check_size(path.stat().st_size, path.name)
        data = path.read_bytes()
    except OSError as error:
        raise KnowledgeError(f"{path.name}: cannot be opened: {error.strerror}") from error
    return parse_sheet(data, path.name, sheet=sheet)


def parse_sheet(data: bytes, name: str, *, sheet: str | None = None) -> Sheet:
    """The bytes of a CSV or XLSX file, told apart by its name."""
    _check_size(len(data), name)
    if _kind(name) in (".csv", ".tsv"):
        if sheet is not None:
            raise KnowledgeError(f"{name}: a CSV file has no sheet '{sheet}'")
        return _read_csv(data, name)
    try:
        page = parse_page(data, name, sheet, largest=_LARGEST, most_cells=MOST_CELLS)
    except FedloreError as error:
        raise KnowledgeError(str(error)) from error
    return Sheet(name, page.name, tuple(enumerate(page.rows, 1)))


def csv_bytes(rows: Iterable[Sequence[str]]) -> bytes:
    """Text cells as the bytes of a .csv file."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def write_sheet(rows: Iterable[Sequence[str]], path: str | Path) -> None:
    """Write text cells to a .csv or .xlsx file."""
    path = Path(path)
    if path.suffix.lower() == ".csv":
        path.write_bytes(csv_bytes(rows))
    elif path.suffix.lower() == ".xlsx":
        book = openpyxl_package().Workbook()
        for i, row in enumerate(rows, 1):
            for j, text in enumerate(row, 1):
                cell = book.active.cell(i, j, text or None)
                if text:
                    cell.data_type = "s"  # else `= 3` would become a formula
        book.save(path)
    else:
        raise KnowledgeError(f"{path.name}: a table is written to a .csv or .xlsx file")


def _kind(name: str) -> str:
    kind = Path(name).suffix.lower()
    if kind not in (".csv", ".tsv", ".xlsx", ".xlsm"):
        raise KnowledgeError(f"{name}: a table must be a .csv or .xlsx file")
    return kind


def _check_size(size: int, name: str) -> None:
    if size > _LARGEST:
        raise KnowledgeError(f"{name}: the file is larger than {_LARGEST >> 20} MiB")


def _read_csv(data: bytes, name: str) -> Sheet:
    # a rule in a mistaken encoding would be another rule: nothing but Unicode is guessed here
    try:
        text = data.decode(marked_encoding(data) or "utf-8")
    except UnicodeDecodeError as error:
        raise KnowledgeError(
            f"{name}: the text is not UTF-8 (byte {error.start}): save it as 'CSV UTF-8'"
        ) from error
    return parse_csv(text, name)
