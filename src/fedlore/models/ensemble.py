"""A site's ensemble: the shared network, further members, and weights.

f^m = w_net·g_net + Σ_j w_j g_j + w_expert·g_p, each g_j inside the range. The weights are private
like the expert's word; λ of the paper is w_expert where there is nobody else.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..answers import Measured
from ..core.examples import Examples
from ..core.inject import guard, inject
from ..core.metrics import decide
from ..core.one_shot import OneShotModel
from ..core.scaler import Scaler
from ..errors import FedloreError
from .own.members import NumberMember, mask_logits, see_numbers, within
from .own.mixture import Mixture, NumberMixture, scale_weights


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members beside the network, over classes or naming a number; weights of all sum to 1."""

    members: tuple[Any, ...]  # with `log_probs`, or of a number with `number`
    weights: tuple[float, ...]  # one for each member
    network: float  # w of the shared network
    expert: float = 0.0  # w of the expert's own word, λ in the paper
    inverse_temperature: float = 1.0  # of classes: what the network's logits are multiplied by
    width: float = 0.0  # of a number, else 0: σ of what the mixture misses on rows it has not seen
    once: bool = False  # members are mixed without the network, and only then moved into S(x)

    def __post_init__(self) -> None:
        if not 0.0 < self.inverse_temperature < float("inf"):
            raise FedloreError(
                f"inverse_temperature must be positive and finite, got {self.inverse_temperature}"
            )
        Mixture((Said(torch.zeros(0, 2)), *self.members), self._all, self.expert)  # checks

    @property
    def _all(self) -> tuple[float, ...]:
        return (self.network, *self.weights)

    @property
    def of_number(self) -> bool:
        return self.width > 0

    @property
    def calibration(self) -> dict[str, float]:
        """The one number beside the weights that rows have decided, by name."""
        if self.of_number:
            return {"width": self.width}
        return {"inverse_temperature": self.inverse_temperature}

    def speak(self, network: Tensor, known: Any) -> "Spoken":
        """What each member says of rows, from the network's logits, or its number in S(x)."""
        if self.of_number:
            which = "free_number" if self.once else "number"
            return tuple(map(Said, (network, *(getattr(m, which)(known) for m in self.members))))
        own = inject(guard(self.inverse_temperature * network), None, known.allowed)
        return tuple(Said(said) for said in (own, *(m.log_probs(known) for m in self.members)))

    def log_probs(self, spoken: "Spoken", known: Examples) -> Tensor:
        """The mixture over classes, (n, k)."""
        mixture = Mixture(spoken, self._all, self.expert)
        return mixture.log_probs(known).to(spoken[0].said.dtype)

    def without_expert(self, spoken: "Spoken", known: Examples) -> Tensor:
        """The same without the expert's own part, (n, k)."""
        network = spoken[0].said
        if not any(self._all):
            return network
        alone = replace(known, trust=None)
        return Mixture(spoken, scale_weights(self._all)).log_probs(alone).to(network.dtype)

    def number(self, spoken: "Spoken", known: Measured) -> Tensor:
        """The mixture's number inside S(x), (n,)."""
        return self._numbers(spoken).number(known)

    def probabilities(self, spoken: "Spoken", known: Measured) -> Tensor:
        """The mass of each bin's part of S(x) around that number, (n, k)."""
        return self._numbers(spoken).probabilities(known)

    def _numbers(self, spoken: "Spoken") -> NumberMixture:
        if self.once:
            return NumberMixture(spoken[1:], self.weights, self.expert, self.width, once=True)
        return NumberMixture(spoken, self._all, self.expert, self.width)

    def opinions(self, spoken: "Spoken", known: Any) -> Tensor:
        """What each member favours by itself, network first, (n, j): classes, or numbers."""
        if self.of_number:
            return torch.stack([within(one.said, known) for one in spoken], 1)
        return torch.stack([decide(one.said, None, known.signs) for one in spoken], 1)


def with_expert(ensemble: Ensemble, weight: float) -> Ensemble:
    """The same mixture with another weight of the expert; the others share the rest as before."""
    others = (ensemble.network, *ensemble.weights)
    if not any(others):  # nobody else had a part: the network takes it, if it may be heard
        others = (0.0, *(1.0 for _ in others[1:])) if ensemble.once else (1.0, *ensemble.weights)
    network, *weights = scale_weights(others, 1.0 - weight)
    return replace(ensemble, weights=tuple(weights), network=network, expert=weight)


@dataclass(frozen=True, eq=False)
class Said:
    """What a member said of some rows, as a member: log-probabilities (n, k), or numbers (n,)."""

    said: Tensor

    def log_probs(self, known: Examples) -> Tensor:
        return self.said

    def number(self, known: Measured) -> Tensor:
        return self.said

    free_number = number


Spoken = tuple[Said, ...]  # network first


@dataclass(frozen=True, eq=False)
class OneShotMember:
    """The one-shot model: a place among ordered classes, or among the bins of a number."""

    one_shot_model: OneShotModel
    scaler: Scaler | None
    name: str = "one_shot"

    def log_probs(self, known: Examples) -> Tensor:
        x = known.x if self.scaler is None else self.scaler(known.x)
        said = self.one_shot_model.logits(x, known.prior, known.allowed, known.stated)
        return mask_logits(said, known.allowed)

    def with_temperature(self, factor: float) -> "OneShotMember":
        """The same: it keeps its own doubt, which plans are promised by."""
        return self

    def number(self, known: Measured) -> Tensor:
        """The number at that place, read between the edges of its bins."""
        x = known.x if self.scaler is None else self.scaler(known.x)
        place, _ = self.one_shot_model.normal(x, known.between, known.allowed)
        return within(known.bins.numbers(place), known)


@dataclass(frozen=True, eq=False)
class CorrectedMember:
    """A learner of the site's own on what the one-shot model misses, added to its number."""

    own: NumberMember  # what is added; hears the expert, and is not over him
    one_shot: OneShotMember

    @property
    def name(self) -> str:
        return self.own.name

    def number(self, known: Measured) -> Tensor:
        added = self.own.body(see_numbers(known).inputs(hears=self.own.hears)).squeeze(1)
        return within(self.one_shot.number(known) + added, known)
