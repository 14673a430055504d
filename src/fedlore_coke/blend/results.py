"""Tests of blends that were really charged, taken into the model that plans are promised by."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedlore.data.rows import (
    FileForm,
    Problems,
    name_and_unit,
    number_cells,
    open_file,
    place_cells,
)
from fedlore.errors import FedloreError, KnowledgeError, unknown
from fedlore.personal import take_tests

from .coals import Array
from .graders import ClassGrader
from .order import Order
from .recipe import rows_of

_OFF = 0.5  # %, by which shares may miss 100 together: people round


@dataclass(frozen=True, eq=False)
class BlendTests:
    """n tests: what was charged, and the class that came out."""

    shares: Array  # (n, c) of the coals of the list
    classes: NDArray[np.int64]  # (n,)
    lines: tuple[int, ...]  # of the file
    place: str  # what messages call it

    def __len__(self) -> int:
        return len(self.classes)


def read_tests(path: str | Path, order: Order, *, form: FileForm | None = None) -> BlendTests:
    """A file with one test a row: a column for each coal that was charged, in %, and the grade."""
    schema, coals = order.recipe.schema, order.coals
    source = open_file(Path(path), form=form, fast=False)
    titles = [name_and_unit(title)[0] for title in source.titles]
    twice = {name for name in titles if titles.count(name) > 1}
    if twice:
        raise FedloreError(f"{source.place}: the column '{min(twice)}' is there twice")
    if schema.label not in titles:
        raise FedloreError(f"{source.place}: {unknown('column', schema.label, titles)}")
    for title in titles:
        if title != schema.label and title not in coals.names:
            raise FedloreError(
                f"{source.place}: a column must be '{schema.label}' or a coal of the list, "
                f"{unknown('coal', title, coals.names)}"
            )
    cells: dict[str, list[Any]] = {title: [] for title in titles}
    lines: list[int] = []
    problems = Problems(source.place)
    every = range(len(titles))
    for batch in source.batches(every, every, lambda share: None):
        problems.add(dict(enumerate(batch.odd.values())), list(batch.odd))
        for title, column in zip(titles, batch.columns, strict=True):
            cells[title] += list(column)
        lines += list(batch.lines)
    problems.check()
    if not lines:
        raise FedloreError(f"{source.place} has no tests below its header")
    label = cells.pop(schema.label)
    classes, strange = place_cells(label, schema.classes, "class")
    blank = np.flatnonzero(np.isnan(classes)).tolist()
    strange |= {i: " is blank" for i in blank if i not in strange}
    problems.add(strange, lines, schema.label)
    shares = np.zeros((len(lines), len(coals)))
    for place, (name, column) in enumerate(cells.items()):
        values, wrong = number_cells(column, source.decimal)
        values = np.where(np.isnan(values), 0.0, values)  # a blank is a coal that was not charged
        out = np.flatnonzero(~((values >= 0.0) & (values <= 100.0)))
        wrong |= {int(i): f": {values[i]:g} is no share in %" for i in out if i not in wrong}
        problems.add(wrong, lines, name, place)
        shares[:, coals.place(name)] = values / 100.0
    total = 100.0 * shares.sum(1)
    off = np.flatnonzero(np.abs(total - 100.0) > _OFF)
    if not problems.count:
        told = {int(i): f": its shares add up to {total[i]:g} %, not to 100 %" for i in off}
        problems.add(told, lines)
    problems.check()
    shares /= shares.sum(1, keepdims=True)
    return BlendTests(shares, classes.astype(np.int64), tuple(lines), source.place)


def take_results(order: Order, tests: BlendTests) -> Order:
    """The same order, promised by the model after these tests; an impossible one is refused."""
    grader = order.grader
    if not isinstance(grader, ClassGrader):
        raise FedloreError(
            "measured results can be taken in by a model of ordered classes, not of a number"
        )
    x = rows_of(order.recipe.features(tests.shares))
    y = torch.from_numpy(tests.classes)
    problems = Problems(tests.place)
    names = grader.schema.classes
    for i in range(len(tests)):
        try:
            allowed = grader.annotate(x[i : i + 1]).allowed
        except KnowledgeError as error:
            problems.add({i: f": {error}"}, tests.lines)
            continue
        if allowed is not None and not allowed[0, y[i]]:
            may = [name for name, ok in zip(names, allowed[0].tolist(), strict=True) if ok]
            problems.add(
                {i: f": {names[int(y[i])]} is impossible for this blend, the expert's range "
                 f"allows {', '.join(may)}"}, tests.lines,
            )  # fmt: skip
    problems.check()
    return replace(order, grader=replace(grader, personal=take_tests(grader.personal, x, y)))
