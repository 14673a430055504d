"""How a bundle does on labelled rows of a file, and what its sets and intervals may promise."""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from ..core.conformal import CoveragePromise, CutRows, check_level, list_promises
from ..core.metrics import ReliabilityBin, count_pairs, per_class
from ..data.rows import FileForm, read_measured, read_table
from .header import Bundle
from .predict import answer_rows, shape_rows

_FAULT = "predict"  # the code of errors raised here


def read_labelled(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> tuple[Tensor, Tensor]:
    """The rows of a file and their labels, classes or numbers as the bundle has it."""
    read = read_table if bundle.task == "classification" else read_measured
    rows = read(Path(path), bundle.schema, label=bundle.schema.label, form=form)
    assert rows.y is not None  # read with its label
    return rows.x, rows.y


@torch.no_grad()
def bundle_reliability(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> list[ReliabilityBin]:
    """The reliability diagram: of a number how its intervals cover against what they promise."""
    x, y = read_labelled(bundle, path, form=form)
    return bundle.personal.reliability(shape_rows(bundle, x), y)


@torch.no_grad()
def score_bundle(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> dict[str, float]:
    """Test accuracy, violations, log-loss and more; of a number its errors and intervals."""
    x, y = read_labelled(bundle, path, form=form)
    return bundle.personal.score(bundle.schema, shape_rows(bundle, x), y)


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
    return CoveragePromise.of(_scores(bundle, path, form), level)


def read_holdings_of(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> tuple[CoveragePromise, ...]:
    """The same at every level that a bundle stores and that so many rows allow."""
    return list_promises(_scores(bundle, path, form), "kept")


@torch.no_grad()
def _scores(bundle: Bundle, path: str | Path, form: FileForm | None) -> Tensor:
    x, y = read_labelled(bundle, path, form=form)
    return answer_rows(bundle, x).misses(y)
