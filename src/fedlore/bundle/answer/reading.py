"""Files of rows, a chunk at a time: CSV (also .gz) and Parquet, however large.

pyarrow reads both where it is installed; CSV also goes without it, several times slower.
"""

import csv
import importlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ...data.frames import opened
from ...errors import FedloreError
from ..contents import Bundle, Policies
from .columns import matched, tensor_of

CHUNK = 65_536  # rows at a time
BYTES = 8 << 20  # of a CSV file at a time, about as many rows
BLANK = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null")

BROKEN = (csv.Error, UnicodeDecodeError, OSError, EOFError, zlib.error)  # what a bad file raises

OnProgress = Callable[[float], None]  # the share of the file that has been read


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file: the features' columns in the schema's order, and those to keep."""

    columns: Sequence[Any]
    kept: Sequence[Any]
    start: int  # rows before it


def read_chunks(
    path: Path,
    bundle: Bundle,
    policies: Policies,
    *,
    keep: Sequence[str] = (),
    on_progress: OnProgress | None = None,
    fast: bool = True,
) -> Iterator[Chunk]:
    """The rows of a file, by the names of its columns; `fast` uses pyarrow where it is there."""
    if not path.is_file():
        raise FedloreError(f"cannot read '{path}': no such file")
    told = on_progress or (lambda share: None)
    titles = _titles(path)
    try:
        wanted = matched(titles, bundle.schema, policies.extra)
    except FedloreError as error:
        raise FedloreError(f"'{path}': {error}") from None
    for name in keep:
        if name not in titles:
            raise FedloreError(f"'{path}' has no column '{name}' to keep")
    found = _units_checked(path, bundle, wanted)
    if path.suffix == ".parquet":
        chunks = _parquet(path, [*found, *keep], told)
    elif fast and _arrow("csv") is not None:
        words = [t for t, f in zip(wanted, bundle.schema.features, strict=True) if f.levels]
        chunks = _arrow_csv(path, titles, [*wanted, *keep], [*words, *keep], told)
    else:
        chunks = _plain_csv(path, titles, [*wanted, *keep], told)
    start = 0
    for columns in chunks:
        yield Chunk(columns[: len(wanted)], columns[len(wanted) :], start)
        start += len(columns[0])
    if start == 0:
        raise FedloreError(f"'{path}' has no rows")


def titles_of(path: Path) -> list[str]:
    """The names of a file's columns."""
    return _titles(path)


def explain(path: Path, bundle: Bundle, policies: Policies) -> None:
    """Read a CSV file slowly to find the cell that a fast reader stumbled over, and raise it."""
    for chunk in read_chunks(path, bundle, policies, fast=False):
        tensor_of(chunk.columns, bundle, policies.blanks, start=chunk.start)


def _titles(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        parquet = _parquet_package()
        try:
            return list(parquet.read_schema(path).names)
        except (OSError, ValueError) as error:
            raise FedloreError(f"cannot read '{path}': {error}") from None
    with opened(path) as lines:
        try:
            titles = next(csv.reader(lines), [])
        except BROKEN as error:
            raise FedloreError(f"'{path}' is not a table of text: {error}") from None
    if not titles:
        raise FedloreError(f"'{path}' is empty: a table begins with the names of its columns")
    return titles


def _units_checked(path: Path, bundle: Bundle, wanted: Sequence[str]) -> Sequence[str]:
    """A Parquet column may say its unit beside its type; it must then be the declared one."""
    if path.suffix != ".parquet":
        return wanted
    schema = _parquet_package().read_schema(path)
    for title, feature in zip(wanted, bundle.schema.features, strict=True):
        said = (schema.field(title).metadata or {}).get(b"unit")
        if said is not None and said.decode("utf-8", "replace").strip() != feature.unit:
            raise FedloreError(
                f"'{path}': the column '{title}' is in [{said.decode('utf-8', 'replace')}], the "
                f"model takes it in [{feature.unit}]"
            )
    return wanted


def _parquet(path: Path, wanted: Sequence[str], told: OnProgress) -> Iterator[Sequence[Any]]:
    parquet = _parquet_package()
    with parquet.ParquetFile(path) as file:
        total, done = max(file.metadata.num_rows, 1), 0
        names = list(dict.fromkeys(wanted))
        batches = file.iter_batches(batch_size=CHUNK, columns=names, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
            except (OSError, ValueError) as error:
                raise FedloreError(f"cannot read '{path}': {error}") from None
            if batch is None:
                break
            done += batch.num_rows
            yield [_numpy(batch.column(batch.schema.get_field_index(n))) for n in wanted]
            told(done / total)


def _arrow_csv(
    path: Path, titles: Sequence[str], wanted: Sequence[str], words: Sequence[str], told: OnProgress
) -> Iterator[Sequence[Any]]:
    pa: Any = importlib.import_module("pyarrow")
    reader = _arrow("csv")
    place = [str(titles.index(name)) for name in wanted]  # by position: titles may be doubled
    types = {
        p: pa.string() if name in words else pa.float64()
        for p, name in zip(place, wanted, strict=True)
    }
    # a title may hold line breaks, which skipping lines would not know: names after the header
    options = {
        "read_options": reader.ReadOptions(
            use_threads=False,
            block_size=BYTES,
            column_names=[str(i) for i in range(len(titles))],
            skip_rows_after_names=1,
        ),
        "parse_options": reader.ParseOptions(newlines_in_values=True),
        "convert_options": reader.ConvertOptions(
            column_types=types,
            include_columns=list(dict.fromkeys(place)),
            null_values=list(BLANK),
            strings_can_be_null=True,
        ),
    }
    size = max(path.stat().st_size, 1)
    with pa.OSFile(str(path)) as raw:
        stream = pa.CompressedInputStream(raw, "gzip") if path.suffix == ".gz" else raw
        try:
            with reader.open_csv(stream, **options) as batches:
                for batch in batches:
                    if batch.num_rows:
                        where = batch.schema.get_field_index
                        yield [_numpy(batch.column(where(p))) for p in place]
                    told(min(raw.tell() / size, 1.0))
        except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
            raise _Stumbled(f"'{path}' is not a regular table: {error}") from None


class _Stumbled(FedloreError):
    """A fault that only the slow reader can place."""


def stumbled(error: FedloreError) -> bool:
    """Whether the slow reader may know more."""
    return isinstance(error, _Stumbled)


def _numpy(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False)


def _plain_csv(
    path: Path, titles: Sequence[str], wanted: Sequence[str], told: OnProgress
) -> Iterator[Sequence[Any]]:
    place = [list(titles).index(name) for name in wanted]
    row = 0
    with opened(path) as lines:
        rows = (cells for cells in csv.reader(lines) if cells)
        next(rows)
        try:
            while some := list(islice(rows, CHUNK)):
                for number, cells in enumerate(some, row + 1):
                    if len(cells) != len(titles):
                        raise FedloreError(
                            f"'{path}' row {number} has {len(cells)} cells, the header has "
                            f"{len(titles)}"
                        )
                row += len(some)
                yield [[None if c[i].strip() in BLANK else c[i] for c in some] for i in place]
                told(0.0)
        except BROKEN as error:
            raise FedloreError(f"'{path}' is not a table of text: {error}") from None


def _arrow(part: str) -> Any:
    try:
        return importlib.import_module(f"pyarrow.{part}")
    except ImportError:
        return None


def _parquet_package() -> Any:
    found = _arrow("parquet")
    if found is None:
        raise FedloreError("Parquet files need: pip install 'fedlore[parquet]'")
    return found
