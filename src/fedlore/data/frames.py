"""A user's own tables: CSV (also .gz) and Parquet, read by the names of their columns."""

import csv
import gzip
import importlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from ..core.examples import Examples
from ..errors import FedloreError, unknown
from ..knowledge.schema import Feature, Schema


def read_table(path: str | Path, schema: Schema, *, label: str | None = None) -> Examples:
    """The features of the schema, in its order, and the class of the column `label`.

    Columns are found by name, others are ignored. Features are numbers; one with levels holds
    their names, which become their positions. A label is the name of one of the classes. A
    blank, a wrong cell or an absent column is an error that says where; nothing is guessed.
    """
    path = Path(path)
    numbers = [f.name for f in schema.features if not f.levels]
    words = [f.name for f in schema.features if f.levels] + ([] if label is None else [label])
    read = _parquet if path.suffix == ".parquet" else _csv
    values, texts = read(path, numbers, words)
    columns = [
        _levels(path, f, texts[f.name]) if f.levels else values[f.name] for f in schema.features
    ]
    x = torch.from_numpy(np.stack(columns, 1).astype(np.float32))  # (n, d)
    y = None
    if label is not None:
        y = torch.from_numpy(_positions(path, label, texts[label], schema.classes, "class"))
    if len(x) == 0:
        raise FedloreError(f"'{path}' has no rows")
    return Examples(x, y)


def read_column(path: str | Path, name: str) -> list[str]:
    """One column as text, such as the one that says which plant a row comes from."""
    path = Path(path)
    read = _parquet if path.suffix == ".parquet" else _csv
    return [str(cell) for cell in read(path, [], [name])[1][name]]


Columns = dict[str, np.ndarray]


def _csv(path: Path, numbers: Sequence[str], words: Sequence[str]) -> tuple[Columns, Columns]:
    with opened(path) as lines:
        header = next(csv.reader(lines), [])
    place = {name: _column(path, header, name) for name in (*numbers, *words)}
    # numpy reads numbers many times faster, but only the slow way knows where one is wrong
    try:
        found = {
            kind: _load(path, [place[name] for name in names], kind)
            for names, kind in ((numbers, float), (words, str))
        }
    except ValueError as error:
        _explain(path, {name: place[name] for name in numbers}, len(header))
        raise FedloreError(f"'{path}' is not a regular table: {error}") from None
    values = dict(zip(numbers, found[float].T, strict=True))
    texts = dict(zip(words, np.char.strip(found[str]).T, strict=True))
    for name, column in values.items():
        _finite(path, name, column)
    for name, column in texts.items():
        _filled(path, name, column == "")
    return values, texts


def _load(path: Path, places: list[int], kind: type) -> np.ndarray:
    """Some columns as one array, (n, columns)."""
    if not places:
        return np.empty((0, 0), dtype=kind)
    with opened(path) as lines:
        next(csv.reader(lines))
        rows = [line for line in lines if line.strip()]
    if not rows:
        return np.empty((0, len(places)), dtype=kind)
    return np.loadtxt(
        rows, dtype=kind, delimiter=",", comments=None, quotechar='"', usecols=places, ndmin=2
    )


def _explain(path: Path, numbers: dict[str, int], width: int) -> None:
    """Find the first cell that is not a number, and say where it is."""
    with opened(path) as lines:
        rows = csv.reader(lines)
        next(rows)
        for row, cells in enumerate((c for c in rows if any(c)), 1):
            if len(cells) != width:
                raise FedloreError(
                    f"'{path}' row {row} has {len(cells)} cells, the header has {width}"
                )
            for name, column in numbers.items():
                _number(path, row, name, cells[column])


def _number(path: Path, row: int, name: str, cell: str) -> None:
    if not cell.strip():
        raise FedloreError(_blank(path, row, name))
    try:
        float(cell)
    except ValueError:
        raise FedloreError(
            f"'{path}' row {row}, column '{name}': '{cell}' is not a number"
        ) from None


def _parquet(path: Path, numbers: Sequence[str], words: Sequence[str]) -> tuple[Columns, Columns]:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise FedloreError("Parquet files need: pip install 'fedlore[parquet]'") from None
    try:
        header = parquet.read_schema(path).names
    except (OSError, ValueError) as error:  # the latter for a file that is no Parquet
        raise FedloreError(f"cannot read '{path}': {error}") from None
    for name in (*numbers, *words):
        _column(path, header, name)
    table = parquet.read_table(path, columns=[*numbers, *words])
    values: Columns = {}
    texts: Columns = {}
    for name in (*numbers, *words):
        cells = table.column(name)
        _filled(path, name, cells.is_null().to_numpy())
        if name in numbers:
            try:
                values[name] = cells.to_numpy().astype(np.float64)
            except (TypeError, ValueError):
                raise FedloreError(
                    f"'{path}' column '{name}' holds {cells.type}, not numbers"
                ) from None
            _finite(path, name, values[name])
        else:
            texts[name] = np.array([str(cell) for cell in cells.to_pylist()], dtype=str)
    return values, texts


def _levels(path: Path, feature: Feature, cells: np.ndarray) -> np.ndarray:
    return _positions(path, feature.name, cells, feature.levels, "level")


def _positions(
    path: Path, name: str, cells: np.ndarray, known: Sequence[str], what: str
) -> np.ndarray:
    """Where each name stands in a list of names, (n,) int64."""
    place = {word: i for i, word in enumerate(known)}
    for word in dict.fromkeys(cells.tolist()):
        if word not in place:
            row = int((cells == word).argmax()) + 1
            raise FedloreError(f"'{path}' row {row}, column '{name}': {unknown(what, word, known)}")
    return np.array([place[word] for word in cells.tolist()], dtype=np.int64)


def _column(path: Path, header: Sequence[str], name: str) -> int:
    names = [cell.strip() for cell in header]
    if names.count(name) > 1:
        raise FedloreError(f"'{path}' has the column '{name}' twice")
    if name not in names:
        raise FedloreError(f"'{path}': {unknown('column', name, names)}")
    return names.index(name)


def _filled(path: Path, name: str, blank: np.ndarray) -> None:
    if blank.any():
        raise FedloreError(_blank(path, int(blank.argmax()) + 1, name))


def _finite(path: Path, name: str, column: np.ndarray) -> None:
    finite = np.isfinite(column)
    if not finite.all():
        row = int((~finite).argmax())
        if math.isnan(column[row]):
            raise FedloreError(_blank(path, row + 1, name))
        raise FedloreError(f"'{path}' row {row + 1}, column '{name}': {column[row]} is not finite")


def _blank(path: Path, row: int, name: str) -> str:
    return (
        f"'{path}' row {row}, column '{name}' is missing: fill it or leave the row out "
        "(rows are counted from 1 below the header)"
    )


def opened(path: Path) -> IO[str]:
    """A text file to read from, unpacked where it is .gz."""
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        return open(path, encoding="utf-8-sig", newline="")
    except OSError as error:
        raise FedloreError(f"cannot read '{path}': {error.strerror}") from None
