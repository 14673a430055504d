"""The terms that go with every task: what all sites agree on, and all that they train by."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..algorithms import Plan
from ..algorithms.catalog import Method
from ..answers import HEARD, Bins
from ..config import build
from ..core.scaler import Inputs, Scaler, leave_unscaled
from ..core.tree import Payload
from ..core.wire import Task, wanted_of
from ..engine import Recipe
from ..engine.loop import Weights
from ..engine.lore import Agreement, SearchSpace, Trial
from ..errors import ConfigError
from ..kernel.schema import Schema
from ..knowledge.files import Target
from ..knowledge.scope import inputs_of
from ..models.tasks import Regression
from ..privacy import Filter, Privacy
from ..privacy.filters import Placement, filter_context
from ..privacy.settings import filters_of
from ..version import __version__
from .settings import Federation, Model

_FAULT = "terms"  # the code of errors raised here


def fedlore_version() -> str:
    """What is compared between a coordinator and its sites."""
    return __version__


def describe_difference(*, site: str, coordinator: str) -> str:
    """Why two versions do not work together, and what to do about it."""
    return (
        f"this site runs fedlore {site}, the coordinator {coordinator}: install the same version "
        "on both sides"
    )


@dataclass(frozen=True)
class Terms:
    """What a site is told with every task, and all that it trains by."""

    run: str  # a name for one training, also across restarts
    federation: str
    version: str
    participants: int
    rounds: int
    seed: int
    weights: Weights
    schema: Schema
    model: Model
    algorithm: Method
    plan: Plan
    privacy: Privacy = field(default_factory=Privacy)
    sample: float = 1.0  # share of the sites asked in each round
    least: int = 0  # a round with fewer answers does not count
    largest: float = 1000.0  # the largest norm of an upload: sites check it where it is hidden
    excess: float = 8.0  # times the usual norm: sites check that, too, where it is hidden
    shift: tuple[float, ...] | None = None  # the common scaling, once it is known
    spread: tuple[float, ...] | None = None
    target: Target | None = None  # of a number
    search_space: SearchSpace | None = (
        None  # the candidates that a trial may be of; None: nothing is chosen
    )
    fills: tuple[float, ...] | None = None  # what stands for a missing value, once it is known

    def text(self) -> str:
        """JSON; Python writes floats so that reading gives the same bits."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    def agreement(self) -> "Terms":
        """What a site agrees to: all but a run's name, who takes part in it, and its scaling."""
        return dataclasses.replace(
            self, run="", version="", participants=0, least=0, shift=None, spread=None, fills=None
        )

    def fingerprint(self) -> str:
        """By which a site knows the terms that it has agreed to."""
        return hashlib.sha256(self.agreement().text().encode()).hexdigest()

    def parts(self) -> list[tuple[str, str]]:
        """The kinds of model and the algorithms that these terms name, for policies."""
        found = [("model", self.model.kind), ("algorithm", self.algorithm.name.lower())]
        candidates = () if self.search_space is None else self.search_space.candidates
        if any(one.head != "classes" for one in candidates):  # a perceptron with another head
            found.append(("model", "mlp"))
        if any(one.private for one in candidates):
            found.append(("algorithm", "fedper"))
        return list(dict.fromkeys(found))

    def scaled(self, scaler: Scaler) -> "Terms":
        shift, spread = tuple(scaler.shift.tolist()), tuple(scaler.spread.tolist())
        fills = None if scaler.inputs is None else tuple(scaler.inputs.fills.tolist())
        return dataclasses.replace(self, shift=shift, spread=spread, fills=fills)

    def scaler(self) -> Scaler | None:
        """The common scaling, once it is known."""
        inputs = self.inputs
        if self.shift is None or self.spread is None:
            if inputs is None:
                return None
            return leave_unscaled(inputs).widen(self.columns - len(self.schema.features))
        said = {"shift": self.shift, "spread": self.spread}
        said |= {} if self.fills is None else {"fills": self.fills}
        tensors = {name: torch.tensor(v, dtype=torch.float64) for name, v in said.items()}
        return Scaler.read(tensors, inputs)

    @property
    def inputs(self) -> Inputs | None:
        """How rows reach a network, where features are not plain numbers."""
        return inputs_of(self.schema)

    @property
    def features(self) -> int:
        """How many inputs a network has for a row, what it hears of a number among them."""
        inputs = self.inputs
        own = len(self.schema.features) if inputs is None else inputs.width
        return own + self.columns - len(self.schema.features)

    @property
    def bins(self) -> Bins | None:
        """How the number is cut, where one is learned."""
        return None if self.target is None else self.target.cut()

    @property
    def columns(self) -> int:
        """Columns of a row in a site's sums: features, and what the network of a number hears."""
        told = self.target is not None and self.model.widens and self.search_space is None
        return len(self.schema.features) + HEARD * told

    def task(self) -> Regression | None:
        """What is learned of a number, by the one recipe of terms without candidates."""
        if self.bins is None:
            return None
        hears = self.columns > len(self.schema.features)
        return Regression(self.bins, hears=hears, between=self.model.lipschitz)

    def common(self) -> Agreement:
        """What all candidates share, where there is something to choose from."""
        if self.search_space is None:
            raise ConfigError("these terms have no candidates to choose from")
        features, classes = self.features, len(self.schema.classes)
        model, seed = self.model, self.seed
        return Agreement(
            features,
            classes,
            self.search_space,
            self.plan,
            self.rounds,
            seed,
            self.sample,
            self.algorithm.make(),
            self.weights,
            scaler=self.scaler(),
            hidden=model.hidden,
            ordered=self.schema.ordered and self.target is None,
            bins=self.bins,
            make_model=None
            if model.kind == "mlp"
            else lambda hears: model.make(features, classes, seed=seed, hears=hears),
        )

    def gram(self) -> int:
        """How many features the one-shot model has, 0 without one."""
        one_shot = None if self.search_space is None else self.search_space.one_shot
        if one_shot is None:
            return 0
        return len(one_shot.basis.groups(one_shot.columns(self.features)))

    def wanted(self, task: Task, uploads: Sequence[str]) -> Payload:
        """Tensors like those of a plain answer to a task, by an algorithm with such uploads."""
        return wanted_of(task, uploads, self.columns, terms=self.gram(), inputs=self.inputs)

    def filters(self, recipe: Recipe, place: Placement) -> list[Filter]:
        """What stands between the sites and the coordinator, made at one of them."""
        around = filter_context(
            recipe.algorithm,
            sites=self.participants,
            rounds=self.rounds,
            weights=recipe.weights,
            aggregate=recipe.aggregate,
            sample=self.sample,
            least=self.least or None,
            sums=recipe.one_shot is not None,
        )
        return filters_of(self.privacy, around, place)

    def recipe(self, trial: str = "") -> Recipe:
        """The same recipe on either side: even the initial weights follow from the seed.

        Where there are candidates it is that of a trial, or of the first of them.
        """
        if self.search_space is not None:
            common, named = self.common(), self.search_space.candidates[0]
            return common.recipe(common.candidate(Trial.read(trial)) if trial else named)
        return Recipe(
            self.model.make(
                self.features,
                len(self.schema.classes),
                seed=self.seed,
                hears=self.model.hears and (self.target is None or self.model.lipschitz),
            ),
            self.algorithm.make(),
            self.plan,
            self.seed,
            self.scaler(),
            self.weights,
            records=self.privacy.records(self.rounds),
        )


def read_terms(text: str) -> Terms:
    """Terms as they arrive; what does not fit is an error."""
    try:
        return build(Terms, json.loads(text))
    except (json.JSONDecodeError, AttributeError):
        raise ConfigError("the terms are not readable") from None


def version_of_terms(text: str) -> str | None:
    """The version that wrote terms, also where nothing else of them can be read."""
    try:
        found = json.loads(text)["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    plain = isinstance(found, str) and re.fullmatch(r"[0-9A-Za-z.+-]{1,40}", found)
    return found if plain else None


def terms_of(federation: Federation, *, run: str, participants: int) -> Terms:
    """What a deployed federation tells its sites."""
    f = federation
    if f.schema is None:
        raise ConfigError(f"federation '{f.name}' has no schema, which sites must know")
    return Terms(
        run,
        f.name,
        fedlore_version(),
        participants,
        f.rounds,
        f.seed,
        f.weights,
        f.schema,
        f.model,
        f.algorithm,
        f.plan,
        f.privacy,
        f.sample,
        f.least(participants) if participants else 0,
        f.largest,
        f.excess,
        target=f.target,
        search_space=f.offered() if f.recipe == "lore" else None,
    )
