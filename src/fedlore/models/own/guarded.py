"""One learner of a site's own, or anybody's, behind the range and beside the expert."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...answers import Bins, Measured
from ...core.examples import Examples
from ...core.scaler import Inputs
from ...errors import ConfigError
from ...knowledge.missing import check_values
from ...knowledge.models import Knowledge
from .baseline import FOLDS, fold_seed
from .members import mask_logits, see_classes, see_numbers, within
from .mixture import Mixture, NumberMixture, mix, number_weights

_SURE = 1e-6  # spread over all classes: a certain answer outside the range must leave something
_TRUSTS = tuple(i / 20 for i in range(21))


@dataclass(frozen=True, eq=False)
class EstimatorMember:
    """An estimator of scikit-learn as a member of a mixture; it may hear the expert."""

    estimator: Any  # fitted on `rows_of`
    hears: bool
    classes: int = 0  # of a number 0
    name: str = "estimator"

    def log_probs(self, known: Examples) -> Tensor:
        """(n, k) inside the range."""
        said = torch.as_tensor(self.estimator.predict_proba(rows_of(known, self.hears)))
        found = said.new_full((len(said), self.classes), _SURE / self.classes)
        found[:, self.estimator.classes_] += (1.0 - _SURE) * said
        return mask_logits(found.double().log(), known.allowed)

    def number(self, known: Measured) -> Tensor:
        """(n,) inside S(x)."""
        said = np.asarray(self.estimator.predict(rows_of(known, self.hears)), dtype=np.float64)
        return within(torch.as_tensor(said.reshape(-1)), known)


def rows_of(known: Examples | Measured, hears: bool) -> np.ndarray[Any, Any]:
    """Rows as an estimator gets them, (n, i) float64; with `hears` expert and range are columns."""
    x = known.x.flatten(1).double()
    if hears:
        seen = see_numbers(known) if isinstance(known, Measured) else see_classes(known)
        x = torch.cat([x, seen.heard.double()], 1)
    return x.numpy()


def _deal(y: Tensor, seed: int, *, sort: bool) -> list[Tensor]:
    """The rows of each fold, (n,) bool: labels of a class are dealt out evenly.

    Else a class that is frequent among the rows held out is rare among those learned from, and
    a model that knows little looks worse than it is.
    """
    dice = np.random.RandomState(fold_seed(seed, "estimator"))
    order = dice.permutation(len(y))
    if sort:
        order = order[np.argsort(y.numpy()[order], kind="stable")]
    found = np.empty(len(y), dtype=np.int64)
    found[order] = np.arange(len(y)) % FOLDS
    return [torch.from_numpy(found == fold) for fold in range(FOLDS)]


def fit_estimator(
    make: Callable[[], Any], known: Examples | Measured, *, hears: bool, classes: int, seed: int
) -> tuple[EstimatorMember, Tensor]:
    """An estimator fitted on all rows, and what its like say of rows that they had not seen."""
    assert known.y is not None
    if classes and not hasattr(make(), "predict_proba"):
        raise ConfigError(f"the estimator must have predict_proba, {make()!r} has none")

    def fit_on(rows: Tensor) -> EstimatorMember:
        some = known[rows]
        assert some.y is not None
        return EstimatorMember(make().fit(rows_of(some, hears), some.y.numpy()), hears, classes)

    def predict_on(member: EstimatorMember, rows: Tensor) -> Tensor:
        some = known[rows]
        return member.number(some) if isinstance(some, Measured) else member.log_probs(some)

    every = torch.ones(len(known), dtype=torch.bool)
    whole = fit_on(every)
    held = predict_on(whole, every).double()
    if len(known) < 2 * FOLDS:  # of a handful of rows none can be held out
        return whole, held
    for away in _deal(known.y, seed, sort=bool(classes)):
        if not classes or len(np.unique(known.y[~away])) > 1:
            held[away] = predict_on(fit_on(~away), away).double()
    return whole, held


def choose_trust(held: Tensor, known: Examples | Measured) -> float:
    """λ by rows that were not seen; 0 where they do not show that the expert helps.

    Of a number the one that misses least, drawn to 0 as the weights of an ensemble are to their
    start. Of classes the least under which labels are as likely as they get, up to chance. It is
    taken if more rows are right than without the expert by more than two standard errors: one
    comparison, since a search for the λ with the most right rows would find luck.
    """
    y = known.y
    assert y is not None
    if isinstance(known, Measured):
        if known.said is None:
            return 0.0
        both = [held, torch.where(known.said.isnan(), held, known.said)]
        return float(number_weights(both, y, held.new_tensor([1.0, 0.0]))[1])
    if known.prior is None:
        return 0.0
    parts = held.softmax(1).unsqueeze(0)
    said = torch.stack([mix(parts, (1 - t,), known.prior, t) for t in _TRUSTS])  # (t, n, k)
    label = y.expand(len(_TRUSTS), -1).unsqueeze(2)
    losses = -said.gather(2, label).squeeze(2).clamp(min=_SURE).log()  # (t, n)
    apart = losses - losses[losses.mean(1).argmin()]
    chosen = int((apart.mean(1) <= _chance(apart)).nonzero()[0])
    right = (said[[0, chosen]].argmax(2) == y).double()
    more = right[1:] - right[:1]
    return _TRUSTS[chosen] if bool(more.mean(1) > 2 * _chance(more)) else 0.0


def _chance(apart: Tensor) -> Tensor:
    """One standard error of mean differences, (t, n) -> (t,)."""
    found: Tensor = apart.std(1) / apart.shape[1] ** 0.5
    return found


def mix_numbers(held: Tensor, known: Measured, trust: float) -> Tensor:
    """Numbers with the expert's part in them where he speaks, inside S(x), (n,)."""
    if known.said is None:
        return held
    said = torch.where(known.said.isnan(), held, known.said)
    return within((1.0 - trust) * held + trust * said, known)


@dataclass(frozen=True, eq=False)
class GuardedClassifier:
    """A member over classes behind the range, mixed with the expert's word."""

    knowledge: Knowledge
    member: Any
    trust: float
    inputs: Inputs | None = None

    def annotate(self, x: Tensor) -> Examples:
        """Rows with what the knowledge says of them."""
        check_values(x, self.knowledge.schema)
        return self.knowledge.annotate(Examples(x), training=False)

    def predict_proba(self, x: Tensor) -> Tensor:
        """(n, k), exactly 0 outside the range."""
        return self._mixture.probabilities(encode(self.annotate(x), self.inputs))

    def predict(self, x: Tensor) -> Tensor:
        """The class of each row, (n,)."""
        return self._mixture.predict(encode(self.annotate(x), self.inputs))

    @property
    def _mixture(self) -> Mixture:
        return Mixture((self.member,), (1.0 - self.trust,), self.trust)


@dataclass(frozen=True, eq=False)
class GuardedRegressor:
    """A member that names numbers, inside S(x) and mixed with the expert's number."""

    knowledge: Knowledge
    member: Any
    trust: float
    bins: Bins
    misses: Tensor  # (n,) how far it was off on rows it had not seen
    inputs: Inputs | None = None

    def annotate(self, x: Tensor) -> Measured:
        """Rows with what the knowledge says of them."""
        check_values(x, self.knowledge.schema)
        return self.knowledge.of_number(self.bins).annotate(Measured(x), training=False)

    def predict(self, x: Tensor, *, decode: str = "mean") -> Tensor:
        """A number in S(x) for each row, (n,)."""
        known = encode(self.annotate(x), self.inputs)
        return NumberMixture((self.member,), (1.0 - self.trust,), self.trust).number(known)

    def interval(self, x: Tensor, level: float) -> tuple[Tensor, Tensor]:
        """As far to both sides as a share `level` of unseen rows was off, moved into S(x)."""
        known, centre = self.annotate(x), self.predict(x)
        away = float(self.misses.abs().quantile(level))
        return within(centre - away, known), within(centre + away, known)


def encode(known: Any, inputs: Inputs | None) -> Any:
    """The same rows as learners take them: levels one by one, no holes."""
    return known if inputs is None else replace(known, x=inputs.encode(known.x))
