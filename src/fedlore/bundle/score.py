"""How a bundle does on labelled rows of a file, and what its sets and intervals may promise."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from ..core.conformal import (
    HELD_LEVELS,
    CoveragePromise,
    CutRows,
    check_level,
    class_misses,
    find_cut,
    half_width,
    least_rows,
    number_misses,
)
from ..core.metrics import ReliabilityBin, count_pairs, per_class, reliability
from ..data.rows import FileForm, read_measured, read_table
from ..kernel.schema import Schema
from ..models.answers import Answers
from ..models.classifier import Personal
from ..models.tasks import TaskName, number_reliability, task_of
from .header import Bundle
from .predict import answer_rows, shape_rows

_FAULT = "predict"  # the code of errors raised here


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


def answer_scores(answers: Answers, y: Tensor) -> Tensor:
    """How far each label lies from its answer, (n,), in [0, 1].

    Of classes the probability that it lacks; of a number its distance in halves of the model's own
    interval, d / (1 + d).
    """
    if answers.interval is None:
        return class_misses(answers.probabilities, y)
    return number_misses(answers.predicted, answers.interval, y)


def hold_classes(answers: Answers, cut: float) -> Tensor:
    """The set of each row, (n, k) bool: never empty, and inside the range."""
    found = (1.0 - answers.probabilities.double() <= cut) & answers.allowed
    best = torch.nn.functional.one_hot(answers.predicted, found.shape[1]).bool()
    return found | best


def hold_numbers(answers: Answers, cut: float) -> Tensor:
    """The interval of each row, (n, 2), inside the least and the most that its range allows."""
    assert answers.low is not None and answers.high is not None and answers.interval is not None
    far = half_width(answers.interval) * (cut / max(1.0 - cut, 1e-12))
    low = torch.maximum(answers.predicted - far, answers.low)
    return torch.stack([low, torch.minimum(answers.predicted + far, answers.high)], 1)


def stored_holding(bundle: Bundle, level: float) -> CoveragePromise | None:
    """What the bundle itself promises at a level: to its own site, or else to all of them."""
    for whose in get_args(CutRows):
        for one in bundle.holdings:
            if one.whose == whose and abs(one.level - level) < 1e-9:
                return one
    return None


@torch.no_grad()
def read_holding(
    bundle: Bundle, path: str | Path, level: float, *, form: FileForm | None = None
) -> CoveragePromise:
    """What labelled rows of a file allow; they must be none that the bundle learned from."""
    check_level(level)
    scores = _scores(bundle, path, form)
    return CoveragePromise(level, find_cut(scores, level), len(scores))


def read_holdings_of(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> tuple[CoveragePromise, ...]:
    """The same at every level that a bundle stores and that so many rows allow."""
    scores = _scores(bundle, path, form)
    levels = [level for level in HELD_LEVELS if len(scores) >= least_rows(level)]
    return tuple(CoveragePromise(level, find_cut(scores, level), len(scores)) for level in levels)


@torch.no_grad()
def _scores(bundle: Bundle, path: str | Path, form: FileForm | None) -> Tensor:
    x, y = read_labelled(bundle, path, form=form)
    return answer_scores(answer_rows(bundle, x), y)
