"""Whole tables: rows with their classes for training, single columns, rows in memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.examples import Examples
from ...errors import FedloreError, unknown
from ...kernel.schema import Schema
from .cells import number_cells, place_cells, text_cells
from .problems import Problems
from .reading import FILL, RowChunk, open_file, open_rows, read_chunks, read_unhurried
from .source import FileForm, RowSource
from .titles import name_and_unit


def read_table(
    path: str | Path, schema: Schema, *, label: str | None = None, form: FileForm | None = None
) -> Examples:
    """The features of the schema, in its order, and the class of the column `label`.

    The file may be CSV or TSV (also .gz), XLSX, Parquet or JSON rows. Columns are found by name,
    others are ignored. Features are numbers; one with levels holds their names, which become
    their positions. A label is the name of one of the classes. Blanks, wrong cells and absent
    columns are refused together, each with its place; nothing is guessed.
    """
    return as_examples(Path(path), schema, label=label, form=form)


def as_examples(
    data: Any,
    schema: Schema,
    label: str | Sequence[Any] | None = None,
    *,
    form: FileForm | None = None,
) -> Examples:
    """Rows of a frame, columns by name, records, an array or a file as `Examples`.

    `label` names the column of the classes, or holds the class of each row by name. An array has
    no names: its columns are the schema's, and where it holds numbers, levels are positions.
    """

    def read(fast: bool) -> tuple[Tensor, Tensor | None]:
        source = open_rows(data, schema, form=form, fast=fast)
        column = label if isinstance(label, str) else None
        parts = list(read_chunks(source, schema, label=column))
        labels = [part.y for part in parts if part.y is not None]
        return _join(parts), torch.cat(labels) if labels else None

    x, y = read_unhurried(read)
    if label is not None and not isinstance(label, str):
        y = _classes(label, schema, len(x))
    return Examples(x, y)


def read_column(path: str | Path, name: str, *, form: FileForm | None = None) -> list[str]:
    """One column as text, such as the one that says which plant a row comes from."""
    source = open_file(Path(path), form=form, fast=False)
    problems = Problems(source.place)
    found: list[str] = []
    place = column_of(source, name)
    for batch in source.batches([place], [place], lambda share: None):
        problems.add(dict(enumerate(batch.odd.values())), list(batch.odd))
        texts = text_cells(batch.columns[0])
        problems.add({i: FILL for i, t in enumerate(texts) if not t}, batch.lines, name)
        found += texts
    problems.check()
    return found


def read_number_column(path: str | Path, name: str, *, form: FileForm | None = None) -> Tensor:
    """One column of numbers without blanks, (n,) float64, such as what a regression predicts."""
    source = open_file(Path(path), form=form, fast=False)
    problems = Problems(source.place)
    found = []
    place = column_of(source, name)
    for batch in source.batches([place], [], lambda share: None):
        problems.add(dict(enumerate(batch.odd.values())), list(batch.odd))
        values, wrong = number_cells(batch.columns[0], source.decimal)
        for i in np.flatnonzero(~np.isfinite(values)).tolist():
            wrong.setdefault(i, FILL if np.isnan(values[i]) else f": {values[i]} is not finite")
        problems.add(wrong, batch.lines, name)
        found.append(values)
    problems.check()
    return torch.from_numpy(np.concatenate(found) if found else np.empty(0))


def column_of(source: RowSource, name: str) -> int:
    """Where the column of a name stands, whether or not its title has a unit too."""
    names = [
        title.strip() if title.strip() == name else name_and_unit(title)[0]
        for title in source.titles
    ]
    if names.count(name) > 1:
        raise FedloreError(f"{source.place}: the column '{name}' is there twice")
    if name not in names:
        raise FedloreError(f"{source.place}: {unknown('column', name, names)}")
    return names.index(name)


def _join(parts: list[RowChunk]) -> Tensor:
    """All rows, (n, d); each part is let go once it is copied, so that no two copies stand."""
    x = torch.empty(sum(len(part.x) for part in parts), parts[0].x.shape[1])
    end = len(x)
    while parts:
        part = parts.pop().x
        x[end - len(part) : end] = part
        end -= len(part)
    return x


def _classes(label: Sequence[Any], schema: Schema, n: int) -> Tensor:
    values, wrong = place_cells(label, schema.classes, "class")
    if len(values) != n:
        raise FedloreError(f"there are {len(values)} labels for {n} rows")
    problems = Problems("")
    for i in np.flatnonzero(np.isnan(values)).tolist():
        wrong.setdefault(i, FILL)
    problems.add(wrong, range(2, n + 2), "label")
    problems.check()
    return torch.from_numpy(values.astype(np.int64))
