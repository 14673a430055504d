"""Spreadsheets as text: CSV and XLSX in, rows of cells out. Nothing in a file is ever executed."""

import csv
import io
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import KnowledgeError
from ..findings import Place
from .cells import number

LARGEST = 32 * 2**20  # bytes, unpacked
MOST_CELLS = 2_000_000


@dataclass(frozen=True)
class Broken:
    """A cell that holds something other than text or a plain number, and why it is refused."""

    reason: str


Cell = str | Broken


@dataclass(frozen=True)
class Sheet:
    """One sheet as text; `rows` are numbered as the spreadsheet numbers them."""

    file: str
    name: str  # empty for CSV
    rows: tuple[tuple[int, tuple[Cell, ...]], ...]

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
    return _read_xlsx(data, name, sheet)


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
        book = _openpyxl().Workbook()
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
    if size > LARGEST:
        raise KnowledgeError(f"{name}: the file is larger than {LARGEST >> 20} MiB")


def _read_csv(data: bytes, name: str) -> Sheet:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise KnowledgeError(
            f"{name}: the text is not UTF-8 (byte {error.start}): save it as 'CSV UTF-8'"
        ) from error
    header = text.partition("\n")[0]
    separator = max(",;\t", key=header.count)  # Excel writes ; where the decimal mark is a comma
    rows: list[tuple[int, tuple[Cell, ...]]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for index, row in enumerate(reader, 1):
            rows.append((index, tuple(row)))
    except csv.Error as error:
        place = Place(name, row=len(rows) + 1)
        raise KnowledgeError(f"{place}: not readable as CSV: {error}") from error
    return Sheet(name, "", tuple(rows))


def _read_xlsx(data: bytes, name: str, sheet: str | None) -> Sheet:
    openpyxl = _openpyxl()
    content = io.BytesIO(data)  # openpyxl leaves a damaged file open
    try:
        with zipfile.ZipFile(content) as packed:
            size = sum(entry.file_size for entry in packed.infolist())
        if size > LARGEST:
            raise KnowledgeError(f"{name}: unpacked it is larger than {LARGEST >> 20} MiB")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # styles and validations that openpyxl leaves out
            page = _page(openpyxl.load_workbook(content), sheet, name)
            rows = list(page.iter_rows())
            computed = None
            if any(cell.data_type == "f" for row in rows for cell in row):
                values = openpyxl.load_workbook(content, data_only=True)  # as Excel last saved them
                computed = list(_page(values, sheet, name).iter_rows())
            merged = set(_merged(page))
    except (KnowledgeError, OSError):
        raise
    except Exception as error:  # a damaged workbook can fail anywhere inside the reader
        raise KnowledgeError(
            f"{name}: not readable as XLSX: {type(error).__name__}: {str(error)[:200]}"
        ) from error
    texts = []
    for i, row in enumerate(rows):
        cells: list[Cell] = []
        for j, cell in enumerate(row):
            if (i + 1, j + 1) in merged:
                cells.append(Broken("it is part of a merged cell: repeat the value instead"))
            elif cell.data_type == "f":
                cells.append(_formula(computed, i, j))
            else:
                cells.append(_text(cell))
        texts.append((i + 1, tuple(cells)))
    return Sheet(name, page.title, tuple(texts))


def _page(book: Any, sheet: str | None, file: str) -> Any:
    names = [page.title for page in book.worksheets]
    if not names or (sheet is not None and sheet not in names):
        raise KnowledgeError(f"{file}: there is no sheet '{sheet}'; it has: {', '.join(names)}")
    page = book.worksheets[0] if sheet is None else book[sheet]
    if page.max_row * page.max_column > MOST_CELLS:
        raise KnowledgeError(
            f"{file}, sheet '{page.title}': {page.max_row} rows and {page.max_column} columns are "
            "too many; a stray cell far out may be the reason"
        )
    return page


def _merged(page: Any) -> Iterator[tuple[int, int]]:
    """Cells hidden under a merged one: they would read as empty, that is as `any`."""
    for area in page.merged_cells.ranges:
        for row in range(area.min_row, min(area.max_row, page.max_row) + 1):
            for column in range(area.min_col, min(area.max_col, page.max_column) + 1):
                if (row, column) != (area.min_row, area.min_col):
                    yield row, column


def _formula(computed: Any, row: int, column: int) -> Cell:
    value = computed[row][column] if computed is not None else None
    if value is None or value.value is None:
        return Broken("it holds a formula without a stored result: write the value itself")
    return _text(value)


def _text(cell: Any) -> Cell:
    value = cell.value
    if value is None:
        return ""
    if cell.data_type == "e":
        return Broken(f"it holds the spreadsheet error {value}")
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        shown = re.sub(r'"[^"]*"|\\.', "", cell.number_format or "")
        if "%" in shown:
            return Broken(
                f"it is formatted as a percentage, and {value} is not what it shows: format it as "
                "a plain number"
            )
        return str(value) if isinstance(value, int) else number(value)
    if isinstance(value, date | time | timedelta):
        return Broken("the spreadsheet made a date of it: format the cell as text")
    return value if isinstance(value, str) else Broken("it holds neither text nor a number")


def _openpyxl() -> Any:
    try:
        return import_module("openpyxl")
    except ImportError as error:
        raise KnowledgeError("XLSX tables need: pip install 'fedlore[xlsx]'") from error
