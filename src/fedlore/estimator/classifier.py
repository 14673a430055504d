"""A classifier of one site's own rows, inside the range its expert allows."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_is_fitted,
    validate_data,
)

from ..algorithms import Alone, Plan
from ..core.examples import Examples
from ..core.nets import mlp
from ..engine import Client
from ..engine.tuning import fit
from ..errors import ConfigError, FedloreError
from ..knowledge import Knowledge, Mask
from ..personal.classifier import Personal
from .site import NAME, columns_of, seed_of, tensor, widths

Array = Any  # what scikit-learn accepts: arrays, lists, data frames


# scikit-learn asks for these base classes; everything of ours below is composed
class KnowledgeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network seen through one site's knowledge: probability exactly 0 outside the range.

    `knowledge` is a `Knowledge`, the path of a knowledge.toml, or None. `trust` is λ, in place of
    the knowledge's own; "auto" chooses it on held-out rows. `classes` are the labels in the order
    of the knowledge's classes, where they are not called alike. Knowledge reads raw units, so
    nothing before it in a pipeline may rescale its columns; the network's inputs are
    standardised here.
    """

    def __init__(
        self,
        knowledge: Knowledge | str | Path | None = None,
        *,
        trust: float | Literal["auto"] | None = None,
        classes: Any = None,
        hidden: Any = (64,),
        hears: bool = False,
        plain: float = 0.0,
        epochs: int = 60,
        batch: int | None = 32,
        lr: float = 0.02,
        decay: float = 5e-4,
        random_state: Any = 0,
    ) -> None:
        self.knowledge = knowledge
        self.trust = trust
        self.classes = classes
        self.hidden = hidden
        self.hears = hears
        self.plain = plain
        self.epochs = epochs
        self.batch = batch
        self.lr = lr
        self.decay = decay
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> "KnowledgeClassifier":
        """Train on the rows of X (n, d) in raw units and their labels y (n,)."""
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        known = self._known()
        spoken = _labels(labels, known, self.classes)  # in the order of the knowledge
        self.classes_, self.order_ = np.unique(spoken, return_index=True)
        if len(self.classes_) != len(spoken):
            raise ConfigError(f"classes must differ, got {list(spoken)}")
        if len(spoken) < 2:
            raise FedloreError(
                f"a classifier needs at least 2 classes, the labels have one class: {spoken[0]!r}"
            )
        self.knowledge_ = _viewed(known, getattr(self, "feature_names_in_", None), rows.shape[1])
        hears = self.hears and (known.pkm is not None or known.rkm is not None)
        seed = seed_of(self.random_state)
        network = mlp(
            rows.shape[1], len(spoken), hidden=widths(self.hidden), hears=hears, seed=seed
        )
        fitted = fit(
            [Client(NAME, Examples(tensor(rows), _places(labels, spoken)), self.knowledge_)],
            network.double(),
            trust="auto" if self.trust == "auto" else "own",
            algorithm=Alone(),
            plan=self._plan(),
            rounds=1,
            seed=seed,
            engine="local",
        )
        self.personal_ = fitted.model(NAME)
        self.trust_ = self.personal_.knowledge.reliance
        return self

    def predict(self, X: Array) -> Any:
        """The label of each row, (n,); one that the range allows."""
        personal, x = self._ready(X)
        back = np.argsort(self.order_)  # from the knowledge's order to that of classes_
        return self.classes_[back[personal.predict(x).numpy()]]

    def predict_proba(self, X: Array) -> Any:
        """Probabilities in the order of classes_, (n, k); exactly 0 outside the range."""
        personal, x = self._ready(X)
        return personal.predict_proba(x).numpy()[:, self.order_]

    def allowed(self, X: Array) -> Any:
        """Which labels the range allows, in the order of classes_, (n, k) bool."""
        personal, x = self._ready(X)
        found = personal.annotate(x).allowed
        if found is None:
            found = torch.ones(len(x), len(self.classes_), dtype=torch.bool)
        return found.numpy()[:, self.order_]

    def _ready(self, X: Array) -> tuple[Personal, torch.Tensor]:
        check_is_fitted(self)
        return self.personal_, tensor(validate_data(self, X, dtype=np.float64, reset=False))

    def _plan(self) -> Plan:
        return Plan(
            epochs=self.epochs, batch=self.batch, lr=self.lr, decay=self.decay, plain=self.plain
        )

    def _known(self) -> Knowledge:
        """The knowledge with the λ that was asked for."""
        known = self.knowledge
        if isinstance(known, str | Path):
            known = Knowledge.read(known)
        if known is not None and not isinstance(known, Knowledge):
            raise ConfigError(f"knowledge must be a Knowledge or a path, got {known!r}")
        known = known or Knowledge()
        if self.trust is None or self.trust == "auto":
            return known
        if not isinstance(self.trust, float | int | np.number):
            raise ConfigError(f"trust must be a number in [0, 1], auto or None, got {self.trust!r}")
        return replace(known, trust=float(self.trust), rely=None)


def _labels(y: Any, known: Knowledge, classes: Any) -> Any:
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
    strange = [label for label in np.unique(y).tolist() if label not in found.tolist()]
    if strange:
        raise FedloreError(
            f"label {strange[0]!r} is none of {', '.join(map(repr, found.tolist()))}"
        )
    return found


def _places(y: Any, spoken: Any) -> torch.Tensor:
    """Labels as positions in the knowledge's order, (n,) int64."""
    own, which = np.unique(y, return_inverse=True)
    place = {label: i for i, label in enumerate(spoken.tolist())}
    return torch.tensor([place[label] for label in own.tolist()])[torch.as_tensor(which)]


def _viewed(known: Knowledge, names: Any, width: int) -> Knowledge:
    """The knowledge as a reader of X, which may have other columns too."""
    if known.schema is None:
        return known
    columns = columns_of(known.schema, names, width)
    if columns is None:
        return known
    return replace(
        known,
        pkm=None if known.pkm is None else Mask(columns, known.pkm),
        rkm=None if known.rkm is None else Mask(columns, known.rkm),
    )
