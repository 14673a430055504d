"""Parquet files, a batch at a time, by pyarrow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import FedloreError
from . import source
from .source import FileForm, OnProgress, RowBatch
from .text import arrow

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
            batches = file.iter_batches(
                batch_size=source.ROWS_AT_ONCE, columns=names, use_threads=False
            )
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
        told = (schema.field(i).metadata or {}).get(b"unit")
        if told is not None:
            units[i] = told.decode("utf-8", "replace").strip()
        if schema.names.count(name) > 1:
            raise FedloreError(f"'{path}': the column '{name}' is there twice")
    return ParquetFile(path, list(schema.names), units)


def _package() -> Any:
    found = arrow("parquet")
    if found is None:
        raise FedloreError("Parquet files need: pip install 'fedlore[parquet]'")
    return found
