"""CSV and TSV files: by pyarrow where it is installed, else cell by cell, several times slower."""

import csv
import importlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.files.dialect import Dialect
from ...core.files.text import find_dialect, open_text
from ...errors import FedloreError
from . import source
from .cells import BLANK
from .problems import Stumbled
from .source import FileForm, OnProgress, RowBatch

_BYTES = 8 << 20  # of a file at a time, for pyarrow
CELL_BY_CELL = (
    2 << 20
)  # bytes of a file up to which it is read cell by cell: pyarrow alone takes 50 MB
BROKEN = (csv.Error, UnicodeError, OSError, EOFError, zlib.error)  # what a bad file raises


@dataclass(frozen=True)
class TextFile:
    """A table of text; `fast` reads it with pyarrow."""

    path: Path
    dialect: Dialect
    titles: Sequence[str]
    header: int  # the row of the titles, counted from 1
    fast: bool
    units: Mapping[int, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"'{self.path}'"

    @property
    def decimal(self) -> str:
        return self.dialect.decimal

    @property
    def said(self) -> str:
        return self.dialect.said

    def batches(
        self, columns: Sequence[int], words: Sequence[int], on_progress: OnProgress
    ) -> Iterator[RowBatch]:
        if self.fast:
            return _arrow_batches(self, columns, words, on_progress)
        return _plain_batches(self, columns, on_progress)


def open_text_file(path: Path, form: FileForm, *, fast: bool = True) -> TextFile:
    """A CSV or TSV file, with the way it is written found out where the form leaves it open."""
    if form.sheet is not None:
        raise FedloreError(f"'{path}': a file of text has no sheet '{form.sheet}'")
    dialect = find_dialect(
        path, separator=form.separator, decimal=form.decimal, encoding=form.encoding
    )
    for number, cells in _records(path, dialect):
        if any(cell.strip() for cell in cells):
            large = path.stat().st_size > CELL_BY_CELL
            quick = fast and large and number == 1 and arrow("csv") is not None
            return TextFile(path, dialect, cells, number, quick)
    raise FedloreError(f"'{path}' is empty: a table begins with the names of its columns")


def arrow(part: str) -> Any:
    """A part of pyarrow, or None where it is not installed."""
    try:
        return importlib.import_module(f"pyarrow.{part}")
    except ImportError:
        return None


def _records(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Rows with their numbers; a cell with line breaks is still one row, as in a spreadsheet."""
    with open_text(path, dialect.encoding) as lines:
        try:
            yield from enumerate(csv.reader(lines, delimiter=dialect.separator), 1)
        except BROKEN as error:
            raise FedloreError(f"'{path}' is not a table of text: {error}") from None


def _plain_batches(
    file: TextFile, columns: Sequence[int], on_progress: OnProgress
) -> Iterator[RowBatch]:
    width = len(file.titles)
    rows: list[list[str]] = []
    lines: list[int] = []
    odd: dict[int, str] = {}

    def batch() -> RowBatch:
        found = RowBatch([[row[i] for row in rows] for i in columns], tuple(lines), dict(odd))
        for some in (rows, lines, odd):
            some.clear()
        return found

    for number, cells in _records(file.path, file.dialect):
        if number <= file.header or not any(cell.strip() for cell in cells):
            continue
        if len(cells) == width:
            rows.append(cells)
            lines.append(number)
        else:
            odd[number] = f" has {len(cells)} cells, the header has {width}"
        if len(rows) + len(odd) == source.ROWS_AT_ONCE:
            yield batch()
            on_progress(0.0)
    if rows or odd:
        yield batch()


def _arrow_batches(
    file: TextFile, columns: Sequence[int], words: Sequence[int], on_progress: OnProgress
) -> Iterator[RowBatch]:
    pa: Any = importlib.import_module("pyarrow")
    reader = arrow("csv")
    # by position: titles may be doubled, and one with line breaks would not be skipped as a line
    types = {str(i): pa.string() if i in words else pa.float64() for i in columns}
    options = {
        "read_options": reader.ReadOptions(
            use_threads=False,
            block_size=_BYTES,
            column_names=[str(i) for i in range(len(file.titles))],
            skip_rows_after_names=1,
            encoding="utf8" if file.dialect.encoding == "utf-8-sig" else file.dialect.encoding,
        ),
        "parse_options": reader.ParseOptions(
            delimiter=file.dialect.separator, newlines_in_values=True
        ),
        "convert_options": reader.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=list(BLANK),
            strings_can_be_null=False,  # NA may be the name of a level
            decimal_point=file.dialect.decimal,
        ),
    }
    size, row = max(file.path.stat().st_size, 1), 2
    packed = file.path.suffix.lower() == ".gz"
    with pa.OSFile(str(file.path)) as raw:
        stream = pa.CompressedInputStream(raw, "gzip") if packed else raw
        try:
            with reader.open_csv(stream, **options) as batches:
                for batch in batches:
                    if batch.num_rows:
                        where = batch.schema.get_field_index
                        found = [batch.column(where(str(i))) for i in columns]
                        cells = [column.to_numpy(zero_copy_only=False) for column in found]
                        yield RowBatch(cells, range(row, row + batch.num_rows))
                        row += batch.num_rows
                    on_progress(min(raw.tell() / size, 1.0))
        except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeError, OSError) as error:
            raise Stumbled(f"{file.place} is not a regular table: {error}") from None
