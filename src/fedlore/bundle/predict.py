"""What a bundle answers about rows (class or number, how likely, what was possible, who decided),
how it does on labelled ones, and what its sets and intervals may promise."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from ..core.conformal import CoveragePromise, CutRows, check_level, list_promises
from ..core.metrics import ReliabilityBin, count_pairs, per_class
from ..data.rows import (
    FileForm,
    frame_of,
    read_chunks,
    read_measured,
    read_scorable,
    read_table,
)
from ..data.rows.cells import Extra
from ..errors import FedloreError
from ..kernel.findings import Finding, Place
from ..models.answers import Answers
from ..models.doubt import Doubt, can_doubt, find_doubt
from .header import Bundle

_FAULT = "predict"  # the code of errors raised here


@torch.no_grad()
def answer_rows(bundle: Bundle, x: Tensor) -> Answers:
    """Answers for rows in raw units, (n, d) or in the network's own shape."""
    x = shape_rows(bundle, x)
    personal = bundle.personal
    starts = range(0, max(len(x), 1), personal.chunk)
    parts = (x[i : i + personal.chunk] for i in starts)
    return Answers.join([personal.answer(bundle.schema, part) for part in parts])


def shape_rows(bundle: Bundle, x: Tensor) -> Tensor:
    """The rows as the network takes them."""
    d = len(bundle.schema.features)
    if x.ndim < 2 or x[:1].numel() != d * min(len(x), 1):
        raise FedloreError(f"rows must have {d} features, got shape {tuple(x.shape)}")
    if not x.is_floating_point():
        raise FedloreError(f"rows must be floating point, got {x.dtype}")
    return x.reshape(len(x), *bundle.shape)


def read_rows_checked(source: Any, bundle: Bundle, *, extra: Extra | None = None) -> Tensor:
    """Columns, records, one record, a frame or an array as rows in raw units, (n, d) float32.

    Columns are found by name, in any order; a name may carry its unit, `ash [%]`, which must then
    be the declared one. A value that may be missing is NaN. Without `extra` the bundle's own policy
    holds. All that is wrong is refused together, by row and column; the titles are row 1, and
    records, which have none, begin with 1. A 2-d tensor or array has no names: its columns are the
    schema's, and where it holds numbers, levels are their positions.
    """
    found = read_chunks(
        frame_of(source, bundle.schema),
        bundle.schema,
        extra=extra or bundle.policies.extra,
    )
    return torch.cat([part.x for part in found])


@torch.no_grad()
def doubt_rows(bundle: Bundle, x: Tensor) -> Doubt:
    """Doubts about rows in raw units, in classes or units of the number; refused by a model alone.

    Where ignorance is larger than noise the row is far from all that was learned from.
    """
    x = shape_rows(bundle, x)
    personal = bundle.personal
    found = find_doubt(personal, x) if can_doubt(personal, bundle.schema) else None
    if found is None:
        raise FedloreError(
            "this bundle cannot tell its own ignorance: that takes an ensemble of members over "
            'ordered classes or a number, as recipe = "lore" makes'
        )
    return found


def read_labelled(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> tuple[Tensor, Tensor]:
    """The rows of a file and their labels, classes or numbers as the bundle has it."""
    read = read_table if bundle.task == "classification" else read_measured
    rows = read(Path(path), bundle.schema, label=bundle.schema.label, form=form)
    assert rows.y is not None  # read with its label
    return rows.x, rows.y


@dataclass(frozen=True, eq=False)
class ScorableRows:
    """The labelled rows of a file that can be scored, and what is wrong with the others."""

    x: Tensor  # (n, d), in raw units
    y: Tensor  # (n,)
    left_out: dict[int, str]  # by the row's number in its file
    file: str

    @property
    def finding(self) -> Finding | None:
        """What was left out, and why."""
        if not self.left_out:
            return None
        first = min(self.left_out)
        args = {"rows": sorted(self.left_out), "why": self.left_out[first]}
        return Finding("warning", "unscored", Place(self.file, row=first), args)

    def remarks(self, bundle: Bundle) -> list[str]:
        """What whoever reads scores should know of the rows."""
        found = self.finding
        said = [] if found is None else [f"{found.place}: {found.message}"]
        return said + list_beyond(bundle, self.y, self.file)


def list_beyond(bundle: Bundle, y: Tensor, file: str) -> list[str]:
    """That labels lie beyond the bounds of the number, if any do: no answer reaches them."""
    bins = bundle.personal.knowledge.bins
    beyond = 0 if bins is None else int(((y < bins.lower) | (y > bins.upper)).sum())
    if bins is None or not beyond:
        return []
    args = {"count": beyond, "lower": bins.lower, "upper": bins.upper}
    found = Finding("warning", "label-beyond", Place(file), args)
    return [f"{file}: {found.message}, which no answer reaches: {found.suggestion}"]


def read_scored(bundle: Bundle, path: str | Path, *, form: FileForm | None = None) -> ScorableRows:
    """Labelled rows to score a bundle by; those that cannot be used are counted, not fatal."""
    schema, number = bundle.schema, bundle.task != "classification"
    assert schema.label is not None  # a bundle knows what it answers
    rows, wrong = read_scorable(path, schema, schema.label, number=number, form=form)
    if not len(rows):
        raise FedloreError(f"'{path}': no row can be scored; row {min(wrong)}: {wrong[min(wrong)]}")
    assert rows.y is not None  # read with its label
    return ScorableRows(rows.x, rows.y, wrong, Path(path).name)


@torch.no_grad()
def bundle_reliability(bundle: Bundle, rows: ScorableRows) -> list[ReliabilityBin]:
    """The reliability diagram: of a number how its intervals cover against what they promise."""
    return bundle.personal.reliability(shape_rows(bundle, rows.x), rows.y)


@torch.no_grad()
def score_bundle(bundle: Bundle, rows: ScorableRows) -> dict[str, float]:
    """Test accuracy, violations, log-loss and more; of a number its errors and intervals."""
    return bundle.personal.score(bundle.schema, shape_rows(bundle, rows.x), rows.y)


@dataclass(frozen=True)
class ClassScore:
    """How a bundle does on one class; None where nobody named it, or none was there."""

    name: str
    rows: int
    precision: float | None
    recall: float | None


def score_classes(bundle: Bundle, rows: ScorableRows) -> list[ClassScore]:
    """Precision and recall of each class on labelled rows; nothing of a number."""
    if bundle.task != "classification":
        return []
    counts = count_pairs(answer_rows(bundle, rows.x).predicted, rows.y, len(bundle.schema.classes))
    scores = zip(*per_class(counts), counts.sum(1), strict=True)
    return [
        ClassScore(name, int(many), _known(precision), _known(recall))
        for name, (precision, recall, many) in zip(bundle.schema.classes, scores, strict=True)
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
    rows = read_scored(bundle, path, form=form)
    return answer_rows(bundle, rows.x).misses(rows.y)
