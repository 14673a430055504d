"""scikit-learn estimators, of one site and of many (extra `sklearn`)."""

from collections.abc import Callable, Mapping, Sequence
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
from .kernel.schema import name_columns
from .knowledge import Knowledge, Mask
from .knowledge.scope import count_inputs, inputs_of
from .knowledge.views import SeenModel
from .models import Client, Member, NumberClient, Regression
from .models.attribution import input_effects, name_effects, usual_row
from .models.own.baseline import FOLDS, own_classes, own_numbers, own_order
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
        known = _with_trust(_read(self._first_knowledge(), self._about), self.trust)
        self.schema_ = None if known.schema is None else add_columns(known.schema, X)
        numeric = {"y_numeric": True} if self._about == "number" else {}
        asked = self._validation() | numeric
        rows, labels = validate_data(self, number_rows(X, self.schema_), y, **asked)
        self.usual_ = usual_row(None, _tensor(rows), self.schema_)
        self.knowledge_ = known
        if self.schema_ is None or known.schema is None:
            return known, rows, labels
        if has_names(X):
            names = [f.name if f.date else f.column or f.name for f in self.schema_.features]
            self.feature_names_in_ = np.array(names, object)
        self.knowledge_ = self._adapt(known)
        return self.knowledge_, rows, labels

    def _first_knowledge(self) -> object:
        return self.knowledge

    def _adapt(self, known: Knowledge) -> Knowledge:
        """Knowledge for rows that have more columns than it names."""
        if known.schema is None or self.schema_ is None:
            return known
        own, wide = tuple(range(len(known.schema.features))), len(self.schema_.features)

        def mask(model: M) -> M:
            if model is None or len(own) == wide:
                return model
            return cast(M, Mask(own, cast(SeenModel, model)))  # gives what the model gives

        prediction, limits = mask(known.prediction), mask(known.range)
        return replace(known, schema=self.schema_, prediction=prediction, range=limits)

    def explain(self, X: AnyRows) -> list[dict[str, float]]:
        """How far each input moves the answer of a row, the greatest first.

        It is the answer (of classes the probability of the one that is answered) less what it
        would be if that input alone had the middle value that it had in training.
        """
        x = self._rows(X)
        effects = input_effects(self.personal_, x, self.usual_)
        return name_effects(effects, None, list(getattr(self, "feature_names_in_", ())))

    def _train(
        self, client: Client | NumberClient, outputs: int, task: Regression | None = None
    ) -> None:
        """The personal model of a federation of one."""
        seed = self._seed()
        rows, schema = client.data.x, self.schema_
        width = rows.shape[1] if schema is None else count_inputs(schema)
        inputs = width + (0 if task is None else task.heard_inputs)
        hears = task is None and self._hears()
        network = mlp(inputs, outputs, hidden=self.hidden, hears=hears, seed=seed).double()
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
            seed=seed,
            engine="local",
            task=task,
            trust="auto" if self.trust == "auto" else "own",
        )
        self.personal_ = fitted.model(client.id)
        self.trust_ = self.personal_.knowledge.trust_at_prediction

    def _train_estimator(self, known: Any, classes: int) -> Any:
        """The member that `estimator` asks for, what it says of unseen rows, and λ."""
        seed = self._seed()
        inputs = inputs_of(self.schema_)
        rows = encode(known, inputs)
        member: object
        if self.estimator == "local best":
            if len(rows) < FOLDS:
                raise ConfigError(f"needs at least {FOLDS} rows, got n_samples = {len(rows)}")
            schema = self.schema_
            ordered = schema is not None and schema.ordered
            if not classes:
                own = own_numbers(rows, seed=seed)
            else:
                own = (own_order if ordered else own_classes)(rows, classes, seed=seed)
            best = own.local_best("", rows.y)
            member, held = best, best.held
        elif hasattr(self.estimator, "fit"):
            member, held = fit_estimator(
                lambda: clone(self.estimator),
                rows,
                hears=self._hears(),
                classes=classes,
                seed=seed,
            )
        else:
            raise ConfigError(
                f"estimator must be 'local best', 'network' or have fit, got {self.estimator!r}"
            )
        self.trust_ = self.knowledge_.trust_at_prediction
        if self.trust == "auto":
            self.trust_ = max(choose_trust(held, known), self.knowledge_.least_trust)
        return member, held, inputs

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

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


class _ClassSite(ClassifierMixin, _Site):  # type: ignore[misc]
    """What classifiers do: labels of any kind in the order of the knowledge."""

    _about = "class"

    def _open_classes(self, X: AnyRows, y: ArrayLike) -> tuple[Knowledge, Examples, _Array]:
        known, rows, labels = self._open(X, y)
        check_classification_targets(labels)
        spoken = order_labels(labels, known, self.classes)  # in the order of the knowledge
        self.classes_, self.order_ = np.unique(spoken, return_index=True)
        if len(self.classes_) != len(spoken):
            raise ConfigError(f"classes must differ, got {list(spoken)}")
        if len(spoken) < 2:
            raise FedloreError(
                f"a classifier needs at least 2 classes, the labels have one class: '{spoken[0]}'"
            )
        return known, Examples(_tensor(rows), place_labels(labels, spoken)), spoken

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


class KnowledgeClassifier(_ClassSite):
    """A model of one site behind its knowledge: probability exactly 0 outside the range.

    `knowledge` is a `Knowledge`, the path of a knowledge.toml, or None. `trust` is λ, in place of
    the knowledge's own; "auto" chooses it on held-out rows. `classes` are the labels in the order
    of the knowledge's classes, where they are not called alike. Knowledge reads raw units, so
    nothing before it in a pipeline may rescale its columns. `estimator` is what learns, behind
    the range and beside the expert: "local best", linear models and trees weighed by
    cross-validation; any classifier of scikit-learn with `predict_proba`; or "network", which the
    parameters from `hidden` to `decay` belong to.
    """

    def __init__(
        self,
        knowledge: Knowledge | str | Path | None = None,
        *,
        trust: float | Literal["auto"] | None = None,
        classes: ArrayLike | None = None,
        estimator: Any = "local best",
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
        known, examples, spoken = self._open_classes(X, y)
        if self.estimator == "network":
            self._train(Client(_NAME, examples, known), len(spoken))
        else:
            heard = known.annotate(examples, Classes(tuple(map(str, spoken))))
            member, _, inputs = self._train_estimator(heard, len(spoken))
            self.personal_ = GuardedClassifier(known, member, self.trust_, inputs)
        return self


class KnowledgeRegressor(RegressorMixin, _Site):  # type: ignore[misc]
    """A number for each row of one site: every prediction lies in its set exactly.

    `knowledge` is a `Knowledge`, the path of a knowledge.toml with a [target], or None. Bounds are
    `lower` and `upper`, else those of the file, else the span of the training labels and a
    twentieth of it on both sides: these are one site's own labels, and stay in its own model.
    With a range the bounds must be declared, since labels do not tell where S(x) may lie.
    Knowledge reads raw units, so nothing before it in a pipeline may rescale its columns.
    `estimator` is "local best", any regressor of scikit-learn, or "network": numbers as bins.
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
        estimator: Any = "local best",
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
        self.bins_ = _choose_bins(self, _tensor(numbers), known)
        task = Regression(self.bins_, self.ordinal, self._hears())
        measured = Measured(_tensor(rows), _tensor(numbers))
        if self.estimator == "network":
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


class _ManySites:
    """What both estimators of a federation do: rows go to sites by `groups`, answers come back."""

    knowledge: Any
    rounds: int
    trust = None  # each site's ensemble weighs its expert by its own rows

    @property
    def _of_sites(self) -> bool:
        """Whether each site has knowledge of its own, by its name."""
        return isinstance(self.knowledge, Mapping)

    def _first_knowledge(self) -> object:
        return next(iter(self.knowledge.values()), None) if self._of_sites else self.knowledge

    def _know(
        self, site: object, common: Knowledge, about: Literal["class", "number"]
    ) -> Knowledge:
        """What one site knows: its own of a mapping, nothing but the columns where it has none."""
        if not self._of_sites:
            return common
        if site not in self.knowledge:
            return Knowledge(schema=common.schema, line=common.line)
        found: Knowledge = self._adapt(_read(self.knowledge[site], about))  # type: ignore[attr-defined]
        return found

    def _share(self, n: int, groups: ArrayLike | None) -> list[tuple[object, _Array]]:
        """The sites in the order of their names, and which rows each has, (n,) bool."""
        if groups is None:
            return [(_NAME, np.ones(n, dtype=bool))]
        owner = np.asarray(groups)
        if owner.shape != (n,):
            raise ConfigError(f"groups must name a site for each of {n} rows, got {owner.shape}")
        nameless = [row for row, site in enumerate(owner.tolist()) if site is None or site != site]
        if nameless:
            raise ConfigError(f"groups must name a site for each row, row {nameless[0]} has none")
        return [(site, owner == site) for site in np.unique(owner).tolist()]

    def _federate(self, clients: Sequence[Client | NumberClient], **more: Any) -> None:
        few = [c for c in clients if len(c.data) < FOLDS]
        if few:
            raise ConfigError(
                f"site '{few[0].id}' has n_samples = {len(few[0].data)}, a site needs at least "
                f"{FOLDS} rows"
            )
        members: list[Member[Any]] = list(clients)
        self.fitted_ = fit(members, recipe="lore", rounds=self.rounds, seed=self._seed(), **more)  # type: ignore[attr-defined]
        self.sites_ = {client.id: self.fitted_.model(client.id).double() for client in clients}
        self.personal_ = next(iter(self.sites_.values()))

    def _answer(
        self, x: Tensor, groups: ArrayLike | None, ask: Callable[[Any, Tensor], Tensor]
    ) -> Tensor:
        """Each row by its site's model; rows of no known site by the mean of all of them."""
        found: Tensor | None = None
        for site, rows in self._share(len(x), groups):
            mine = x[torch.from_numpy(rows)]
            known = self.sites_.get(str(site)) if groups is not None else None
            models = list(self.sites_.values()) if known is None else [known]
            said = torch.stack([ask(model, mine) for model in models]).mean(0)
            if found is None:
                found = said.new_empty(len(x), *said.shape[1:])
            found[torch.from_numpy(rows)] = said
        assert found is not None  # there is at least one row
        return found


class LoreClassifier(_ManySites, _ClassSite):
    """A federation of sites by recipe = lore: `groups` says which site each row belongs to.

    `knowledge` is that of all sites, or a mapping from a site's name to its own; a site that it
    does not name knows nothing. With `groups` a row is answered by its site's own model, inside
    its range; without, and at a site that was not there, by the mean of all sites' models.
    """

    def __init__(
        self,
        knowledge: Knowledge | str | Path | Mapping[object, Any] | None = None,
        *,
        classes: ArrayLike | None = None,
        ordered: bool | None = None,
        rounds: int = 10,
        random_state: Seed = 0,
    ) -> None:
        self.knowledge, self.classes, self.ordered = knowledge, classes, ordered
        self.rounds, self.random_state = rounds, random_state

    def fit(self, X: AnyRows, y: ArrayLike, groups: ArrayLike | None = None) -> "LoreClassifier":
        """Train over the sites that `groups` (n,) names; without it all rows are one site's."""
        known, examples, spoken = self._open_classes(X, y)
        schema = known.schema or name_columns(
            [f"x{i}" for i in range(examples.x.shape[1])], [str(one) for one in spoken]
        )
        schema = replace(schema, ordered=schema.ordered if known.schema else bool(self.ordered))
        clients = []
        for site, rows in self._share(len(examples), groups):
            own = replace(self._know(site, known, "class"), schema=schema)
            clients.append(Client(str(site), examples[torch.from_numpy(rows)], own))
        self._federate(clients, ordered=self.ordered)
        return self

    def predict(self, X: AnyRows, groups: ArrayLike | None = None) -> _Array:
        """The label of each row, (n,)."""
        x = self._rows(X)
        return np.asarray(self.classes_[self._chances(x, groups).argmax(1)])

    def predict_proba(self, X: AnyRows, groups: ArrayLike | None = None) -> _Array:
        """Probabilities in the order of classes_, (n, k)."""
        return self._chances(self._rows(X), groups)

    def _chances(self, x: Tensor, groups: ArrayLike | None) -> _Array:
        said = self._answer(x, groups, lambda model, rows: model.predict_proba(rows).double())
        said = said / said.sum(1, keepdim=True)
        return np.asarray(said.numpy()[:, self.order_])


class LoreRegressor(_ManySites, RegressorMixin, _Site):  # type: ignore[misc]
    """The same of a number: see `LoreClassifier`, and `KnowledgeRegressor` for the bounds."""

    _about = "number"

    def __init__(
        self,
        knowledge: Knowledge | str | Path | Mapping[object, Any] | None = None,
        *,
        lower: float | None = None,
        upper: float | None = None,
        bins: int = 50,
        rounds: int = 10,
        random_state: Seed = 0,
    ) -> None:
        self.knowledge, self.lower, self.upper, self.bins = knowledge, lower, upper, bins
        self.rounds, self.random_state = rounds, random_state

    def fit(self, X: AnyRows, y: ArrayLike, groups: ArrayLike | None = None) -> "LoreRegressor":
        """Train over the sites that `groups` (n,) names; without it all rows are one site's."""
        known, rows, numbers = self._open(X, y)
        self.bins_ = _choose_bins(self, _tensor(numbers), known)
        measured = Measured(_tensor(rows), _tensor(numbers))
        clients = [
            NumberClient(
                str(site), measured[torch.from_numpy(mine)], self._know(site, known, "number")
            )
            for site, mine in self._share(len(rows), groups)
        ]
        self._federate(clients, bins=self.bins_)
        return self

    def predict(self, X: AnyRows, groups: ArrayLike | None = None) -> _Array:
        """One number for each row, (n,)."""
        x = self._rows(X)
        return np.asarray(self._answer(x, groups, lambda model, rows: model.predict(rows)).numpy())


def _choose_bins(asked: Any, y: Tensor, known: Knowledge) -> Bins:
    """The bounds that were asked for, else those of the knowledge, else around the labels."""
    if asked.lower is not None and asked.upper is not None:
        return Bins(float(asked.lower), float(asked.upper), asked.bins)
    if asked.lower is not None or asked.upper is not None:
        raise ConfigError(f"give both bounds or none, got {asked.lower} and {asked.upper}")
    if known.bins is not None:
        return known.bins
    if known.range is not None:
        raise ConfigError(
            "knowledge with a range needs lower= and upper=: labels do not tell where the sets may "
            "lie"
        )
    return Bins.around(y, asked.bins)


def _read(known: object, word: Literal["class", "number"]) -> Knowledge:
    """Knowledge of this axis: as it is, from its file, or none at all."""
    path = isinstance(known, str | Path)
    found = Knowledge.read(known) if path else known or Knowledge()  # type: ignore[arg-type]
    if not isinstance(found, Knowledge):
        raise ConfigError(f"knowledge must be a Knowledge or a path, got {known!r}")
    # what was made in Python says only of a number what it is about
    if found.answers.word != word and (word == "class" or path):
        raise ConfigError(f"this knowledge is about a {found.answers.word}, not about a {word}")
    return found


def _with_trust(known: Knowledge, trust: object) -> Knowledge:
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
