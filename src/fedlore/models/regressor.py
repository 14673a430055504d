"""One site's own regressor: shared network, private knowledge, and numbers that stay in S(x)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from ..answers import Bins, Measured
from ..answers.measured import all_scores, quantile_score, region_scores
from ..core.examples import Examples
from ..core.inject import fill_trust, inject
from ..core.metrics import ReliabilityBin, held_shares
from ..core.ordinal import reads_between
from ..core.scaler import Scaler
from ..core.tree import Params
from ..errors import FedloreError
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.missing import check_values
from .answers import BLOCK, BOTH, EXPERT, MODEL, RANGE, Answers, in_scope
from .classifier import Personal, admit_shapes
from .distribution import Distribution
from .ensemble import Ensemble, Spoken
from .own.members import within

Decode = Literal["mean", "mode", "median"]

NUMBER_BLOCK = 8192  # rows decoded at a time
LEVEL = 0.9  # of the intervals that answers come with
SCORED_LEVELS = tuple((i + 0.5) / 20 for i in range(20))  # of quantiles, for the CRPS
NOMINAL = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # levels of intervals, for the diagram


class PersonalRegressor(nn.Module):
    """f^m of a number: the classes' probabilities, spread over S(x), and decoded inside it.

    For any finite weights every number given out lies in S(x) exactly. A P-KM that names one
    number keeps its λ on that very number, not on the middle of its bin; one with a `spread` is
    part of the bins' probabilities. With `hears` the network has `HEARD` more inputs than there
    are features: what the expert says about the row.
    """

    task: ClassVar[Literal["regression"]] = "regression"
    chunk: ClassVar[int] = BLOCK

    def __init__(
        self,
        model: nn.Module,
        bins: Bins,
        knowledge: Knowledge | None = None,
        *,
        scaler: Scaler | None = None,
        weights: Params | None = None,
        hears: bool = False,
        ensemble: Ensemble | None = None,
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
        return self._spread(self.ensemble, self._speak(measured), measured)

    def _speak(self, measured: Measured) -> Spoken:
        """The number of each member of the ensemble, network first, in S(x)."""
        assert self.ensemble is not None
        return self.ensemble.speak(self.network_number(measured), measured)

    def _spread(self, ensemble: Ensemble, spoken: Spoken, measured: Measured) -> Distribution:
        found = ensemble.probabilities(spoken, measured)
        return Distribution.spread(found, measured.bins, measured.sets)

    @property
    def reliance(self) -> float:
        """λ at prediction, the expert's own weight, where a row has none of its own."""
        return self.knowledge.trust_at_prediction if self.ensemble is None else self.ensemble.expert

    def network_number(self, measured: Measured) -> Tensor:
        """The network's own number, (n,), in S(x)."""
        return network_number(self.logits(measured), measured)

    @torch.no_grad()
    def _number(self, measured: Measured) -> Tensor:
        """The number of the mixture, (n,), in S(x)."""
        assert self.ensemble is not None
        starts = range(0, max(len(measured), 1), NUMBER_BLOCK)
        parts = (measured[i : i + NUMBER_BLOCK] for i in starts)
        return torch.cat([self.ensemble.number(self._speak(part), part) for part in parts])

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

    def answer(self, schema: Schema, x: Tensor) -> Answers:
        """Answers for a chunk of rows in raw units."""
        measured = self.see(x)
        n, bins = len(x), self.bins
        silent = torch.full((n,), torch.nan, dtype=torch.float64)
        expert = silent if measured.said is None else measured.said
        rely = fill_trust(measured.trust, self.reliance)
        trust = torch.where(expert.isnan(), 0.0, rely).float()
        low, high = measured.ends
        decided = torch.full((n,), MODEL, dtype=torch.uint8)
        decided[trust > 0] = BOTH
        decided[trust >= 1] = EXPERT
        decided[low == high] = RANGE
        every = torch.ones(n, bins.k, dtype=torch.bool)
        opinions = None
        if self.ensemble is None:
            found = self.distribution(measured)
            number = found.middle(ordered=self.decode == "median")
        else:
            spoken = self._speak(measured)
            found = self._spread(self.ensemble, spoken, measured)
            number = self.ensemble.number(spoken, measured)
            opinions = self.ensemble.opinions(spoken, measured)
        first, last = found.interval(LEVEL)
        # of a mixture the number may lie beside its distribution's middle: it is always inside
        interval = torch.stack([torch.minimum(first, number), torch.maximum(last, number)], 1)
        return Answers(
            number,
            _by_bin(found, bins),
            every if measured.allowed is None else measured.allowed,
            expert,
            trust,
            decided,
            in_scope(schema, x),
            low,
            high,
            interval,
            opinions,
        )

    def score(self, schema: Schema, x: Tensor, y: Tensor) -> dict[str, float]:
        """RMSE, MAE, R² and CRPS, numbers outside their set, and how the intervals cover."""
        measured = self.annotate(x)
        scores = all_scores(self.predict(measured), y, measured.sets)
        starts = range(0, max(len(x), 1), self.chunk)
        parts = [self.distribution(measured[i : i + self.chunk]).region(LEVEL) for i in starts]
        n = len(x)
        each = [region_scores(p, y[i : i + self.chunk]) for p, i in zip(parts, starts, strict=True)]
        sizes = [len(p) / max(n, 1) for p in parts]
        together = {
            name: sum(part[name] * size for part, size in zip(each, sizes, strict=True))
            for name in each[0]
        }
        quantiles = self.quantiles(measured, SCORED_LEVELS)
        return scores | together | {"crps": quantile_score(quantiles, y, SCORED_LEVELS)}

    def reliability(self, x: Tensor | Measured, y: Tensor) -> list[ReliabilityBin]:
        """Of central intervals at several nominal levels the share of labels that they hold."""
        ends = [(1.0 + sign * level) / 2.0 for sign in (-1.0, 1.0) for level in NOMINAL]
        found = self.quantiles(x, ends)
        return held_shares(found[:, : len(NOMINAL)], found[:, len(NOMINAL) :], y, NOMINAL)

    def with_knowledge(self, knowledge: Knowledge | None) -> "PersonalRegressor":
        """The same network seen through other knowledge, without retraining."""
        return self._with_parts(knowledge, self.ensemble)

    def with_ensemble(self, ensemble: Ensemble | None) -> "PersonalRegressor":
        """The same network with other members beside it, or other weights."""
        return self._with_parts(self.knowledge, ensemble)

    def _with_parts(
        self, known: Knowledge | None, ensemble: Ensemble | None
    ) -> "PersonalRegressor":
        inner, hears = self.personal, self.hears
        return PersonalRegressor(
            inner.model, self.bins, known, scaler=inner.scaler, hears=hears, ensemble=ensemble
        )


def _by_bin(found: Distribution, bins: Bins) -> Tensor:
    """The probability of each bin, the expert's number in its own, (n, k)."""
    own = bins.encode(torch.where(found.weight > 0, found.said, bins.lower))
    mixed = (1 - found.weight).unsqueeze(1) * found.classes
    return mixed.scatter_add_(1, own.unsqueeze(1), found.weight.unsqueeze(1))


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
