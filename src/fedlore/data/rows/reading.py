"""The one reader of rows: any table, in memory or in a file, as tensors in the schema's order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.files.workbook import SUFFIXES
from ...errors import FedloreError
from ...kernel.schema import Feature, Schema
from ...kernel.sheets import Broken
from .cells import Floats, Wrong, number_cells, place_cells
from .columnar import open_parquet
from .memory import frame_of, open_json, open_workbook
from .problems import Problems, Stumbled, refusal
from .source import FileForm, OnProgress, RowBatch, RowSource
from .text import open_text_file
from .titles import Extra, find_columns

ROW_KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".parquet", *SUFFIXES, ".json", ".jsonl")
FILL = " is missing: fill it or leave the row out"

_HINTS = {  # by whether there are levels
    False: ' (or say of the feature: missing = "mean")',
    True: ' (or say of the feature: missing = "level")',
}

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class RowChunk:
    """Some rows of a table; those that are wrong have no part in `x` and `y`."""

    x: Tensor  # (n, d) float32, in raw units
    y: Tensor | None  # (n,) int64, where labels were asked for
    kept: Sequence[Any]  # columns to copy, as they stand
    lines: Sequence[int]  # the number of each row
    wrong: Mapping[int, str] = field(default_factory=dict)  # what is wrong, by the row's number


def open_rows(
    data: Any, schema: Schema, *, form: FileForm | None = None, fast: bool = True
) -> RowSource:
    """A path by the kind of its file, or rows in memory; `fast` uses pyarrow for text."""
    if not isinstance(data, str | Path):
        return frame_of(data, schema)
    return open_file(Path(data), form=form, fast=fast)


def open_file(path: Path, *, form: FileForm | None = None, fast: bool = True) -> RowSource:
    """A file of rows, by its kind; what is none of the known ones is taken to be text."""
    said = form or FileForm()
    kind = path.suffix.lower()
    if kind == ".parquet":
        return open_parquet(path, said)
    if kind in SUFFIXES:
        return open_workbook(path, said)
    if kind in (".json", ".jsonl"):
        return open_json(path, said)
    return open_text_file(path, said, fast=fast)


def read_chunks(
    source: RowSource,
    schema: Schema,
    *,
    label: str | None = None,
    keep: Sequence[str] = (),
    extra: Extra = "ignore",
    mark: bool = False,
    on_progress: OnProgress | None = None,
) -> Iterator[RowChunk]:
    """The rows of a source, a batch at a time.

    A missing value is NaN where its feature may be missing, else a problem. From the first batch
    with a problem on nothing more is given out; at the end all problems are raised as one error.
    With `mark` rows with problems are told beside the good ones instead. A fast source raises
    `Stumbled` where there is a problem: read it again without haste.
    """
    places = find_columns(
        source.titles,
        schema,
        label=label,
        extra=extra,
        also=keep,
        units=source.units,
        place=source.place,
    )
    copied = [_copied_rows(source, name) for name in keep]
    numbers = {p for p, f in zip(places, schema.features, strict=False) if not f.levels}
    words = [p for p in (*places, *copied) if p not in numbers]
    problems = Problems(source.place)
    count = 0
    told = on_progress or (lambda share: None)
    for batch in source.batches([*places, *copied], words, told):
        if mark:
            problems = Problems(source.place, most=None)
        if batch.odd:
            problems.add(dict(enumerate(batch.odd.values())), list(batch.odd))
        x, y = _tensors(batch, schema, label, source, problems)
        if source.fast and problems.count:
            raise Stumbled(f"{source.place}: a cell cannot be used")
        count += len(x) + len(batch.odd)
        kept = [_show(c) for c in batch.columns[len(places) :]]
        if mark and problems.count:
            yield _marked(RowChunk(x, y, kept, batch.lines), problems)
        elif len(x) and not problems.count:
            yield RowChunk(x, y, kept, batch.lines)
    if not mark:
        problems.check()
    if count == 0:
        raise FedloreError(f"{source.place or 'the table'} has no rows")


def _marked(chunk: RowChunk, problems: Problems) -> RowChunk:
    """The rows without a problem, and those with one."""
    wrong: dict[int, str] = {}
    for fault in problems.first:
        text = fault.text.removeprefix(", ").strip()
        wrong[fault.row] = f"{wrong[fault.row]}; {text}" if fault.row in wrong else text
    good = [i for i, line in enumerate(chunk.lines) if line not in wrong]
    y = None if chunk.y is None else chunk.y[good]
    return replace(chunk, x=chunk.x[good], y=y, wrong=wrong)


def read_unhurried(read: Callable[[bool], _T], *, fast: bool = True) -> _T:
    """What a fast reader finds, or the slow one where the fast one stumbles."""
    if fast:
        try:
            return read(True)
        except Stumbled:
            pass
    return read(False)


def _copied_rows(source: RowSource, name: str) -> int:
    if name not in source.titles:
        raise refusal(source.place, [f"there is no column '{name}' to keep"])
    return list(source.titles).index(name)


def _show(cells: Any) -> Any:
    """Cells to copy; one that a spreadsheet made something else of as it is shown."""
    if isinstance(cells, np.ndarray):
        return cells
    return [cell.shown if isinstance(cell, Broken) else cell for cell in cells]


def _tensors(
    batch: RowBatch,
    schema: Schema,
    label: str | None,
    source: RowSource,
    problems: Problems,
) -> tuple[Tensor, Tensor | None]:
    """A batch as (n, d) float32 and its classes (n,) int64; what is wrong goes to `problems`."""
    n, features = len(batch.lines), schema.features
    x = np.empty((n, len(features)), dtype=np.float32)
    exact, faulty = [], []
    for place, feature in enumerate(features):
        cells = batch.columns[place]
        values, wrong = feature_cells(cells, feature, source.decimal)
        with np.errstate(over="ignore"):  # told below, with its row
            x[:, place] = values
        exact.append(values)
        faulty.append(wrong)
    bad = ~np.isfinite(x)
    if bad.any():
        if source.fast and bad.all(1).any():
            raise Stumbled(f"{source.place}: a row may be blank, and rows that are do not count")
        for place, feature in enumerate(features):
            wrong = feature_faults(bad[:, place], exact[place], faulty[place], feature)
            problems.add(wrong, batch.lines, feature.name, place)
    rows = torch.from_numpy(x)
    if label is None:
        return rows, None
    values, wrong = place_cells(batch.columns[len(features)], schema.classes, "class")
    missing = np.isnan(values)
    if missing.any():
        wrong |= _faults(missing, values, wrong, FILL)
        problems.add(wrong, batch.lines, label, len(features))
        values = np.nan_to_num(values)
    return rows, torch.from_numpy(values.astype(np.int64))


def feature_cells(cells: Any, feature: Feature, decimal: str) -> tuple[Floats, Wrong]:
    """A column of a feature, (n,) float64: numbers, or the positions of levels; NaN for blanks."""
    if feature.levels:
        return place_cells(cells, feature.levels, "level", other=feature.other)
    return number_cells(cells, decimal)


def feature_faults(bad: NDArray[np.bool_], values: Floats, known: Wrong, feature: Feature) -> Wrong:
    """All that is wrong with the cells of a feature; those of `bad` are no finite numbers."""
    blank = None if feature.may_miss else f"{FILL}{_HINTS[bool(feature.levels)]}"
    return known | _faults(bad, values, known, blank)


def _faults(bad: NDArray[np.bool_], values: Floats, known: Wrong, blank: str | None) -> Wrong:
    """What is missing, unless that is no fault, and what single precision cannot hold."""
    found = {}
    for i in np.flatnonzero(bad).tolist():
        if i in known:
            continue
        if not np.isnan(values[i]):
            found[i] = f": {values[i]} is not a finite number of single precision"
        elif blank is not None:
            found[i] = blank
    return found
