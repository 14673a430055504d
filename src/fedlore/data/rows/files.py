"""Where rows come from, behind one protocol: CSV, Parquet, workbooks, JSON, frames in memory.

Text is read by pyarrow where it is installed, else cell by cell, several times slower.
"""

import csv
import importlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from ...core.textfiles import Dialect, find_dialect, open_text
from ...core.workbooks import read_page
from ...errors import ConfigError, FedloreError
from ...kernel.schema import Schema
from .cells import BLANK, Stumbled, refusal

ROWS_AT_ONCE = 65_536  # rows at a time

OnProgress = Callable[[float], None]  # the share of the file that has been read


@dataclass(frozen=True)
class FileForm:
    """How a file is to be read, where that is not to be found out."""

    separator: str | None = None  # one of , ; tab |
    decimal: str | None = None  # . or ,
    encoding: str | None = None  # such as latin-1; None: found out
    sheet: str | None = None  # of a workbook; the first otherwise

    def __post_init__(self) -> None:
        if self.separator in ("tab", "\\t"):
            object.__setattr__(self, "separator", "\t")
        if self.separator not in (None, ",", ";", "\t", "|"):
            raise ConfigError(f"separator must be one of , ; tab |, got '{self.separator}'")
        if self.decimal not in (None, ".", ","):
            raise ConfigError(f"decimal must be . or , got '{self.decimal}'")


@dataclass(frozen=True)
class RowBatch:
    """Some rows: the columns asked for, and the number of each row as its owner sees it."""

    columns: Sequence[Any]
    lines: Sequence[int]
    odd: Mapping[int, str] = field(default_factory=dict)  # rows without the right cells, by number


class RowSource(Protocol):
    """A table that can be read, more than once."""

    @property
    def place(self) -> str:
        """What messages call it; empty for rows in memory."""

    @property
    def titles(self) -> Sequence[str]: ...

    @property
    def units(self) -> Mapping[int, str]:
        """Units that are told beside the titles, by position."""

    @property
    def decimal(self) -> str: ...

    @property
    def said(self) -> str:
        """How the file was taken to be written, where that is worth a sentence."""

    @property
    def fast(self) -> bool:
        """Whether a fault is better placed by a second, slower look."""

    def batches(
        self, columns: Sequence[int], words: Sequence[int], on_progress: OnProgress
    ) -> Iterator[RowBatch]:
        """The columns at these positions; those in `words` hold text."""


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
        if len(rows) + len(odd) == ROWS_AT_ONCE:
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


BUFFER = 1 << 18  # bytes of each column at a time: a row group may be the whole file


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file; its rows are counted as if its titles stood above them."""

    path: Path
    titles: Sequence[str]
    units: Mapping[int, str]  # a column may say its unit beside its type
    decimal: str = "."
    said: str = ""
    fast: bool = False

    @property
    def place(self) -> str:
        return f"'{self.path}'"

    def batches(
        self, columns: Sequence[int], words: Sequence[int], on_progress: OnProgress
    ) -> Iterator[RowBatch]:
        # not buffered ahead: that would hold all of a row group beside its rows
        with _package().ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False) as file:
            total, row = max(file.metadata.num_rows, 1), 2
            names = list(dict.fromkeys(self.titles[i] for i in columns))
            batches = file.iter_batches(batch_size=ROWS_AT_ONCE, columns=names, use_threads=False)
            while True:
                try:
                    batch = next(batches, None)
                except (OSError, ValueError) as error:
                    raise FedloreError(f"cannot read {self.place}: {error}") from None
                if batch is None:
                    break
                where = batch.schema.get_field_index
                found = [batch.column(where(self.titles[i])) for i in columns]
                cells = [column.to_numpy(zero_copy_only=False) for column in found]
                yield RowBatch(cells, range(row, row + batch.num_rows))
                row += batch.num_rows
                on_progress((row - 2) / total)


def open_parquet(path: Path, form: FileForm) -> ParquetFile:
    """A Parquet file, which needs no more than its path."""
    if form.sheet is not None:
        raise FedloreError(f"'{path}': a Parquet file has no sheet '{form.sheet}'")
    package = _package()
    try:
        schema = package.read_schema(path)
    except (OSError, ValueError) as error:  # the latter for a file that is no Parquet
        raise FedloreError(f"cannot read '{path}': {error}") from None
    units = {}
    for i, name in enumerate(schema.names):
        stated = (schema.field(i).metadata or {}).get(b"unit")
        if stated is not None:
            units[i] = stated.decode("utf-8", "replace").strip()
        if schema.names.count(name) > 1:
            raise FedloreError(f"'{path}': the column '{name}' is there twice")
    return ParquetFile(path, list(schema.names), units)


def _package() -> Any:
    found = arrow("parquet")
    if found is None:
        raise FedloreError("Parquet files need: pip install 'fedlore[parquet]'")
    return found


LARGEST_BOOK = 1 << 29  # bytes of a workbook, unpacked
MOST_BOOK_CELLS = 50_000_000


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns in memory. Records, which have no header, are counted from 1, all else from 2."""

    titles: Sequence[str]
    cells: Sequence[Any]  # by column
    lines: Sequence[int]
    place: str = ""
    decimal: str = "."
    units: Mapping[int, str] = field(default_factory=dict)
    said: str = ""
    fast: bool = False

    def batches(
        self, columns: Sequence[int], words: Sequence[int], on_progress: OnProgress
    ) -> Iterator[RowBatch]:
        for start in range(0, len(self.lines), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            yield RowBatch([self.cells[i][part] for i in columns], self.lines[part])
            on_progress(min(part.stop / len(self.lines), 1.0))


def frame_of(data: Any, schema: Schema) -> Frame:
    """Whatever has named columns; arrays and tensors have the schema's, in its order."""
    if isinstance(data, Tensor | np.ndarray):
        return _nameless(np.asarray(data), schema)
    if isinstance(data, Mapping):
        if any(_is_column(value) for value in data.values()):
            return _columns({str(name): value for name, value in data.items()})
        return frame_of_records([data])
    if hasattr(data, "column_names") and hasattr(data, "column"):  # pyarrow
        names = data.column_names
        return _columns({n: data.column(n).to_numpy(zero_copy_only=False) for n in names})
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):  # pandas, polars
        return _columns({str(name): np.asarray(data[name]) for name in data.columns})
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__"):
        return frame_of(_interchange(data), schema)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return frame_of_records(data)
    raise FedloreError(
        f"rows must be records, columns by name, or a frame, got {type(data).__name__}"
    )


def frame_of_records(
    records: Sequence[Any], *, place: str = "", lines: Sequence[int] | None = None
) -> Frame:
    """Records as columns; what one record lacks is missing there."""
    numbers = range(1, len(records) + 1) if lines is None else lines
    odd = [
        f"row {number} must be a record of named values, got {record!r:.60}"
        for number, record in zip(numbers, records, strict=True)
        if not isinstance(record, Mapping)
    ]
    if odd:
        raise refusal(place, odd)
    names = dict.fromkeys(name for record in records for name in record)
    cells = [[record.get(name) for record in records] for name in names]
    return Frame([str(name) for name in names], cells, numbers, place)


def open_workbook(path: Path, form: FileForm) -> Frame:
    """One sheet of an XLSX file; empty rows are passed over, but counted."""
    try:
        page = read_page(path, form.sheet, largest=LARGEST_BOOK, most_cells=MOST_BOOK_CELLS)
    except OSError as error:
        raise FedloreError(f"cannot read '{path}': {error.strerror}") from None
    place = f"'{path}', sheet '{page.name}'"
    filled = [(i, row) for i, row in enumerate(page.rows, 1) if any(cell != "" for cell in row)]
    if not filled:
        raise FedloreError(f"{place} is empty: a table begins with the names of its columns")
    (_, header), *rows = filled
    titles = [cell if isinstance(cell, str) else "" for cell in header]
    cells = [[row[i] for _, row in rows] for i in range(len(titles))]
    return Frame(titles, cells, [i for i, _ in rows], place, form.decimal or ".")


def open_json(path: Path, form: FileForm) -> Frame:
    """A list of records, an object of columns, or one record a line (.jsonl)."""
    place = f"'{path}'"
    try:
        text = path.read_text(encoding=form.encoding or "utf-8-sig")
        if path.suffix.lower() == ".jsonl":
            numbered = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
            records = [json.loads(line) for _, line in numbered]
            return frame_of_records(records, place=place, lines=[i for i, _ in numbered])
        data = json.loads(text)
    except OSError as error:
        raise FedloreError(f"cannot read {place}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise FedloreError(f"{place} is not JSON: {error}") from None
    if isinstance(data, dict) and any(isinstance(value, list) for value in data.values()):
        return _columns(data, place)
    if not isinstance(data, list | dict):
        raise FedloreError(f"{place} must hold a list of records, or an object of columns")
    return frame_of_records(data if isinstance(data, list) else [data], place=place)


def _columns(columns: Mapping[str, Any], place: str = "") -> Frame:
    ready = {}
    for name, cells in columns.items():
        column: Any = cells if isinstance(cells, list | tuple) else np.asarray(cells)
        if not _is_column(cells) or (isinstance(column, np.ndarray) and column.ndim != 1):
            raise FedloreError(f"{place or 'rows'}: the column '{name}' must be a list of values")
        ready[name] = column
    lengths = {name: len(cells) for name, cells in ready.items()}
    if len(set(lengths.values())) > 1:
        lines = ", ".join(f"'{name}' {length}" for name, length in lengths.items())
        raise FedloreError(f"{place or 'rows'}: the columns differ in length: {lines}")
    n = next(iter(lengths.values()), 0)
    return Frame(list(ready), list(ready.values()), range(2, n + 2), place)


def _nameless(rows: np.ndarray, schema: Schema) -> Frame:
    d = len(schema.features)
    if rows.ndim != 2 or rows.shape[1] != d:
        raise FedloreError(f"rows must have {d} columns, got shape {tuple(rows.shape)}")
    cells: list[Any] = []
    for feature, column in zip(schema.features, rows.T, strict=True):
        # an array of numbers holds the positions of levels, as every tensor does
        coded = feature.levels and column.dtype.kind in "fiu"
        cells.append(_named_levels(column, feature.levels) if coded else column)
    return Frame(schema.names, cells, range(2, len(rows) + 2))


def _named_levels(column: np.ndarray, levels: Sequence[str]) -> list[Any]:
    place = {float(i): level for i, level in enumerate(levels)}
    return [place.get(value, value) for value in column.astype(np.float64).tolist()]


def _interchange(data: Any) -> Any:
    if hasattr(data, "__arrow_c_stream__") and arrow("lib") is not None:
        return arrow("lib").table(data)
    if hasattr(data, "__dataframe__") and arrow("interchange") is not None:
        return arrow("interchange").from_dataframe(data)
    raise FedloreError("this kind of frame needs: pip install 'fedlore[parquet]'")


def _is_column(value: Any) -> bool:
    listed = isinstance(value, Sequence | np.ndarray | Tensor) or hasattr(value, "to_numpy")
    return listed and not isinstance(value, str | bytes)
