"""What every candidate of a federation shares, so that both sides make the same recipe of it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from torch import nn

from ...algorithms import Algorithm, FedAvg, Plan
from ...answers import HEARD, Bins
from ...core.aggregate import Aggregate, Mean
from ...core.lipschitz import lipschitz_mlp
from ...core.nets import mlp, server
from ...core.ordinal import ordered_mlp
from ...core.scaler import Scaler
from ...errors import ConfigError
from ..loop import Recipe, Weights
from .candidates import Candidate, Menu
from .trial import Trial

ModelMaker = Callable[[bool], nn.Module]  # hears -> a fresh server model with a head of classes


@dataclass(frozen=True, eq=False)
class Agreement:
    """A federation that chooses its recipe; made of its terms on either side."""

    features: int
    classes: int  # k, or the number of bins
    menu: Menu
    plan: Plan = field(default_factory=Plan)
    rounds: int = 10
    seed: int = 0
    sample: float = 1.0
    algorithm: Algorithm = field(default_factory=FedAvg)
    weights: Weights = "equal"
    aggregate: Aggregate = field(default_factory=Mean)
    scaler: Scaler | None = None  # of the features alone
    hidden: tuple[int, ...] = (64, 64)
    bins: Bins | None = None  # of a number
    ordered: bool = False
    make_model: ModelMaker | None = None  # in place of a perceptron, in one process
    device: str | None = None

    def candidate(self, trial: Trial) -> Candidate:
        """What a trial tries; one that is not on the menu was never agreed to."""
        if trial.candidate >= len(self.menu.candidates):
            raise ConfigError(
                f"the menu has {len(self.menu.candidates)} candidates, number {trial.candidate} "
                "was asked for"
            )
        return self.menu.candidates[trial.candidate]

    def recipe(self, candidate: Candidate) -> Recipe:
        """The same on either side: even the initial weights follow from the seed."""
        if candidate not in self._recipes:
            self._recipes[candidate] = self._made(candidate)
        return self._recipes[candidate]

    @cached_property
    def _recipes(self) -> dict[Candidate, Recipe]:
        return {}

    def _made(self, candidate: Candidate) -> Recipe:
        return Recipe(
            self.model(candidate),
            candidate.algorithm(self.algorithm),
            candidate.plan(self.plan),
            self.seed,
            self.scale(candidate),
            self.weights,
            self.aggregate,
            exact=self.menu.exact,
        )

    def model(self, candidate: Candidate) -> nn.Module:
        """A fresh server model with the head of a candidate."""
        hidden = self.hidden if candidate.hidden is None else candidate.hidden
        told = HEARD if self._widened(candidate) else 0
        if candidate.head == "ordered":
            options = candidate.ordinal(self.classes, between=self.bins is not None)
            made: nn.Module = ordered_mlp(
                self.features, self.classes, hidden=hidden, options=options, seed=self.seed
            )
        elif candidate.head == "shaped":
            shaping = candidate.shaping(self.features)
            made = lipschitz_mlp(self.classes, shaping, hidden=hidden, seed=self.seed)
        elif self.make_model is not None:
            made = server(self.make_model(candidate.hears))
        else:
            hears = candidate.hears and not told
            made = mlp(
                self.features + told, self.classes, hidden=hidden, hears=hears, seed=self.seed
            )
        return made if self.device is None else made.to(self.device)

    def scale(self, candidate: Candidate) -> Scaler | None:
        """The common scaling; what a network hears of numbers is on its scale already."""
        if self.scaler is None or not self._widened(candidate):
            return self.scaler
        return self.scaler.widen(HEARD)

    def _widened(self, candidate: Candidate) -> bool:
        """Whether the expert's word comes as columns of the rows."""
        return self.bins is not None and candidate.hears and candidate.head == "classes"

    def scaled(self, scaler: Scaler | None) -> "Agreement":
        return replace(self, scaler=scaler)
