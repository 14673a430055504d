"""Learning a number, as bins that are decoded inside the expert's set."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from ...answers import HEARD, Bins, Line, Measured
from ...answers.scores import all_scores, quantile_score, region_scores
from ...core.examples import Examples
from ...core.inject import fill_trust
from ...core.nets import server
from ...core.ordinal import reads_between
from ...core.reliability import ReliabilityBin, held_shares
from ...core.scaler import Scaler
from ...core.tree import Params
from ...errors import ConfigError, FedloreError, KnowledgeError
from ...kernel.schema import Schema
from ...knowledge import Knowledge
from ..answers import BLOCK, BOTH, EXPERT, NETWORK, RANGE, Answers, in_scope
from ..beside import Beside, NumberBeside
from ..client import Client, Member, NumberClient, Predictor
from ..distribution import Distribution
from ..regressor import PersonalRegressor, decode_logits
from .base import TaskName, wrong_client

LEVEL = 0.9  # of the intervals that answers come with
SCORED_LEVELS = tuple((i + 0.5) / 20 for i in range(20))  # of quantiles, for the CRPS
NOMINAL = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # levels of intervals, for the diagram


@dataclass(frozen=True)
class Regression:
    """The label is a number within declared bounds; the network has one output per bin.

    `ordinal` > 0 makes the loss aim at neighbouring bins too. With `hears` the network has
    `HEARD` more inputs than there are features: what the expert says of the row.
    """

    bins: Bins
    ordinal: float = 0.0  # σ of the target, in bins
    hears: bool = False
    between: bool = False  # numbers keep their place within a bin, for what knows the bins' order

    name: ClassVar[TaskName] = "regression"
    predictor: ClassVar[type[PersonalRegressor]] = PersonalRegressor
    chunk: ClassVar[int] = BLOCK

    def __post_init__(self) -> None:
        if not 0.0 <= self.ordinal < float("inf"):
            raise ConfigError(f"ordinal must not be negative, got {self.ordinal}")

    def enter(self, client: Member[Predictor]) -> Client:
        """Knowledge and sets turned into classes, once."""
        if not isinstance(client, NumberClient):
            raise wrong_client(self.name, "NumberClient", client)
        known, bins = client.knowledge, self.bins
        try:
            told = known.annotate(client.data, Line(bins))
            test = (
                None
                if client.test is None
                else known.annotate(client.test, Line(bins), training=False)
            )
            return Client(
                client.id,
                self._rows(_see(told, client.injected), self.ordinal),
                Knowledge(
                    trust=known.trust,
                    reliance=known.reliance,
                    outside="widen" if known.outside == "widen" else "error",
                    schema=known.schema,
                ),
                test=None if test is None else self._rows(_see(test, client.injected)),
                injected=client.injected,
                numeric=client.numeric,
                measure=None
                if test is None
                else _Scores(test, known.trust_at_prediction, client.injected),
                told=self.told,
            )
        except FedloreError as error:
            raise type(error)(f"client '{client.id}': {error}") from None

    def _rows(self, told: Measured, ordinal: float = 0.0) -> Examples:
        return told.examples(ordinal=ordinal, hears=self.hears, between=self.between)

    @torch.no_grad()
    def check(self, model: nn.Module, client: Client) -> None:
        """Refuse a network with another number of outputs than there are bins."""
        network = server(model)
        like = next(network.parameters())
        one = client.data[:1].to(like.device)
        x = one.x.to(like.dtype)
        try:
            outputs = network(x, one.prior, one.allowed).shape[1]
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(
                f"the model cannot be called on rows of {x.shape[1]} inputs (of which "
                f"{client.told} are what the expert says): {reason}"
            ) from None
        if outputs != self.bins.k:
            raise ConfigError(f"the model has {outputs} outputs, there are {self.bins.k} bins")

    def suit(self, model: nn.Module) -> "Regression":
        return replace(self, between=True) if reads_between(model) else self

    def build(
        self,
        model: nn.Module,
        knowledge: Knowledge | None,
        *,
        scaler: Scaler | None = None,
        weights: Params | None = None,
        beside: Beside | NumberBeside | None = None,
    ) -> PersonalRegressor:
        if isinstance(beside, Beside):
            raise KnowledgeError("a network for a number and members for classes do not fit")
        return PersonalRegressor(
            model,
            self.bins,
            knowledge,
            scaler=scaler,
            weights=weights,
            hears=self.hears,
            beside=beside,
        )

    def answer(self, personal: PersonalRegressor, schema: Schema, x: Tensor) -> Answers:
        told = personal.annotate(x)
        found = personal.distribution(told)
        n, bins = len(x), personal.bins
        silent = torch.full((n,), torch.nan, dtype=torch.float64)
        expert = silent if told.said is None else told.said
        rely = fill_trust(told.trust, personal.reliance)
        trust = torch.where(expert.isnan(), 0.0, rely).float()
        low, high = (torch.full((n,), end, dtype=torch.float64) for end in (bins.lower, bins.upper))
        if told.sets is not None:
            low = told.sets.lower.nan_to_num(nan=torch.inf).amin(1)
            high = told.sets.upper.nan_to_num(nan=-torch.inf).amax(1)
        decided = torch.full((n,), NETWORK, dtype=torch.uint8)
        decided[trust > 0] = BOTH
        decided[trust >= 1] = EXPERT
        decided[low == high] = RANGE
        every = torch.ones(n, bins.k, dtype=torch.bool)
        if personal.beside is None:
            number = found.middle(ordered=personal.decode == "median")
        else:
            number = personal.predict(told)
        first, last = found.interval(LEVEL)
        # of a mixture the number may lie beside its distribution's middle: it is always inside
        interval = torch.stack([torch.minimum(first, number), torch.maximum(last, number)], 1)
        return Answers(
            number,
            _by_bin(found, bins),
            every if told.allowed is None else told.allowed,
            expert,
            trust,
            decided,
            in_scope(schema, x),
            low,
            high,
            interval,
        )

    def score(
        self, personal: PersonalRegressor, schema: Schema, x: Tensor, y: Tensor
    ) -> dict[str, float]:
        """RMSE, MAE, R² and CRPS, numbers outside their set, and how the intervals cover."""
        told = personal.annotate(x)
        scores = all_scores(personal.predict(told), y, told.sets)
        starts = range(0, max(len(x), 1), self.chunk)
        parts = [personal.distribution(told[i : i + self.chunk]).region(LEVEL) for i in starts]
        n = len(x)
        each = [region_scores(p, y[i : i + self.chunk]) for p, i in zip(parts, starts, strict=True)]
        sizes = [len(p) / max(n, 1) for p in parts]
        together = {
            name: sum(part[name] * size for part, size in zip(each, sizes, strict=True))
            for name in each[0]
        }
        quantiles = personal.quantiles(told, SCORED_LEVELS)
        return scores | together | {"crps": quantile_score(quantiles, y, SCORED_LEVELS)}

    @property
    def told(self) -> int:
        return HEARD if self.hears else 0

    def listens(self, model: nn.Module) -> bool:
        return self.hears  # told as inputs: the network itself cannot know

    @classmethod
    def chosen(cls, bins: Bins | None, *, ordinal: float, hears: bool) -> "Regression":
        if bins is None:
            raise ConfigError("regression needs bins, the federation's declared bounds and edges")
        return cls(bins, ordinal, hears)

    @classmethod
    def of(cls, personal: PersonalRegressor) -> "Regression":
        return cls(personal.bins, hears=personal.hears, between=reads_between(personal.inner.model))

    @classmethod
    def stored(cls, bins: Bins | None, *, hears: bool) -> "Regression":
        if bins is None:
            raise KnowledgeError("a number needs bins, its declared bounds and edges")
        return cls(bins, hears=hears)


def number_reliability(
    regressor: PersonalRegressor, x: Tensor | Measured, y: Tensor
) -> list[ReliabilityBin]:
    """Of central intervals at several nominal levels the share of labels that they hold."""
    ends = [(1.0 + sign * level) / 2.0 for sign in (-1.0, 1.0) for level in NOMINAL]
    found = regressor.quantiles(x, ends)
    return held_shares(found[:, : len(NOMINAL)], found[:, len(NOMINAL) :], y, NOMINAL)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores of a network's logits on one site's test rows, after decoding."""

    told: Measured
    reliance: float
    injected: bool

    def __call__(self, logits: Tensor) -> dict[str, float]:
        told = self.told
        if told.y is None:
            return {}
        trust = fill_trust(told.trust, self.reliance)
        found = decode_logits(logits, _see(told, self.injected), trust)
        return all_scores(found.middle(ordered=told.signs is not None), told.y, told.sets)


def _see(told: Measured, injected: bool) -> Measured:
    """What training and prediction may see of the knowledge."""
    return told if injected else replace(told, said=None, sets=None)


def _by_bin(found: Distribution, bins: Bins) -> Tensor:
    """The probability of each bin, the expert's number in its own, (n, k)."""
    own = bins.encode(torch.where(found.weight > 0, found.said, bins.lower))
    mixed = (1 - found.weight).unsqueeze(1) * found.classes
    return mixed.scatter_add_(1, own.unsqueeze(1), found.weight.unsqueeze(1))
