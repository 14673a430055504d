"""Models that were trained elsewhere, as P-KMs: scikit-learn and torch here, ONNX beside it.

By default the answer is hard: all weight on the likeliest class. With `soft=True` it is the model's
probabilities. A soft P-KM is weaker: its class is no longer sure to get the probability λ, only
f^m >= λ g_p holds, class by class; and where it gives any weight to a class outside the range it
is silenced for the whole row, so a soft model that gives weight to everything is rarely heard
beside a narrow range.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ..answers import Sets
from ..core.tensors import torch, without_gradient
from ..errors import KnowledgeError

if TYPE_CHECKING:
    from torch import Tensor, nn


_FAULT = "learned"  # the code of errors raised here

Gives = Literal["logits", "probabilities"]


def from_sklearn(
    estimator: Any,
    *,
    classes: Sequence[object] | int,
    soft: bool = False,
    names: Sequence[str] | None = None,
) -> SklearnModel:
    """A fitted classifier as a P-KM.

    `classes` are the labels in the order of the task, or their number where they are 0 to k - 1.
    An estimator that was fitted with named columns needs `names`, the columns of the rows.
    """
    method = "predict_proba" if soft else "predict"
    if not callable(getattr(estimator, method, None)):
        raise KnowledgeError(f"a {type(estimator).__name__} has no {method}")
    labels = getattr(estimator, "classes_", None)
    if not isinstance(labels, np.ndarray) or labels.ndim != 1:
        raise KnowledgeError(
            f"a {type(estimator).__name__} has no classes_: it must be a fitted classifier with "
            "one output (a regressor goes through GradedFormula)"
        )
    known = list(range(classes)) if isinstance(classes, int) else list(classes)
    for label in labels.tolist():
        if label not in known:
            raise KnowledgeError(f"the estimator answers {label!r}, which is none of {known}")
    place = tuple(known.index(label) for label in labels.tolist())
    return SklearnModel(estimator, len(known), place, soft, _columns(estimator, names))


def _columns(estimator: Any, names: Sequence[str] | None) -> tuple[int, ...] | None:
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is None:
        return None
    if names is None:
        raise KnowledgeError(
            f"the estimator was fitted with named columns ({', '.join(fitted)}): give names=, "
            "the columns of the rows"
        )
    absent = [name for name in fitted if name not in names]
    if absent:
        raise KnowledgeError(f"the estimator needs the column '{absent[0]}'")
    return tuple(list(names).index(name) for name in fitted)


@dataclass(frozen=True)
class SklearnModel:
    """A scikit-learn classifier; made by `from_sklearn`."""

    estimator: Any
    classes: int
    place: tuple[int, ...]  # the class of each of the estimator's own labels
    soft: bool = False
    columns: tuple[int, ...] | None = None  # what it was fitted on, where the columns had names

    def __call__(self, x: Tensor, /) -> Tensor:
        rows = x.new_zeros(len(x), self.classes)
        if not len(x):
            return rows
        seen = x.detach().flatten(1).cpu().numpy()
        if self.columns is not None:
            seen = seen[:, self.columns]
        with warnings.catch_warnings():
            # the names were compared when the model was made
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            if self.soft:
                answer = torch.as_tensor(self.estimator.predict_proba(seen))
                rows[:, list(self.place)] = answer.to(rows)
                return rows
            labels = self.estimator.predict(seen)
        place = dict(zip(self.estimator.classes_.tolist(), self.place, strict=True))
        said, which = np.unique(labels, return_inverse=True)
        grades = torch.tensor([place[label] for label in said.tolist()])
        found = grades[torch.as_tensor(which)].to(x.device)
        return rows.scatter_(1, found.unsqueeze(1), 1.0)


def from_torch(
    module: nn.Module, *, soft: bool = False, gives: Gives = "logits", batch: int = 4096
) -> TorchModel:
    """A copy of a torch classifier as a P-KM: training the original later does not change it."""
    frozen = copy.deepcopy(module).eval().requires_grad_(False)
    return TorchModel(frozen, soft, gives, batch)


@dataclass(frozen=True)
class TorchModel:
    """A torch module that gives one row of logits or probabilities; made by `from_torch`."""

    module: nn.Module
    soft: bool = False
    gives: Gives = "logits"
    batch: int = 4096

    @without_gradient
    def __call__(self, x: Tensor, /) -> Tensor:
        one = next(self.module.parameters(), None)
        like = x if one is None else one
        parts = [
            self.module(x[start : start + self.batch].to(like.device, like.dtype))
            for start in range(0, max(len(x), 1), self.batch)
        ]
        return as_prior(torch.cat(parts), soft=self.soft, gives=self.gives).to(x.device, x.dtype)


def as_prior(scores: Tensor, *, soft: bool, gives: Gives) -> Tensor:
    """Scores (n, k) as rows of a P-KM."""
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise KnowledgeError(
            f"a model must give one row of scores, got shape {tuple(scores.shape)}"
        )
    if gives not in get_args(Gives):
        raise KnowledgeError(f"gives must be logits or probabilities, got '{gives}'")
    top = scores.amax(1)  # NaN where any score is
    if not top.isfinite().all():  # a single -inf is fine: log-probabilities have it
        row = int((~top.isfinite()).nonzero()[0])
        raise KnowledgeError(
            f"a model's scores must be numbers: row {row} is {scores[row].tolist()}"
        )
    if not soft:
        return torch.nn.functional.one_hot(scores.argmax(1), scores.shape[1]).to(scores.dtype)
    if gives == "logits":
        return scores.softmax(1)
    total = scores.sum(1)
    wrong = (scores < 0).any(1) | ((total - 1).abs() > 1e-4)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise KnowledgeError(
            f"probabilities must be >= 0 and sum to 1: row {row} sums to {float(total[row]):g}"
        )
    return scores


@dataclass(frozen=True, eq=False)
class Lookup:
    """Answers keyed by the exact features: predictions of classes, or ranges of either kind.

    A row that was never written down gets the last answer: a P-KM abstains, an R-KM allows all.
    """

    places: Mapping[bytes, int]  # features -> which answer
    answers: Any  # (m + 1, k), or so many `Sets`

    @staticmethod
    def of(x: Tensor, answers: Tensor | Sets) -> Lookup:
        """Write down one answer per row, (n, *features) and (n, k) or n sets.

        Rows with the same features share one answer: ranges are joined; predictions must agree.
        """
        places: dict[bytes, int] = {}
        counts: dict[bytes, int] = {}
        written = []  # of each row its answer, and how many wrote there before
        for name in _keys(x):
            place, before = places.setdefault(name, len(places)), counts.get(name, 0)
            written.append((place, before))
            counts[name] = before + 1
        at, nth = torch.tensor(written, dtype=torch.int64).reshape(-1, 2).T

        def spread(rows: Tensor, blank: float) -> Tensor:
            """All that was written for each answer side by side, (m + 1, most, k)."""
            most = max(counts.values(), default=1)
            out = rows.new_full((len(places) + 1, most, rows.shape[1]), blank)
            out[at, nth] = rows
            return out

        if isinstance(answers, Sets):
            low, high = (
                spread(side, torch.nan).flatten(1) for side in (answers.lower, answers.upper)
            )
            low[-1, 0], high[-1, 0] = -torch.inf, torch.inf
            return Lookup(places, Sets.of(low, high))
        if answers.dtype == torch.bool:
            ranges = spread(answers, False).any(1)
            ranges[-1] = True
            return Lookup(places, ranges)
        said = spread(answers, 0.0)[:, 0]
        if len(places) < len(at) and not torch.equal(said[at], answers):
            raise KnowledgeError("two rows have the same features and different predictions")
        return Lookup(places, said)

    def __call__(self, x: Tensor, /) -> Any:
        found = [self.places.get(name, len(self.places)) for name in _keys(x)]
        return self.answers[torch.tensor(found, dtype=torch.int64)].to(x.device)


def _keys(x: Tensor) -> list[bytes]:
    return [row.tobytes() for row in x.detach().cpu().flatten(1).numpy()]
