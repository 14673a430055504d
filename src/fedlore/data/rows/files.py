"""Where rows come from, behind one protocol: CSV, Parquet, workbooks, JSON, frames in memory.

Text is read by pyarrow where it is installed, else cell by cell, several times slower.
"""

import csv
import importlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ...core.textfiles import Dialect, find_dialect, open_text
from ...core.workbooks import read_page
from ...errors import ConfigError, FedloreError
from ...kernel.answers import convert
from ...kernel.schema import Feature, Schema
from ...kernel.sheets import Broken
from .cells import BLANK, UNUSABLE, Stumbled, name_and_unit, number_cells, refusal

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


@dataclass(frozen=True, eq=False)
class RowSource:
    """A table that can be read, more than once.

    `batches` gives the columns at the positions asked for; second are those that hold text.
    """

    titles: Sequence[str]
    batches: Callable[[Sequence[int], Sequence[int], OnProgress], Iterator[RowBatch]]
    place: str = ""  # what messages call it; empty for rows in memory
    decimal: str = "."
    units: Mapping[int, str] = field(default_factory=dict)  # stated next to the titles, by position
    said: str = ""  # how the file was taken to be written, where that is worth a sentence
    fast: bool = False  # whether a fault is better placed by a second, slower look


_BYTES = 8 << 20  # of a file at a time, for pyarrow
CELL_BY_CELL = 2 << 20  # bytes up to which a file is read cell by cell: pyarrow takes 50 MB
BROKEN = (csv.Error, UnicodeError, OSError, EOFError, zlib.error)  # what a bad file raises


def open_text_file(path: Path, form: FileForm, *, fast: bool = True) -> RowSource:
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
            read = _arrow_batches if quick else partial(_plain_batches, header=number)
            batches = partial(read, path, dialect, len(cells))
            said, decimal = dialect.differences, dialect.decimal
            return RowSource(cells, batches, f"'{path}'", decimal, said=said, fast=quick)
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
    path: Path,
    dialect: Dialect,
    width: int,
    columns: Sequence[int],
    words: Sequence[int],
    on_progress: OnProgress,
    *,
    header: int,  # the row of the titles, counted from 1
) -> Iterator[RowBatch]:
    rows: list[list[str]] = []
    lines: list[int] = []
    odd: dict[int, str] = {}

    def batch() -> RowBatch:
        found = RowBatch([[row[i] for row in rows] for i in columns], tuple(lines), dict(odd))
        for some in (rows, lines, odd):
            some.clear()
        return found

    for number, cells in _records(path, dialect):
        if number <= header or not any(cell.strip() for cell in cells):
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
    path: Path,
    dialect: Dialect,
    width: int,
    columns: Sequence[int],
    words: Sequence[int],
    on_progress: OnProgress,
) -> Iterator[RowBatch]:
    pa: Any = importlib.import_module("pyarrow")
    reader = arrow("csv")
    # by position: titles may be doubled, and one with line breaks would not be skipped as a line
    types = {str(i): pa.string() if i in words else pa.float64() for i in columns}
    options = {
        "read_options": reader.ReadOptions(
            use_threads=False,
            block_size=_BYTES,
            column_names=[str(i) for i in range(width)],
            skip_rows_after_names=1,
            encoding="utf8" if dialect.encoding == "utf-8-sig" else dialect.encoding,
        ),
        "parse_options": reader.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
        "convert_options": reader.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=list(BLANK),
            strings_can_be_null=False,  # NA may be the name of a level
            decimal_point=dialect.decimal,
        ),
    }
    size, row = max(path.stat().st_size, 1), 2
    packed = path.suffix.lower() == ".gz"
    with pa.OSFile(str(path)) as raw:
        stream = pa.CompressedInputStream(raw, "gzip") if packed else raw
        try:
            with reader.open_csv(stream, **options) as batches:
                for batch in batches:
                    if batch.num_rows:
                        yield _arrow_batch(batch, [str(i) for i in columns], row)
                        row += batch.num_rows
                    on_progress(min(raw.tell() / size, 1.0))
        except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeError, OSError) as error:
            raise Stumbled(f"'{path}' is not a regular table: {error}") from None


BUFFER = 1 << 18  # bytes of each column at a time: a row group may be the whole file


def open_parquet(path: Path, form: FileForm) -> RowSource:
    """A Parquet file, which needs no more than its path; its rows are counted below its titles."""
    if form.sheet is not None:
        raise FedloreError(f"'{path}': a Parquet file has no sheet '{form.sheet}'")
    package = _package()
    try:
        schema = package.read_schema(path)
    except (OSError, ValueError) as error:  # the latter for a file that is no Parquet
        raise FedloreError(f"cannot read '{path}': {error}") from None
    units = {}  # a column may say its unit beside its type
    for i, name in enumerate(schema.names):
        stated = (schema.field(i).metadata or {}).get(b"unit")
        if stated is not None:
            units[i] = stated.decode("utf-8", "replace").strip()
        if schema.names.count(name) > 1:
            raise FedloreError(f"'{path}': the column '{name}' is there twice")
    titles = list(schema.names)
    return RowSource(titles, partial(_parquet_batches, path, titles), f"'{path}'", units=units)


def _parquet_batches(
    path: Path,
    titles: Sequence[str],
    columns: Sequence[int],
    words: Sequence[int],
    on_progress: OnProgress,
) -> Iterator[RowBatch]:
    # not buffered ahead: that would hold all of a row group beside its rows
    with _package().ParquetFile(path, buffer_size=BUFFER, pre_buffer=False) as file:
        total, row = max(file.metadata.num_rows, 1), 2
        names = list(dict.fromkeys(titles[i] for i in columns))
        batches = file.iter_batches(batch_size=ROWS_AT_ONCE, columns=names, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
            except (OSError, ValueError) as error:
                raise FedloreError(f"cannot read '{path}': {error}") from None
            if batch is None:
                break
            yield _arrow_batch(batch, [titles[i] for i in columns], row)
            row += batch.num_rows
            on_progress((row - 2) / total)


def _arrow_batch(batch: Any, names: Sequence[str], row: int) -> RowBatch:
    """The named columns of a batch of pyarrow's, whose first row has this number."""
    found = [batch.column(batch.schema.get_field_index(name)) for name in names]
    cells = [column.to_numpy(zero_copy_only=False) for column in found]
    return RowBatch(cells, range(row, row + batch.num_rows))


def _package() -> Any:
    found = arrow("parquet")
    if found is None:
        raise FedloreError("Parquet files need: pip install 'fedlore[parquet]'")
    return found


LARGEST_BOOK = 1 << 29  # bytes of a workbook, unpacked
MOST_BOOK_CELLS = 50_000_000


def _in_memory(
    titles: Sequence[str],
    cells: Sequence[Any],  # by column
    lines: Sequence[int],
    place: str = "",
    decimal: str = ".",
) -> RowSource:
    """Columns in memory. Records, which have no header, are counted from 1, all else from 2."""

    def batches(
        columns: Sequence[int], words: Sequence[int], on_progress: OnProgress
    ) -> Iterator[RowBatch]:
        for start in range(0, len(lines), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            yield RowBatch([cells[i][part] for i in columns], lines[part])
            on_progress(min(part.stop / len(lines), 1.0))

    return RowSource(titles, batches, place, decimal)


def frame_of(data: Any, schema: Schema) -> RowSource:
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


def complete(source: RowSource, schema: Schema) -> RowSource:
    """A table with what a site's other measures come to, and blanks for what it does not have."""
    return _fill_absent(_convert_own(source, schema), schema)


def _names(source: RowSource) -> list[set[str]]:
    """What each column may be called: its title, and that without its unit."""
    return [{title.strip(), name_and_unit(title)[0]} for title in source.titles]


def _convert_own(source: RowSource, schema: Schema) -> RowSource:
    """The same with features in place of other measures of them, where they are not there."""
    names, changed = _names(source), dict[int, Feature]()
    for feature in schema.features:
        own = feature.own
        if own is None or any({feature.name, feature.column} & one for one in names):
            continue
        places = [i for i, one in enumerate(names) if {own.name, own.column} & one]
        if len(places) > 1:
            raise refusal(source.place, [f"the column '{own.name}' is there twice"])
        for place in places:
            stated = source.units.get(place, name_and_unit(source.titles[place])[1])
            if stated and own.unit and stated != own.unit:
                text = f"the column '{own.name}' is in [{stated}], knowledge.toml says [{own.unit}]"
                raise refusal(source.place, [text])
            changed[place] = feature
    if not changed:
        return source

    def batches(
        columns: Sequence[int], words: Sequence[int], on_progress: OnProgress
    ) -> Iterator[RowBatch]:
        for batch in source.batches(columns, words, on_progress):
            cells = list(batch.columns)
            for place in changed.keys() & set(columns):
                at = list(columns).index(place)  # a copy that is kept stays as it is
                cells[at] = converted(cells[at], changed[place].own, source.decimal)
            yield replace(batch, columns=cells)

    titles = [changed[i].name if i in changed else t for i, t in enumerate(source.titles)]
    units = {place: unit for place, unit in source.units.items() if place not in changed}
    return replace(source, titles=titles, batches=batches, units=units)


def converted(cells: Any, measure: Feature | None, decimal: str) -> Any:
    """A column of another measure as the feature; cells that come to nothing say why."""
    assert measure is not None
    values, wrong = number_cells(cells, decimal)
    found = convert(measure, values)
    lost = np.isnan(found) & ~np.isnan(values)
    if not wrong and not lost.any():
        return found
    listed: list[Any] = found.tolist()
    for place in np.flatnonzero(lost).tolist():
        text = f"'{measure.by}' has no value of {measure.name} = {values[place]:g}"
        listed[place] = Broken(text, str(values[place]))
    for place, text in wrong.items():
        listed[place] = Broken(text.removeprefix(": ") or UNUSABLE.removeprefix(": "))
    return listed


def _fill_absent(source: RowSource, schema: Schema) -> RowSource:
    """The same with blank columns in place of those that the site does not have."""
    there = {word for names in _names(source) for word in names}
    absent = [(f.name, (f.column or f.name).strip()) for f in schema.features if not f.have]
    gone = [name for name, title in absent if not {name, title} & there]
    if not gone:
        return source
    width = len(source.titles)

    def batches(
        columns: Sequence[int], words: Sequence[int], on_progress: OnProgress
    ) -> Iterator[RowBatch]:
        kept = [i for i in columns if i < width]
        for batch in source.batches(kept, [i for i in words if i < width], on_progress):
            cells = iter(batch.columns)
            blank = np.full(len(batch.lines), np.nan)
            found = [next(cells) if i < width else blank for i in columns]
            yield replace(batch, columns=found)

    return replace(source, titles=[*source.titles, *gone], batches=batches)


def frame_of_records(
    records: Sequence[Any], *, place: str = "", lines: Sequence[int] | None = None
) -> RowSource:
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
    return _in_memory([str(name) for name in names], cells, numbers, place)


def open_workbook(path: Path, form: FileForm) -> RowSource:
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
    return _in_memory(titles, cells, [i for i, _ in rows], place, form.decimal or ".")


def open_json(path: Path, form: FileForm) -> RowSource:
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
    if isinstance(data, dict):
        if any(isinstance(value, list) for value in data.values()):
            return _columns(data, place)
        data = [data]
    if not isinstance(data, list):
        raise FedloreError(f"{place} must hold a list of records, or an object of columns")
    return frame_of_records(data, place=place)


def _columns(columns: Mapping[str, Any], place: str = "") -> RowSource:
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
    return _in_memory(list(ready), list(ready.values()), range(2, n + 2), place)


def _nameless(rows: np.ndarray, schema: Schema) -> RowSource:
    d = len(schema.features)
    if rows.ndim != 2 or rows.shape[1] != d:
        raise FedloreError(f"rows must have {d} columns, got shape {tuple(rows.shape)}")
    cells: list[Any] = []
    for feature, column in zip(schema.features, rows.T, strict=True):
        # an array of numbers holds the positions of levels, as every tensor does
        coded = feature.levels and column.dtype.kind in "fiu"
        place = {float(i): level for i, level in enumerate(feature.levels)}
        values = column.astype(np.float64).tolist() if coded else ()
        cells.append([place.get(value, value) for value in values] if coded else column)
    return _in_memory(schema.names, cells, range(2, len(rows) + 2))


def _interchange(data: Any) -> Any:
    if hasattr(data, "__arrow_c_stream__") and arrow("lib") is not None:
        return arrow("lib").table(data)
    if hasattr(data, "__dataframe__") and arrow("interchange") is not None:
        return arrow("interchange").from_dataframe(data)
    raise FedloreError("this kind of frame needs: pip install 'fedlore[parquet]'")


def _is_column(value: Any) -> bool:
    listed = isinstance(value, Sequence | np.ndarray | Tensor) or hasattr(value, "to_numpy")
    return listed and not isinstance(value, str | bytes)
