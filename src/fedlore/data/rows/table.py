"""The one reader of rows: any table, in memory or in a file, as tensors in the schema's order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ...answers import Measured
from ...core.examples import Examples
from ...core.workbooks import SUFFIXES
from ...errors import ConfigError, FedloreError, unknown
from ...kernel.answers import convert
from ...kernel.schema import Feature, Schema
from ...kernel.sheets import Broken
from ...knowledge import Knowledge
from .cells import (
    Extra,
    Floats,
    Problems,
    Stumbled,
    Wrong,
    date_cells,
    features_of,
    find_columns,
    name_and_unit,
    number_cells,
    passed_over,
    place_cells,
    refusal,
    text_cells,
)
from .files import (
    FileForm,
    OnProgress,
    RowBatch,
    RowSource,
    complete,
    frame_of,
    open_json,
    open_parquet,
    open_text_file,
    open_workbook,
)

ROW_KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".parquet", *SUFFIXES, ".json", ".jsonl")
FILL = " is missing: fill it or leave the row out"

_HINTS = {  # by whether there are levels
    False: ' (or say of the feature: missing = "mean")',
    True: ' (or say of the feature: missing = "level")',
}

_T = TypeVar("_T")


def find_rows(folder: Path, part: str) -> Path | None:
    """The file of a site's rows, of one kind or another; None where there is none."""
    paths = [folder / f"{part}{suffix}" for suffix in ROW_KINDS]
    return next((path for path in paths if path.exists()), None)


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
    With `mark` rows with problems are returned with the good ones instead. A fast source raises
    `Stumbled` where there is a problem: read it again without haste.
    """
    for name in keep:
        if name not in source.titles:
            raise refusal(source.place, [f"there is no column '{name}' to keep"])
    copied = [list(source.titles).index(name) for name in keep]
    source = complete(source, schema)
    places = find_columns(
        source.titles,
        schema,
        label=label,
        extra=extra,
        also=keep,
        units=source.units,
        place=source.place,
    )
    features = features_of(source.titles, schema)
    plain = zip(places, features, strict=False)
    numbers = {p for p, f in plain if not f.levels and not f.date}
    words = [p for p in (*places, *copied) if p not in numbers]
    problems = Problems(source.place)
    count = 0
    report = on_progress or (lambda share: None)
    for batch in source.batches([*places, *copied], words, report):
        if mark:
            problems = Problems(source.place, most=None)
        if batch.odd:
            problems.add(dict(enumerate(batch.odd.values())), list(batch.odd))
        x, y = _tensors(batch, features, schema.classes, label, source, problems)
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


def _show(cells: Any) -> Any:
    """Cells to copy; one that a spreadsheet made something else of as it is shown."""
    if isinstance(cells, np.ndarray):
        return cells
    return [cell.shown if isinstance(cell, Broken) else cell for cell in cells]


def _tensors(
    batch: RowBatch,
    features: Sequence[Feature],
    classes: Sequence[str],
    label: str | None,
    source: RowSource,
    problems: Problems,
) -> tuple[Tensor, Tensor | None]:
    """A batch as (n, d) float32 and its classes (n,) int64; what is wrong goes to `problems`."""
    x = np.empty((len(batch.lines), len(features)), dtype=np.float32)
    exact, faulty = [], []
    for place, feature in enumerate(features):
        cells = batch.columns[place]
        values, wrong = feature_cells(cells, feature, source.decimal)
        with np.errstate(over="ignore"):  # reported below, with its row
            x[:, place] = values
        exact.append(values)
        faulty.append(wrong)
    bad = ~np.isfinite(x)
    if bad.any():
        if source.fast and bad.all(1).any():
            raise Stumbled(f"{source.place}: a row may be blank, and rows that are do not count")
        for place, feature in enumerate(features):
            wrong = feature_faults(bad[:, place], exact[place], faulty[place], feature)
            if not _said_before(features, place):
                title = feature.column if feature.date else feature.name
                problems.add(wrong, batch.lines, title or "", place)
    rows = torch.from_numpy(x)
    if label is None:
        return rows, None
    values, wrong = place_cells(batch.columns[len(features)], classes, "class")
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
    if feature.date:
        return date_cells(cells, feature.date)
    return number_cells(cells, decimal)


def _said_before(features: Sequence[Feature], place: int) -> bool:
    """Whether an earlier feature is read from the same dates, and has said what is wrong there."""
    one = features[place]
    return bool(one.date) and any(f.date and f.column == one.column for f in features[:place])


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


def read_table(
    path: str | Path,
    schema: Schema,
    *,
    label: str | None = None,
    form: FileForm | None = None,
    measured: str = "",
    edges: Sequence[float] = (),
) -> Examples:
    """The features of the schema, in its order, and the class of the column `label`.

    The file may be CSV or TSV (also .gz), XLSX, Parquet or JSON rows. Columns are found by name,
    others are ignored. Features are numbers; one with levels holds their names, which become
    their positions. A label is the name of one of the classes. Blanks, wrong cells and absent
    columns are refused together, each with its place; nothing is guessed.
    """
    rows = as_examples(Path(path), schema, label=label, form=form)
    if not measured or rows.y is None:
        return rows
    numbers = read_number_column(path, measured, form=form, blanks=True)
    return rows.place_numbers(numbers, edges)


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

    column = label if isinstance(label, str) else None

    def read(fast: bool) -> tuple[Tensor, Tensor | None]:
        source = open_rows(data, schema, form=form, fast=fast)
        parts = list(read_chunks(source, schema, label=column))
        labels = [part.y for part in parts if part.y is not None]
        return _join(parts), torch.cat(labels) if labels else None

    x, y = read_unhurried(read)
    if label is not None and column is None:
        y = _classes(label, schema, len(x))
    return Examples(x, y)


def read_column(path: str | Path, name: str, *, form: FileForm | None = None) -> list[str]:
    """One column as text, such as the one that says which plant a row comes from."""

    def read(cells: Any, decimal: str) -> tuple[list[str], Wrong]:
        texts = text_cells(cells)
        return texts, {i: FILL for i, text in enumerate(texts) if not text}

    return [text for part in _one_column(path, name, form, read) for text in part]


def read_number_column(
    path: str | Path, name: str, *, form: FileForm | None = None, blanks: bool = False
) -> Tensor:
    """One column of numbers, (n,) float64, such as what a regression predicts; NaN for `blanks`."""

    def read(cells: Any, decimal: str) -> tuple[Floats, Wrong]:
        values, wrong = number_cells(cells, decimal)
        for i in np.flatnonzero(np.isinf(values) if blanks else ~np.isfinite(values)).tolist():
            wrong.setdefault(i, FILL if np.isnan(values[i]) else f": {values[i]} is not finite")
        return values, wrong

    return torch.from_numpy(np.concatenate([np.empty(0), *_one_column(path, name, form, read)]))


def read_both(
    path: str | Path, feature: Feature, *, form: FileForm | None = None
) -> tuple[Floats, Floats] | None:
    """A feature and what its other measure comes to, where a file has both columns."""
    own, titles = feature.own, open_file(Path(path), form=form, fast=False).titles
    names = {name for title in titles for name in (title.strip(), name_and_unit(title)[0])}
    if own is None or not all({one.name, one.column} & names for one in (feature, own)):
        return None
    there, said = (
        read_number_column(
            path, one.name if one.name in names else one.column or "", form=form, blanks=True
        ).numpy()
        for one in (feature, own)
    )
    return there, convert(own, said)


def _one_column(
    path: str | Path, name: str, form: FileForm | None, read: Callable[[Any, str], tuple[_T, Wrong]]
) -> list[_T]:
    """A column of a file, batch by batch; all that is wrong with it is raised as one error."""
    source = open_file(Path(path), form=form, fast=False)
    problems, found, place = Problems(source.place), [], column_of(source, name)
    for batch in source.batches([place], [place], lambda share: None):
        problems.add(dict(enumerate(batch.odd.values())), list(batch.odd))
        part, wrong = read(batch.columns[0], source.decimal)
        problems.add(wrong, batch.lines, name)
        found.append(part)
    problems.check()
    return found


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


def read_measured(
    path: str | Path, schema: Schema, *, label: str | None = None, form: FileForm | None = None
) -> Measured:
    """The features of the schema, in its order, and the number of the column `label`."""
    x = read_table(path, schema, form=form).x
    return Measured(x, None if label is None else read_number_column(path, label, form=form))


def read_scorable(
    path: str | Path, schema: Schema, label: str, *, number: bool, form: FileForm | None = None
) -> tuple[Examples | Measured, dict[int, str]]:
    """The labelled rows that can be used, and what is wrong with the others by their number."""
    try:
        return (read_measured if number else read_table)(path, schema, label=label, form=form), {}
    except FedloreError:
        source = open_file(Path(path), form=form, fast=False)
    named: dict[str, Any] = {"label": label}
    if number:
        named = {"keep": [source.titles[column_of(source, label)]]}
    rows, labels, wrong = [], [], dict[int, str]()
    for part in read_chunks(source, schema, mark=True, **named):
        wrong |= part.wrong
        x, y = part.x, part.y
        if y is None:
            values, _ = number_cells(part.kept[0], source.decimal)
            lines = [line for line in part.lines if line not in part.wrong]
            y = torch.tensor([v for v, line in zip(values, part.lines, strict=True)
                              if line not in part.wrong], dtype=torch.float64)  # fmt: skip
            there = y.isfinite()
            gone = [line for line, one in zip(lines, there.tolist(), strict=True) if not one]
            wrong |= dict.fromkeys(gone, f"'{label}' is missing or no number")
            x, y = x[there], y[there]
        rows.append(x)
        labels.append(y)
    x, y = torch.cat(rows), torch.cat(labels)
    return (Measured(x, y) if number else Examples(x, y)), wrong


_Array = NDArray[np.generic]
_NAMED = ("columns", "column_names", "__dataframe__", "__arrow_c_stream__")


def has_names(data: Any) -> bool:
    """Whether rows come with the names of their columns: frames, columns by name, records."""
    if isinstance(data, Sequence) and len(data):
        data = data[0]
    return _is_dict(data) or any(hasattr(data, word) for word in _NAMED)


def _is_dict(data: Any) -> bool:
    return isinstance(data, Mapping) and not hasattr(data, "shape")  # as some sparse matrices are


def add_columns(schema: Schema, data: Any) -> Schema:
    """The schema with what else a frame holds as further numbers; its label is none of them."""
    if not has_names(data):
        return schema
    titles = passed_over(frame_of(data, schema).titles, schema, ())
    word = "more"
    while any(name.startswith(word) for name in schema.names):
        word += "_"
    more = tuple(Feature(f"{word}{i}", column=title) for i, title in enumerate(titles))
    return replace(schema, features=(*schema.features, *more))


def number_rows(data: Any, schema: Schema | None) -> Any:
    """Rows as (n, d) float64 in the schema's order, NaN where a value may be missing and is.

    Levels become their positions. All that cannot be used is refused together. An array of
    numbers stays as it is, and so does everything without a schema.
    """
    if schema is None:
        if _is_dict(data):
            raise FedloreError("rows by name need knowledge with a schema: give an array")
        return data
    if not has_names(data):
        width = np.shape(data)[1:]
        if width and width != (len(schema.features),):
            raise FedloreError(
                f"the knowledge has {len(schema.features)} columns ({', '.join(schema.names)}), "
                f"X has {width[0]} without names: give a data frame, or just those columns"
            )
        if not width or np.asarray(data).dtype.kind in "fiub":
            return data
        data = np.asarray(data, dtype=object)
    return _numbers(frame_of(data, schema), schema)


def _numbers(source: RowSource, schema: Schema) -> Floats:
    source = complete(source, schema)
    places, problems = find_columns(source.titles, schema), Problems("")
    features = features_of(source.titles, schema)
    parts = [np.empty((0, len(places)))]
    for batch in source.batches(places, [], lambda share: None):
        columns = []
        for order, (feature, cells) in enumerate(zip(features, batch.columns, strict=True)):
            values, wrong = feature_cells(cells, feature, source.decimal)
            wrong = feature_faults(~np.isfinite(values), values, wrong, feature)
            if not _said_before(features, order):
                problems.add(wrong, batch.lines, feature.column or feature.name, order)
            columns.append(values)
        parts.append(np.column_stack(columns))
    problems.check()
    return np.concatenate(parts)


def order_labels(y: _Array, known: Knowledge, classes: ArrayLike | None) -> _Array:
    """The label of each of the knowledge's classes, in its order, (k,)."""
    if classes is not None:
        found = np.asarray(classes)
    elif known.schema is None:
        found = np.unique(y)
    elif y.dtype.kind in "OUS":
        found = np.asarray(known.schema.classes, dtype=y.dtype if y.dtype.kind == "O" else None)
    else:
        try:
            found = np.asarray(known.schema.classes).astype(y.dtype)
        except ValueError:
            names = ", ".join(known.schema.classes)
            raise ConfigError(
                f"the labels are numbers, the knowledge calls its classes {names}: "
                "give classes=, the labels in this order"
            ) from None
    for label in np.unique(y).tolist():
        if label not in found.tolist():
            known_ones = ", ".join(map(repr, found.tolist()))
            raise FedloreError(f"label {label!r} is none of {known_ones}")
    return found


def place_labels(y: _Array, spoken: _Array) -> Tensor:
    """Labels as positions in the knowledge's order, (n,) int64."""
    own, which = np.unique(y, return_inverse=True)
    place = {label: i for i, label in enumerate(spoken.tolist())}
    return torch.tensor([place[label] for label in own.tolist()])[torch.as_tensor(which)]
