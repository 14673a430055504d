"""Workbooks as text: one sheet of an XLSX file in, rows of cells out. Nothing is ever executed."""

import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, time, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import FedloreError
from ..kernel.sheets import Broken, SheetCell

SUFFIXES = (".xlsx", ".xlsm")


@dataclass(frozen=True)
class SheetPage:
    """One sheet; its rows are all there, from the first of the spreadsheet."""

    name: str
    rows: tuple[tuple[SheetCell, ...], ...]


def read_page(path: Path, sheet: str | None, *, largest: int, most_cells: int) -> SheetPage:
    """The named sheet of a workbook, or the first; `largest` bytes unpacked."""
    if path.stat().st_size > largest:
        raise FedloreError(f"{path.name}: the file is larger than {largest >> 20} MiB")
    return parse_page(path.read_bytes(), path.name, sheet, largest=largest, most_cells=most_cells)


def parse_page(
    data: bytes, file: str, sheet: str | None, *, largest: int, most_cells: int
) -> SheetPage:
    """The same from the bytes of a workbook."""
    openpyxl = openpyxl_package()
    content = io.BytesIO(data)  # openpyxl leaves a damaged file open
    try:
        with zipfile.ZipFile(content) as packed:
            size = sum(entry.file_size for entry in packed.infolist())
        if size > largest:
            raise FedloreError(f"{file}: unpacked it is larger than {largest >> 20} MiB")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # styles and validations that openpyxl leaves out
            page = _page(openpyxl.load_workbook(content), sheet, file, most_cells)
            rows = list(page.iter_rows())
            computed = None
            if any(cell.data_type == "f" for row in rows for cell in row):
                values = openpyxl.load_workbook(content, data_only=True)  # as Excel last saved them
                computed = list(_page(values, sheet, file, most_cells).iter_rows())
            merged = set(_merged_cells(page))
    except (FedloreError, OSError):
        raise
    except Exception as error:  # a damaged workbook can fail anywhere inside the reader
        raise FedloreError(
            f"{file}: not readable as XLSX: {type(error).__name__}: {str(error)[:200]}"
        ) from error
    texts = []
    for i, row in enumerate(rows):
        cells: list[SheetCell] = []
        for j, cell in enumerate(row):
            if (i + 1, j + 1) in merged:
                cells.append(Broken("it is part of a merged cell: repeat the value instead"))
            elif cell.data_type == "f":
                cells.append(_formula(computed, i, j))
            else:
                cells.append(_text(cell))
        texts.append(tuple(cells))
    return SheetPage(page.title, tuple(texts))


def openpyxl_package() -> Any:
    try:
        return import_module("openpyxl")
    except ImportError as error:
        raise FedloreError("XLSX tables need: pip install 'fedlore[xlsx]'") from error


def _page(book: Any, sheet: str | None, file: str, most_cells: int) -> Any:
    names = [page.title for page in book.worksheets]
    if not names or (sheet is not None and sheet not in names):
        raise FedloreError(f"{file}: there is no sheet '{sheet}'; it has: {', '.join(names)}")
    page = book.worksheets[0] if sheet is None else book[sheet]
    if page.max_row * page.max_column > most_cells:
        raise FedloreError(
            f"{file}, sheet '{page.title}': {page.max_row} rows and {page.max_column} columns are "
            "too many; a stray cell far out may be the reason"
        )
    return page


def _merged_cells(page: Any) -> Iterator[tuple[int, int]]:
    """Cells hidden under a merged one: they would read as empty, that is as `any`."""
    for area in page.merged_cells.ranges:
        for row in range(area.min_row, min(area.max_row, page.max_row) + 1):
            for column in range(area.min_col, min(area.max_col, page.max_column) + 1):
                if (row, column) != (area.min_row, area.min_col):
                    yield row, column


def _formula(computed: Any, row: int, column: int) -> SheetCell:
    value = computed[row][column] if computed is not None else None
    if value is None or value.value is None:
        return Broken("it holds a formula without a stored result: write the value itself")
    return _text(value)


def _text(cell: Any) -> SheetCell:
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
                "a plain number",
                str(value),
            )
        return repr(value).removesuffix(".0")  # reads back as the same number
    if isinstance(value, date | time | timedelta):
        return Broken("the spreadsheet made a date of it: format the cell as text", str(value))
    return value if isinstance(value, str) else Broken("it holds neither text nor a number")
