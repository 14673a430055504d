"""How a bundle does on labelled rows of a file."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ...data.rows import read_measured, read_table
from ...knowledge.schema import Schema
from ...personal.tasks import TaskName, task_of
from ..contents import Bundle
from .answering import shape_rows


@torch.no_grad()
def score_bundle(bundle: Bundle, path: str | Path) -> dict[str, float]:
    """Test accuracy, violations and log-loss; of a number its errors and violations."""
    x, y = _READERS[bundle.task](Path(path), bundle.schema)
    personal = bundle.personal
    return task_of(personal).score(personal, bundle.schema, shape_rows(bundle, x), y)


def _classes(path: Path, schema: Schema) -> tuple[Tensor, Tensor]:
    rows = read_table(path, schema, label=schema.label)
    assert rows.y is not None  # read with its label
    return rows.x, rows.y


def _numbers(path: Path, schema: Schema) -> tuple[Tensor, Tensor]:
    rows = read_measured(path, schema, label=schema.label)
    return rows.x, rows.numbers()


#: How the labels of each task stand in a file.
_READERS: dict[TaskName, Callable[[Path, Schema], tuple[Tensor, Tensor]]] = {
    "classification": _classes,
    "regression": _numbers,
}
