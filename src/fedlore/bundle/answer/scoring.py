"""How a bundle does on labelled rows of a file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...core.marks import count_pairs, per_class
from ...core.reliability import ReliabilityBin, reliability
from ...data.rows import FileForm, read_measured, read_table
from ...kernel.schema import Schema
from ...personal.classifier import Personal
from ...personal.tasks import TaskName, task_of
from ...personal.tasks.regression import number_reliability
from ..contents import Bundle
from .answering import answer_rows, shape_rows


def read_labelled(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> tuple[Tensor, Tensor]:
    """The rows of a file and their labels, classes or numbers as the bundle has it."""
    return _READERS[bundle.task](Path(path), bundle.schema, form)


@torch.no_grad()
def bundle_reliability(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> list[ReliabilityBin]:
    """The reliability diagram: of a number how its intervals cover against what they promise."""
    personal = bundle.personal
    x, y = read_labelled(bundle, path, form=form)
    if isinstance(personal, Personal):
        return reliability(personal.predict_proba(shape_rows(bundle, x)), y)
    return number_reliability(personal, shape_rows(bundle, x), y)


@torch.no_grad()
def score_bundle(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> dict[str, float]:
    """Test accuracy, violations, log-loss and more; of a number its errors and intervals."""
    x, y = read_labelled(bundle, path, form=form)
    personal = bundle.personal
    return task_of(personal).score(personal, bundle.schema, shape_rows(bundle, x), y)


@dataclass(frozen=True)
class ClassScore:
    """How a bundle does on one class; None where nobody named it, or none was there."""

    name: str
    rows: int
    precision: float | None
    recall: float | None


def score_classes(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> list[ClassScore]:
    """Precision and recall of each class on labelled rows; nothing of a number."""
    if bundle.task != "classification":
        return []
    x, y = read_labelled(bundle, path, form=form)
    counts = count_pairs(answer_rows(bundle, x).predicted, y, len(bundle.schema.classes))
    scores = zip(*per_class(counts), counts.sum(1), strict=True)
    return [
        ClassScore(name, int(rows), _known(precision), _known(recall))
        for name, (precision, recall, rows) in zip(bundle.schema.classes, scores, strict=True)
    ]


def _known(value: Tensor) -> float | None:
    return None if value.isnan() else float(value)


def _classes(path: Path, schema: Schema, form: FileForm | None) -> tuple[Tensor, Tensor]:
    rows = read_table(path, schema, label=schema.label, form=form)
    assert rows.y is not None  # read with its label
    return rows.x, rows.y


def _numbers(path: Path, schema: Schema, form: FileForm | None) -> tuple[Tensor, Tensor]:
    rows = read_measured(path, schema, label=schema.label, form=form)
    return rows.x, rows.numbers()


#: How the labels of each task stand in a file.
_READERS: dict[TaskName, Callable[[Path, Schema, FileForm | None], tuple[Tensor, Tensor]]] = {
    "classification": _classes,
    "regression": _numbers,
}
