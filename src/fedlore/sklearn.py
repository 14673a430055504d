"""scikit-learn estimators for one site's own data (extra `sklearn`)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .algorithms import Alone, Plan
from .answers import Bins, Classes, Measured, Sets
from .core.examples import Examples
from .core.nets import mlp
from .data.rows.table import add_columns, has_names, number_rows, order_labels, place_labels
from .engine import fit
from .errors import ConfigError, FedloreError
from .knowledge import Knowledge, Mask
from .knowledge.scope import count_inputs, inputs_of
from .knowledge.views import SeenModel
from .models import Client, Member, NumberClient, Regression
from .models.own.baseline import own_classes, own_numbers, own_order
from .models.own.guarded import (
    GuardedClassifier,
    GuardedRegressor,
    choose_trust,
    encode,
    fit_estimator,
    mix_numbers,
)
from .models.regressor import Decode

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise ModuleNotFoundError(
        "scikit-learn is missing: pip install 'fedlore[sklearn]'", name="sklearn"
    ) from None

_FAULT = "estimator"  # the code of errors raised here

_Array = NDArray[np.generic]
AnyRows = Any  # an array, a frame of any kind, columns by name, records
Hidden = int | Sequence[int]
Seed = int | np.random.RandomState | None

M = TypeVar("M", bound=Callable[[Tensor], object] | None)

_NAME = "site"  # of the only client


# scikit-learn asks for base classes; everything of ours below is composed
class _Site(BaseEstimator):  # type: ignore[misc]
    """What both estimators do: knowledge, rows and training of a federation of one."""

    _about: ClassVar[Literal["class", "number"]]

    def _open(self, X: AnyRows, y: ArrayLike) -> tuple[Knowledge, _Array, _Array]:
        """The first rows that an estimator sees, checked, and the knowledge that reads them."""
        known = _trusted(_read(self.knowledge, self._about), self.trust)
        self.schema_ = None if known.schema is None else add_columns(known.schema, X)
        numeric = {"y_numeric": True} if self._about == "number" else {}
        asked = self._validation() | numeric
        rows, labels = validate_data(self, number_rows(X, self.schema_), y, **asked)
        self.knowledge_ = known
        if self.schema_ is None or known.schema is None:
            return known, rows, labels
        if has_names(X):
            names = [f.column or f.name for f in self.schema_.features]
            self.feature_names_in_ = np.array(names, object)
        own = range(len(known.schema.features))

        def seen(model: M) -> M:
            if model is None or len(own) == rows.shape[1]:
                return model
            return cast(M, Mask(tuple(own), cast(SeenModel, model)))  # gives what the model gives

        prediction, limits = seen(known.prediction), seen(known.range)
        self.knowledge_ = replace(known, schema=self.schema_, prediction=prediction, range=limits)
        return self.knowledge_, rows, labels

    def _train(
        self, client: Client | NumberClient, outputs: int, task: Regression | None = None
    ) -> None:
        """The personal model of a federation of one."""
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        rows, schema = client.data.x, self.schema_
        width = rows.shape[1] if schema is None else count_inputs(schema)
        inputs = width + (0 if task is None else task.heard_inputs)
        hears = task is None and self._hears()
        network = mlp(inputs, outputs, hidden=self.hidden, hears=hears, seed=int(seed)).double()
        plan = Plan(
            epochs=self.epochs, batch=self.batch, lr=self.lr, decay=self.decay, plain=self.plain
        )
        site: Member[Any] = client
        fitted = fit(
            [site],
            network,
            algorithm=Alone(),
            plan=plan,
            rounds=1,
            seed=int(seed),
            engine="local",
            task=task,
            trust="auto" if self.trust == "auto" else "own",
        )
        self.personal_ = fitted.model(client.id)
        self.trust_ = self.personal_.knowledge.trust_at_prediction

    def _train_estimator(self, known: Any, classes: int) -> Any:
        """The member that `estimator` asks for, what it says of unseen rows, and λ."""
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        inputs = inputs_of(self.schema_)
        rows = encode(known, inputs)
        member: object
        if self.estimator == "local best":
            schema = self.schema_
            ordered = schema is not None and schema.ordered
            if not classes:
                own = own_numbers(rows, seed=int(seed))
            else:
                own = (own_order if ordered else own_classes)(rows, classes, seed=int(seed))
            member, held = own.best.member, own.best.held
        elif hasattr(self.estimator, "fit"):
            member, held = fit_estimator(
                lambda: clone(self.estimator),
                rows,
                hears=self._hears(),
                classes=classes,
                seed=int(seed),
            )
        else:
            raise ConfigError(f"estimator must be 'local best' or have fit, got {self.estimator!r}")
        self.trust_ = self.knowledge_.trust_at_prediction
        if self.trust == "auto":
            self.trust_ = max(choose_trust(held, known), self.knowledge_.least_trust)
        return member, held, inputs

    def _hears(self) -> bool:
        known = self.knowledge_
        return self.hears and (known.prediction is not None or known.range is not None)

    def _rows(self, X: AnyRows) -> Tensor:
        """Rows to be answered, (n, d), by an estimator that has been fitted."""
        check_is_fitted(self)
        rows = number_rows(X, self.schema_)
        if self.schema_ is None or not has_names(X):  # else they were found by their names
            rows = validate_data(self, rows, reset=False, **self._validation())
        return _tensor(rows)

    def _validation(self) -> dict[str, object]:
        """What scikit-learn is to make sure of; where values may be missing, the knowledge says."""
        holes = self.schema_ is not None and any(f.may_miss for f in self.schema_.features)
        return {"dtype": np.float64, "ensure_all_finite": "allow-nan" if holes else True}


class KnowledgeClassifier(ClassifierMixin, _Site):  # type: ignore[misc]
    """A network seen through one site's knowledge: probability exactly 0 outside the range.

    `knowledge` is a `Knowledge`, the path of a knowledge.toml, or None. `trust` is λ, in place of
    the knowledge's own; "auto" chooses it on held-out rows. `classes` are the labels in the order
    of the knowledge's classes, where they are not called alike. Knowledge reads raw units, so
    nothing before it in a pipeline may rescale its columns; the network's inputs are
    standardised here. `estimator` is any classifier of scikit-learn with `predict_proba`, or
    "local best", the best of linear models and trees by cross-validation: it stands in place of
    the network, behind the range and beside the expert.
    """

    _about = "class"

    def __init__(
        self,
        knowledge: Knowledge | str | Path | None = None,
        *,
        trust: float | Literal["auto"] | None = None,
        classes: ArrayLike | None = None,
        estimator: Any = None,
        hidden: Hidden = (64,),
        hears: bool = False,
        plain: float = 0.0,
        epochs: int = 60,
        batch: int | None = 32,
        lr: float = 0.02,
        decay: float = 5e-4,
        random_state: Seed = 0,
    ) -> None:
        self.knowledge, self.trust, self.classes = knowledge, trust, classes
        self.estimator = estimator
        self.hidden, self.hears, self.plain = hidden, hears, plain
        self.epochs, self.batch, self.lr, self.decay = epochs, batch, lr, decay
        self.random_state = random_state

    def fit(self, X: AnyRows, y: ArrayLike) -> "KnowledgeClassifier":
        """Train on the rows of X (n, d) in raw units and their labels y (n,)."""
        known, rows, labels = self._open(X, y)
        check_classification_targets(labels)
        spoken = order_labels(labels, known, self.classes)  # in the order of the knowledge
        self.classes_, self.order_ = np.unique(spoken, return_index=True)
        if len(self.classes_) != len(spoken):
            raise ConfigError(f"classes must differ, got {list(spoken)}")
        if len(spoken) < 2:
            raise FedloreError(
                f"a classifier needs at least 2 classes, the labels have one class: {spoken[0]!r}"
            )
        examples = Examples(_tensor(rows), place_labels(labels, spoken))
        if self.estimator is None:
            self._train(Client(_NAME, examples, known), len(spoken))
        else:
            heard = known.annotate(examples, Classes(tuple(map(str, spoken))))
            member, _, inputs = self._train_estimator(heard, len(spoken))
            self.personal_ = GuardedClassifier(known, member, self.trust_, inputs)
        return self

    def predict(self, X: AnyRows) -> _Array:
        """The label of each row, (n,); one that the range allows."""
        x = self._rows(X)
        back = np.argsort(self.order_)  # from the knowledge's order to that of classes_
        return np.asarray(self.classes_[back[self.personal_.predict(x).numpy()]])

    def predict_proba(self, X: AnyRows) -> _Array:
        """Probabilities in the order of classes_, (n, k); exactly 0 outside the range."""
        x = self._rows(X)
        return np.asarray(self.personal_.predict_proba(x).numpy()[:, self.order_])

    def allowed(self, X: AnyRows) -> _Array:
        """Which labels the range allows, in the order of classes_, (n, k) bool."""
        x = self._rows(X)
        allowed = self.personal_.annotate(x).allowed
        if allowed is None:
            allowed = torch.ones(len(x), len(self.classes_), dtype=torch.bool)
        return np.asarray(allowed.numpy()[:, self.order_])


class KnowledgeRegressor(RegressorMixin, _Site):  # type: ignore[misc]
    """Numbers as bins, decoded inside S(x): every prediction lies in the set exactly.

    `knowledge` is a `Knowledge`, the path of a knowledge.toml with a [target], or None. Bounds are
    `lower` and `upper`, else those of the file, else the span of the training labels and a
    twentieth of it on both sides: these are one site's own labels, and stay in its own model.
    With a range the bounds must be declared, since labels do not tell where S(x) may lie.
    Knowledge reads raw units, so nothing before it in a pipeline may rescale its columns.
    `estimator` is any regressor of scikit-learn or "local best", in place of the network.
    """

    _about = "number"

    def __init__(
        self,
        knowledge: Knowledge | str | Path | None = None,
        *,
        lower: float | None = None,
        upper: float | None = None,
        bins: int = 50,
        trust: float | Literal["auto"] | None = None,
        decode: Decode = "mean",
        estimator: Any = None,
        hidden: Hidden = (64,),
        hears: bool = False,
        ordinal: float = 1.0,
        plain: float = 0.0,
        epochs: int = 60,
        batch: int | None = 32,
        lr: float = 0.02,
        decay: float = 5e-4,
        random_state: Seed = 0,
    ) -> None:
        self.knowledge, self.lower, self.upper, self.bins = knowledge, lower, upper, bins
        self.trust, self.decode, self.ordinal = trust, decode, ordinal
        self.estimator = estimator
        self.hidden, self.hears, self.plain = hidden, hears, plain
        self.epochs, self.batch, self.lr, self.decay = epochs, batch, lr, decay
        self.random_state = random_state

    def fit(self, X: AnyRows, y: ArrayLike) -> "KnowledgeRegressor":
        """Train on the rows of X (n, d) in raw units and their numbers y (n,)."""
        known, rows, numbers = self._open(X, y)
        self.bins_ = self._bins(_tensor(numbers), known)
        task = Regression(self.bins_, self.ordinal, self._hears())
        measured = Measured(_tensor(rows), _tensor(numbers))
        if self.estimator is None:
            self._train(NumberClient(_NAME, measured, known), self.bins_.k, task)
            return self
        about = known.of_number(self.bins_).annotate(measured)
        member, held, inputs = self._train_estimator(about, 0)
        misses = mix_numbers(held, about, self.trust_) - measured.numbers()
        self.personal_ = GuardedRegressor(known, member, self.trust_, self.bins_, misses, inputs)
        return self

    def predict(self, X: AnyRows) -> _Array:
        """One number for each row, (n,), in its set."""
        x = self._rows(X)
        return np.asarray(self.personal_.predict(x, decode=self.decode).numpy())

    def predict_interval(self, X: AnyRows, level: float = 0.9) -> _Array:
        """The ends of a central interval with that probability, (n, 2), both in the set."""
        x = self._rows(X)
        return np.asarray(torch.stack(self.personal_.interval(x, level), 1).numpy())

    def allowed(self, X: AnyRows) -> Sets:
        """The set of each row within the bounds."""
        x = self._rows(X)
        found = self.personal_.annotate(x).sets
        return Sets.whole(len(x), self.bins_.lower, self.bins_.upper) if found is None else found

    def _bins(self, y: Tensor, known: Knowledge) -> Bins:
        if self.lower is not None and self.upper is not None:
            return Bins(float(self.lower), float(self.upper), self.bins)
        if self.lower is not None or self.upper is not None:
            raise ConfigError(f"give both bounds or none, got {self.lower} and {self.upper}")
        if known.bins is not None:
            return known.bins
        if known.range is not None:
            raise ConfigError(
                "knowledge with a range needs lower= and upper=: labels do not tell where the "
                "sets may lie"
            )
        return Bins.around(y, self.bins)


def _read(known: object, word: Literal["class", "number"]) -> Knowledge:
    """Knowledge of this axis: as it is, from its file, or none at all."""
    found = Knowledge.read(known) if isinstance(known, str | Path) else known or Knowledge()
    if not isinstance(found, Knowledge):
        raise ConfigError(f"knowledge must be a Knowledge or a path, got {known!r}")
    # what was made in Python says only of a number what it is about
    if found.answers.word != word and (word == "class" or isinstance(known, str | Path)):
        raise ConfigError(f"this knowledge is about a {found.answers.word}, not about a {word}")
    return found


def _trusted(known: Knowledge, trust: object) -> Knowledge:
    """The knowledge with the λ that was asked for."""
    if trust is None or trust == "auto":
        return known
    if not isinstance(trust, float | int | np.number):
        raise ConfigError(f"trust must be a number in [0, 1], auto or None, got {trust!r}")
    rows = None if known.row_trust is None else known.row_trust.stay()  # the owner's word
    return replace(known, trust=float(trust), reliance=None, row_trust=rows)


def _tensor(x: ArrayLike) -> Tensor:
    """A copy in float64: the array may be read-only, and what an expert compares stays exact."""
    return torch.tensor(np.asarray(x, dtype=np.float64))
