"""A regressor of one site's own rows, whose numbers stay in the set its expert allows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_is_fitted,
    validate_data,
)
from torch import Tensor

from ..algorithms import Alone, Plan
from ..core.nets import mlp
from ..engine import NumberClient, fit
from ..errors import ConfigError
from ..knowledge import Mask, Schema
from ..knowledge.numbers.bins import Bins
from ..knowledge.numbers.files import read_numbers
from ..knowledge.numbers.measured import Measured
from ..knowledge.numbers.numbers import Numbers
from ..knowledge.numbers.sets import Sets
from ..knowledge.numbers.told import HEARD
from ..personal.regressor import Decode, PersonalRegressor
from .site import NAME, columns_of, seed_of, tensor, widths

Array = Any  # what scikit-learn accepts: arrays, lists, data frames

MARGIN = 0.05  # of the labels' span, on both sides, where bounds are taken from the labels


# scikit-learn asks for these base classes; everything of ours below is composed
class KnowledgeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Numbers as bins, decoded inside S(x): every prediction lies in the set exactly.

    `knowledge` is a `Numbers`, the path of a knowledge.toml with a [target], or None. Bounds are
    `lower` and `upper`, else those of the file, else the span of the training labels and a
    twentieth of it on both sides: these are one site's own labels, and stay in its own model.
    With a range the bounds must be declared, since labels do not tell where S(x) may lie.
    Knowledge reads raw units, so nothing before it in a pipeline may rescale its columns.
    """

    def __init__(
        self,
        knowledge: Numbers | str | Path | None = None,
        *,
        lower: float | None = None,
        upper: float | None = None,
        bins: int = 50,
        trust: float | None = None,
        decode: Decode = "mean",
        hidden: Any = (64,),
        hears: bool = False,
        ordinal: float = 1.0,
        plain: float = 0.0,
        epochs: int = 60,
        batch: int | None = 32,
        lr: float = 0.02,
        decay: float = 5e-4,
        random_state: Any = 0,
    ) -> None:
        self.knowledge = knowledge
        self.lower = lower
        self.upper = upper
        self.bins = bins
        self.trust = trust
        self.decode = decode
        self.hidden = hidden
        self.hears = hears
        self.ordinal = ordinal
        self.plain = plain
        self.epochs = epochs
        self.batch = batch
        self.lr = lr
        self.decay = decay
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> "KnowledgeRegressor":
        """Train on the rows of X (n, d) in raw units and their numbers y (n,)."""
        rows, numbers = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        known, schema, declared = self._known()
        self.bins_ = self._bins(tensor(numbers), known, declared)
        if schema is not None:
            names = getattr(self, "feature_names_in_", None)
            known = _viewed(known, columns_of(schema, names, rows.shape[1]))
        self.knowledge_ = known
        hears = self.hears and (known.point is not None or known.range is not None)
        seed = seed_of(self.random_state)
        width = rows.shape[1] + (HEARD if hears else 0)
        network = mlp(width, self.bins_.k, hidden=widths(self.hidden), seed=seed)
        fitted = fit(
            [NumberClient(NAME, Measured(tensor(rows), tensor(numbers)), known)],
            network.double(),
            task="regression",
            bins=self.bins_,
            ordinal=self.ordinal,
            hears=hears,
            algorithm=Alone(),
            plan=self._plan(),
            rounds=1,
            seed=seed,
            engine="local",
        )
        self.personal_ = fitted.model(NAME)
        return self

    def predict(self, X: Array) -> Any:
        """One number for each row, (n,), in its set."""
        personal, x = self._ready(X)
        return personal.predict(x, decode=self.decode).numpy()

    def predict_interval(self, X: Array, level: float = 0.9) -> Any:
        """The ends of a central interval with that probability, (n, 2), both in the set."""
        personal, x = self._ready(X)
        return torch.stack(personal.interval(x, level), 1).numpy()

    def allowed(self, X: Array) -> Sets:
        """The set of each row within the bounds."""
        personal, x = self._ready(X)
        found = personal.annotate(x).sets
        if found is None:
            return Sets.whole(len(x), self.bins_.lower, self.bins_.upper)
        return found

    def _ready(self, X: Array) -> tuple[PersonalRegressor, Tensor]:
        check_is_fitted(self)
        return self.personal_, tensor(validate_data(self, X, dtype=np.float64, reset=False))

    def _plan(self) -> Plan:
        return Plan(
            epochs=self.epochs, batch=self.batch, lr=self.lr, decay=self.decay, plain=self.plain
        )

    def _known(self) -> tuple[Numbers, Schema | None, Bins | None]:
        """The knowledge with the λ that was asked for, and what its file declares."""
        known, schema, bins = self.knowledge, None, None
        if isinstance(known, str | Path):
            file = read_numbers(known)
            known, schema, bins = file.knowledge, file.schema, file.bins
        if known is not None and not isinstance(known, Numbers):
            raise ConfigError(f"knowledge must be a Numbers or a path, got {known!r}")
        known = known or Numbers()
        if self.trust is not None:
            known = replace(known, trust=float(self.trust), rely=None)
        return known, schema, bins

    def _bins(self, y: Tensor, known: Numbers, declared: Bins | None) -> Bins:
        if self.lower is not None and self.upper is not None:
            return Bins(float(self.lower), float(self.upper), self.bins)
        if self.lower is not None or self.upper is not None:
            raise ConfigError(f"give both bounds or none, got {self.lower} and {self.upper}")
        if declared is not None:
            return declared
        if known.range is not None:
            raise ConfigError(
                "knowledge with a range needs lower= and upper=: labels do not tell where the "
                "sets may lie"
            )
        low, high = float(y.min()), float(y.max())
        # all alike: any span will do that floating point can cut into bins
        span = high - low if high > low else max(1.0, abs(low))
        return Bins(low - MARGIN * span, high + MARGIN * span, self.bins)


def _viewed(known: Numbers, columns: tuple[int, ...] | None) -> Numbers:
    """The knowledge as a reader of X, which may have other columns too."""
    if columns is None:
        return known

    def seen(model: Any) -> Any:
        return None if model is None else Mask(columns, model)

    return replace(known, point=seen(known.point), range=seen(known.range))
