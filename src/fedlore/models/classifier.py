"""One site's own model: scaler, shared network and private knowledge together, f^m."""

import copy
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from ..core.examples import Examples
from ..core.inject import fill_trust, guard, inject
from ..core.lipschitz import keeps_shapes, lay_shapes
from ..core.metrics import decide
from ..core.nets import server
from ..core.scaler import Inputs, Scaler
from ..core.tree import Params
from ..errors import FedloreError
from ..knowledge import Knowledge
from ..knowledge.missing import check_values
from .ensemble import Ensemble, NumberEnsemble, with_expert
from .own.members import input_signs, keeps_signs


class Personal(nn.Module):
    """f^m = (1-λ)·softmax(f masked to the range) + λ·P-KM; forward gives log-probabilities.

    For any finite weights a class outside the range has probability exactly 0. With `beside` it
    is a mixture of more members, in which λ is the expert's weight there.
    """

    def __init__(
        self,
        model: nn.Module,
        knowledge: Knowledge | None = None,
        *,
        scaler: Scaler | None = None,
        weights: Params | None = None,
        ensemble: Ensemble | None = None,
    ) -> None:
        super().__init__()
        self.model = server(model if weights is None else copy.deepcopy(model))
        self.knowledge = knowledge or Knowledge()
        self.scaler = scaler
        if weights is not None:
            self.model.load_state_dict(weights)
        self.ensemble = admit_shapes(
            self.model, self.knowledge, ensemble, None if scaler is None else scaler.inputs
        )
        for name, values in self.model.named_parameters():
            if not values.isfinite().all():
                raise FedloreError(f"weights must be finite: '{name}' is not")

    @property
    def inner(self) -> "Personal":
        """The network and its scaling, as every kind of personal model has them."""
        return self

    def forward(self, x: Tensor) -> Tensor:
        """(n, *features) in raw units -> (n, k) log-probabilities."""
        return self.log_probs(self.annotate(x))

    def annotate(self, x: Tensor) -> Examples:
        """The rows with what the expert says about them; what is no value is refused."""
        check_values(x, self.knowledge.schema)
        return self.encode(self.knowledge.annotate(Examples(x), training=False))

    def encode(self, known: Examples) -> Examples:
        """The rows as network and members take them, before any scaling."""
        if self.scaler is None or self.scaler.inputs is None:
            return known
        return replace(known, x=self.scaler.encode(known.x))

    def log_probs(self, known: Examples) -> Tensor:
        """Log-probabilities of rows whose knowledge has been evaluated already."""
        known = self.encode(known)
        return self.mix(self.logits(known), known)

    def mix(self, logits: Tensor, known: Examples) -> Tensor:
        """Log-probabilities (n, k) of the whole mixture, from the network's logits."""
        if self.ensemble is None:
            trust = fill_trust(known.trust, self.reliance)
            return inject(logits, known.prior, known.allowed, trust)
        return self.ensemble.log_probs(logits, known)

    def without_expert(self, logits: Tensor, known: Examples) -> Tensor:
        """What network and members favour inside the range without the expert's part, (n, k)."""
        if self.ensemble is None:
            inside = known.allowed
            return logits if inside is None else logits.masked_fill(~inside, -torch.inf)
        return self.ensemble.without_expert(logits, known)

    @property
    def reliance(self) -> float:
        """λ at prediction, the expert's own weight, where a row has none of its own."""
        return self.knowledge.trust_at_prediction if self.ensemble is None else self.ensemble.expert

    def logits(self, known: Examples) -> Tensor:
        """What the network alone says, (n, k), before the range."""
        x = known.x if self.scaler is None else self.scaler(known.x)
        inputs = None if self.scaler is None else self.scaler.inputs
        seen = lay_shapes(self.model, replace(known, x=x), inputs)
        return guard(self.model(seen.x, known.prior, known.allowed))

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """The class of each row, (n,); at an exact tie the expert's class wins.

        Of a site with shapes it is the median of the row's distribution.
        """
        known = self.annotate(x)
        return decide(self.log_probs(known), known.prior, known.signs)

    @torch.no_grad()
    def predict_proba(self, x: Tensor) -> Tensor:
        """Probabilities, (n, k); exactly 0 outside the range."""
        probabilities: Tensor = self(x).exp()
        return probabilities

    def with_knowledge(self, knowledge: Knowledge | None) -> "Personal":
        """The same network seen through other knowledge, without retraining."""
        return Personal(self.model, knowledge, scaler=self.scaler, ensemble=self.ensemble)


_B = TypeVar("_B", bound=Ensemble | NumberEnsemble)


def admit_shapes(
    model: nn.Module,
    known: Knowledge,
    ensemble: _B | None,
    inputs: Inputs | None,
) -> _B | None:
    """The members beside the network, the expert only where he is shown to move as shapes say.

    A network or a member that cannot keep the shapes is refused.
    """
    if known.shapes is None:
        return ensemble
    said = ", ".join(map(str, known.shapes))
    if not keeps_shapes(model):
        raise FedloreError(
            f"this network cannot keep the shapes ({said}): that needs one of [model] lipschitz = "
            "true, agreed by all"
        )
    signs = input_signs(known, inputs)
    if ensemble is None or signs is None:
        return ensemble
    for member in ensemble.members:
        if not keeps_signs(member, signs):
            name = getattr(member, "name", type(member).__name__)
            raise FedloreError(
                f"'{name}' beside the network does not keep the shapes ({said}): a site that has "
                "them when it settles leaves such members out"
            )
    assert known.orders is not None
    return ensemble if known.orders.hears_prediction else with_expert(ensemble, 0.0)
