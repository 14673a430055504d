"""One site's own regressor: shared network, private knowledge, and numbers that stay in S(x)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ..answers import Bins, Measured
from ..core.examples import Examples
from ..core.inject import fill_trust, inject
from ..core.ordinal import reads_between
from ..core.scaler import Scaler
from ..core.tree import Params
from ..errors import FedloreError
from ..knowledge import Knowledge
from ..knowledge.missing import check_values
from .classifier import Personal, admit_shapes
from .distribution import Distribution
from .ensemble import NumberEnsemble
from .own.members import within

Decode = Literal["mean", "mode", "median"]

NUMBER_BLOCK = 8192  # rows decoded at a time


class PersonalRegressor(nn.Module):
    """f^m of a number: the classes' probabilities, spread over S(x), and decoded inside it.

    For any finite weights every number given out lies in S(x) exactly. A P-KM that names one
    number keeps its λ on that very number, not on the middle of its bin; one with a `spread` is
    part of the bins' probabilities. With `hears` the network has `HEARD` more inputs than there
    are features: what the expert says about the row.
    """

    def __init__(
        self,
        model: nn.Module,
        bins: Bins,
        knowledge: Knowledge | None = None,
        *,
        scaler: Scaler | None = None,
        weights: Params | None = None,
        hears: bool = False,
        ensemble: NumberEnsemble | None = None,
    ) -> None:
        super().__init__()
        self.bins = bins
        self.hears = hears
        self.knowledge = (knowledge or Knowledge()).of_number(bins)
        # the network and its scaling; what is known about numbers comes with each row
        self.personal = Personal(model, Knowledge(), scaler=scaler, weights=weights)
        self.ensemble = admit_shapes(
            self.personal.model, self.knowledge, ensemble, None if scaler is None else scaler.inputs
        )

    @property
    def inner(self) -> Personal:
        """The network and its scaling, as every kind of personal model has them."""
        return self.personal

    def forward(self, x: Tensor) -> Tensor:
        """(n, *features) in raw units -> (n,) numbers, in S(x)."""
        return self.predict(x)

    def annotate(self, x: Tensor) -> Measured:
        """The rows with what the expert says about them; what is no value is refused."""
        check_values(x, self.knowledge.schema)
        return self.knowledge.annotate(Measured(x), training=False)

    def see(self, x: Tensor | Measured) -> Measured:
        """Rows, annotated before or not, as network and members take them before any scaling."""
        measured = self.annotate(x) if isinstance(x, Tensor) else x
        inputs = None if self.personal.scaler is None else self.personal.scaler.inputs
        if inputs is None or measured.x.shape[1] == inputs.width > len(inputs.features):
            return measured
        return replace(measured, x=inputs.encode(measured.x))

    @property
    def decode(self) -> Decode:
        """How a number is given out: of a site with shapes by the median, which keeps them.

        The number of a mixture keeps them by itself.
        """
        plain = self.knowledge.shapes is None or self.ensemble is not None
        return "mean" if plain else "median"

    def predict(self, x: Tensor | Measured, *, decode: Decode | None = None) -> Tensor:
        """One number for each row, (n,) float64, in S(x)."""
        decode = decode or self.decode
        if decode not in get_args(Decode):
            raise FedloreError(f"decode must be mean, mode or median, got '{decode}'")

        if self.ensemble is not None and decode == "mean":
            return self._number(self.see(x))

        def answer(found: Distribution) -> Tensor:
            return found.mode() if decode == "mode" else found.middle(ordered=decode == "median")

        return self._by_block(x, answer)

    @torch.no_grad()
    def distribution(self, x: Tensor | Measured) -> Distribution:
        """The predictive distribution of each row; rows annotated before are taken as they are."""
        measured = self.see(x)
        if self.ensemble is None:
            trust = fill_trust(measured.trust, self.reliance)
            return decode_logits(self.logits(measured), measured, trust)
        found = self.ensemble.probabilities(self._network(measured), measured)
        return Distribution.spread(found, measured.bins, measured.sets)

    @property
    def reliance(self) -> float:
        """λ at prediction, the expert's own weight, where a row has none of its own."""
        return self.knowledge.trust_at_prediction if self.ensemble is None else self.ensemble.expert

    def _network(self, measured: Measured) -> Tensor:
        """The network's own number, (n,), in S(x)."""
        return network_number(self.logits(measured), measured)

    @torch.no_grad()
    def _number(self, measured: Measured) -> Tensor:
        """The number of the mixture, (n,), in S(x)."""
        assert self.ensemble is not None
        starts = range(0, max(len(measured), 1), NUMBER_BLOCK)
        parts = (measured[i : i + NUMBER_BLOCK] for i in starts)
        return torch.cat([self.ensemble.number(self._network(part), part) for part in parts])

    @torch.no_grad()
    def logits(self, measured: Measured) -> Tensor:
        """What the network says, (n, k), before the range and the expert."""
        x = self.see(measured).inputs(hears=self.hears)
        prior = measured.between if reads_between(self.personal.model) else measured.prior
        logits = self.personal.logits(
            Examples(x, None, prior, measured.allowed, signs=measured.signs)
        )
        if logits.shape[1] != self.bins.k:
            raise FedloreError(
                f"the server model has {logits.shape[1]} outputs, there are {self.bins.k} bins"
            )
        return logits

    def quantiles(self, x: Tensor | Measured, levels: Sequence[float]) -> Tensor:
        """Quantiles of each row, (n, levels), all in S(x)."""
        return self._by_block(x, lambda f: torch.stack([f.quantile(q) for q in levels], 1))

    def interval(self, x: Tensor | Measured, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """The ends of a central prediction interval, (n,) each, both in S(x)."""
        low, high = self._by_block(x, lambda f: torch.stack(f.interval(level), 1)).unbind(1)
        return low, high

    def _by_block(self, x: Tensor | Measured, answer: Callable[[Distribution], Tensor]) -> Tensor:
        """Decode many rows with the memory of a few; S(x) is asked for once."""
        measured = self.see(x)
        starts = range(0, max(len(measured), 1), NUMBER_BLOCK)
        return torch.cat(
            [answer(self.distribution(measured[i : i + NUMBER_BLOCK])) for i in starts]
        )

    def with_knowledge(self, knowledge: Knowledge | None) -> "PersonalRegressor":
        """The same network seen through other knowledge, without retraining."""
        return PersonalRegressor(
            self.personal.model,
            self.bins,
            knowledge,
            scaler=self.personal.scaler,
            hears=self.hears,
            ensemble=self.ensemble,
        )


def network_number(logits: Tensor, measured: Measured) -> Tensor:
    """What a network alone says of a number as a member of a mixture, (n,), in S(x).

    The expected value, moved into S(x) and not only to where there is probability, so that an
    order of distributions is one of these numbers too.
    """
    return within(decode_logits(logits, measured, 0.0).expected(), measured)


def decode_logits(logits: Tensor, measured: Measured, reliance: float | Tensor) -> Distribution:
    """Logits (n, k) and what the expert said, as a distribution over numbers."""
    allowed, sets = measured.allowed, measured.sets
    if measured.spread is None:
        learned = inject(logits, None, allowed).exp()
        return Distribution.spread(
            learned, measured.bins, sets, said=measured.said, weight=reliance
        )
    mixed = inject(logits, measured.prior, allowed, reliance).exp()
    return Distribution.spread(mixed, measured.bins, sets)
