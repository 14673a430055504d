"""Spreadsheets as text: CSV and XLSX in, rows of cells out. Nothing in a file is ever executed."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.files.dialect import find_separator
from ...core.files.text import HEAD_BYTES, marked_encoding
from ...core.files.workbook import SheetCell, openpyxl_package, parse_page
from ...errors import FedloreError, KnowledgeError
from ...kernel.findings import Place

_LARGEST = 32 * 2**20  # bytes, unpacked
MOST_CELLS = 2_000_000


@dataclass(frozen=True)
class Sheet:
    """One sheet as text; `rows` are numbered as the spreadsheet numbers them."""

    file: str
    name: str  # empty for CSV
    rows: tuple[tuple[int, tuple[SheetCell, ...]], ...]

    def place(self, row: int | None = None, column: str = "") -> Place:
        return Place(self.file, self.name, row, column)


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
    separator = find_separator(text[:HEAD_BYTES].splitlines(keepends=True)[:1])
    rows: list[tuple[int, tuple[SheetCell, ...]]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for index, row in enumerate(reader, 1):
            rows.append((index, tuple(row)))
    except csv.Error as error:
        place = Place(name, row=len(rows) + 1)
        raise KnowledgeError(f"{place}: not readable as CSV: {error}") from error
    return Sheet(name, "", tuple(rows))
