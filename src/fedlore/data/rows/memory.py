"""Rows that are in memory: frames, columns by name, records, arrays; and small files read whole."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ...core.files.workbook import read_page
from ...errors import FedloreError
from ...kernel.schema import Schema
from . import source
from .problems import refusal
from .source import FileForm, OnProgress, RowBatch
from .text import arrow

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
        for start in range(0, len(self.lines), source.ROWS_AT_ONCE):
            part = slice(start, start + source.ROWS_AT_ONCE)
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
        told = ", ".join(f"'{name}' {length}" for name, length in lengths.items())
        raise FedloreError(f"{place or 'rows'}: the columns differ in length: {told}")
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
