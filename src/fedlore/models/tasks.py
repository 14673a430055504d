"""What a task is: all that differs between learning a class and learning a number.

The loop, the algorithms and the engines know classes alone. A task turns a site's rows into
those at the door, and what was learned back into a model that answers in the site's own terms.
A new task is a file beside these with an entry in `TASKS`, and where its rows are of a new type
a kind of client.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, Self, cast

import torch
from torch import Tensor, nn

from ..answers import HEARD, Bins, Line, Measured
from ..answers.scores import all_scores, quantile_score, region_scores
from ..core.examples import Examples
from ..core.inject import fill_trust
from ..core.metrics import (
    ReliabilityBin,
    accuracy,
    class_reliability,
    class_scores,
    decide,
    held_shares,
    nll,
    violation,
)
from ..core.nets import server
from ..core.ordinal import reads_between
from ..core.scaler import Scaler
from ..core.tree import Params
from ..errors import ConfigError, FedloreError, KnowledgeError
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from .answers import BLOCK, BOTH, EXPERT, NETWORK, RANGE, Answers, in_scope
from .classifier import Personal
from .client import Client, Member, NumberClient, P, Predictor
from .distribution import Distribution
from .ensemble import Ensemble, NumberEnsemble
from .regressor import PersonalRegressor, decode_logits

TaskName = Literal["classification", "regression"]


class TaskKind(Protocol[P]):
    """What a federation learns, and how a personal model P of it is made, asked and stored."""

    @property
    def name(self) -> TaskName: ...

    @property
    def predictor(self) -> type[P]:
        """The personal model of this task; a client of this task names the same."""
        ...

    # the door

    def enter(self, client: Member[Predictor]) -> Client:
        """The client as the loop knows it, or an error if its rows are for another task."""
        ...

    def check(self, model: nn.Module, client: Client) -> None:
        """Refuse a network that cannot learn this task from a client's rows."""
        ...

    def suit(self, model: nn.Module) -> Self:
        """The task as this network reads its rows."""
        ...

    # the personal model

    def build(
        self,
        model: nn.Module,
        knowledge: Knowledge | None,
        *,
        scaler: Scaler | None = None,
        weights: Params | None = None,
        ensemble: Ensemble | NumberEnsemble | None = None,
    ) -> P:
        """A network seen through one site's knowledge; without any it is the network alone."""
        ...

    # answers and scores

    @property
    def chunk(self) -> int:
        """How many rows are answered at a time."""
        ...

    def answer(self, personal: P, schema: Schema, x: Tensor) -> Answers:
        """Answers for a chunk of rows in raw units and in the network's own shape."""
        ...

    def score(self, personal: P, schema: Schema, x: Tensor, y: Tensor) -> dict[str, float]:
        """Scores on labelled rows, (n, *features) and (n,)."""
        ...

    # the header of a bundle

    @property
    def bins(self) -> Bins | None:
        """How a number is cut, where there is one."""
        ...

    @property
    def heard_inputs(self) -> int:
        """How many inputs beside the features the network has for what the expert says."""
        ...

    def listens(self, model: nn.Module) -> bool:
        """Whether this network is told what the expert says."""
        ...

    # how it is made

    @classmethod
    def chosen(cls, bins: Bins | None, *, ordinal: float, hears: bool) -> Self:
        """The task as `fit` was asked for it."""
        ...

    @classmethod
    def of(cls, personal: P) -> Self:
        """The task that a personal model answers."""
        ...

    @classmethod
    def from_header(cls, bins: Bins | None, *, hears: bool) -> Self:
        """The task of a bundle, from what its header and its knowledge say."""
        ...


def wrong_client(task: TaskName, wanted: str, client: Member[Predictor]) -> ConfigError:
    """The error for rows of another task."""
    return ConfigError(
        f"{task} needs clients of type {wanted}: '{client.id}' is a {type(client).__name__}"
    )


@dataclass(frozen=True)
class Classification:
    """The label is a class; a `Client` is in the loop's own terms already."""

    name: ClassVar[TaskName] = "classification"
    predictor: ClassVar[type[Personal]] = Personal
    chunk: ClassVar[int] = 65_536  # rows whose knowledge is evaluated at a time
    bins: ClassVar[Bins | None] = None
    heard_inputs: ClassVar[int] = 0  # a network that hears gets prior and range beside its rows

    def enter(self, client: Member[Predictor]) -> Client:
        if not isinstance(client, Client):
            raise wrong_client(self.name, "Client", client)
        return client

    def check(self, model: nn.Module, client: Client) -> None:
        """Nothing to say before the engine makes its sites ready: it names the client."""

    def suit(self, model: nn.Module) -> "Classification":
        return self

    def build(
        self,
        model: nn.Module,
        knowledge: Knowledge | None,
        *,
        scaler: Scaler | None = None,
        weights: Params | None = None,
        ensemble: Ensemble | NumberEnsemble | None = None,
    ) -> Personal:
        if knowledge is not None and knowledge.line is not None:
            raise KnowledgeError("a network for classes and knowledge about a number do not fit")
        if isinstance(ensemble, NumberEnsemble):
            raise KnowledgeError("a network for classes and members for a number do not fit")
        return Personal(model, knowledge, scaler=scaler, weights=weights, ensemble=ensemble)

    def answer(self, personal: Personal, schema: Schema, x: Tensor) -> Answers:
        known = personal.annotate(x)
        n, k = len(x), len(schema.classes)
        rely = torch.as_tensor(fill_trust(known.trust, personal.reliance), dtype=torch.float64)
        rely = rely.expand(n)  # λ of each row
        allowed = torch.ones(n, k, dtype=torch.bool) if known.allowed is None else known.allowed
        expert = torch.full((n,), -1, dtype=torch.int64)
        spoken = torch.zeros(n, dtype=torch.bool)
        if known.prior is not None:
            loudest = known.prior.max(1)
            spoken = loudest.values > 0
            expert = torch.where(spoken, loudest.indices, expert)
        weighed = known.prior is not None and bool((rely > 0).any())
        whole = bool((rely >= 1).any())  # nothing is left of the mixture there
        predicted = torch.empty(n, dtype=torch.int64)
        own = torch.empty(n, dtype=torch.int64) if weighed else predicted  # the network's own class
        probabilities: Tensor | None = None
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            part = known[rows]
            logits = personal.logits(part)
            log_probs = personal.mix(logits, part)
            if weighed and personal.ensemble is not None and not whole and part.prior is not None:
                # what is left of the mixture without him; its members speak once
                left = log_probs.double().exp() - rely[rows].unsqueeze(1) * part.prior.double()
                torch.argmax(left, 1, out=own[rows])
            elif weighed:
                torch.argmax(personal.without_expert(logits, part), 1, out=own[rows])
            predicted[rows] = decide(log_probs, part.prior, part.signs)
            if probabilities is None:
                probabilities = log_probs.new_empty(n, k)
            torch.exp(log_probs, out=probabilities[rows])
        if probabilities is None:  # no rows at all
            probabilities = torch.empty(0, k)
        decided = torch.full((n,), NETWORK, dtype=torch.uint8)
        if weighed:
            # of a soft prior the mixture may favour a class that neither puts first
            both = (own == expert) | ((predicted != own) & (predicted != expert))
            heard = torch.where(both, BOTH, torch.where(predicted == expert, EXPERT, NETWORK))
            decided = torch.where(spoken & (rely > 0), heard.to(torch.uint8), decided)
        if known.allowed is not None:
            decided.masked_fill_(allowed.sum(1) == 1, RANGE)
        # the least of λ must not become 0 in single precision: it was used
        used = torch.where(rely > 0, rely.clamp(min=torch.finfo(probabilities.dtype).tiny), 0.0)
        trust = spoken * used.to(probabilities.dtype)
        scope = in_scope(schema, x)
        return Answers(predicted, probabilities, allowed, expert, trust, decided, scope)

    def score(self, personal: Personal, schema: Schema, x: Tensor, y: Tensor) -> dict[str, float]:
        """TA, POV, log-loss, calibration, and how often the label itself is called impossible."""
        starts = range(0, max(len(x), 1), self.chunk)
        found = Answers.join([self.answer(personal, schema, x[i : i + self.chunk]) for i in starts])
        loss = nll(found.probabilities.log(), y)
        inside = found.allowed.gather(1, y.unsqueeze(1)).double().mean()
        scores = {
            "ta": accuracy(found.predicted, y),
            "pov": violation(found.predicted, found.allowed),
            "labels outside the range": 1 - float(inside),
        }
        scores |= class_scores(found.predicted, y, len(schema.classes), ordered=schema.ordered)
        scores |= {"nll": loss} if math.isfinite(loss) else {}
        return scores | class_reliability(found.probabilities, y, ordered=schema.ordered)

    def listens(self, model: nn.Module) -> bool:
        return bool(model.hears)

    @classmethod
    def chosen(cls, bins: Bins | None, *, ordinal: float, hears: bool) -> "Classification":
        if bins is not None or ordinal or hears:
            raise ConfigError("bins, ordinal and hears belong to task = regression")
        return cls()

    @classmethod
    def of(cls, personal: Personal) -> "Classification":
        return cls()

    @classmethod
    def from_header(cls, bins: Bins | None, *, hears: bool) -> "Classification":
        return cls()  # its network says for itself whether it hears


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
            measured = known.annotate(client.data, Line(bins))
            test = (
                None
                if client.test is None
                else known.annotate(client.test, Line(bins), training=False)
            )
            return Client(
                client.id,
                self._rows(_see(measured, client.injected), self.ordinal),
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
                heard_inputs=self.heard_inputs,
            )
        except FedloreError as error:
            raise type(error)(f"client '{client.id}': {error}") from None

    def _rows(self, measured: Measured, ordinal: float = 0.0) -> Examples:
        return measured.examples(ordinal=ordinal, hears=self.hears, between=self.between)

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
                f"{client.heard_inputs} are what the expert says): {reason}"
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
        ensemble: Ensemble | NumberEnsemble | None = None,
    ) -> PersonalRegressor:
        if isinstance(ensemble, Ensemble):
            raise KnowledgeError("a network for a number and members for classes do not fit")
        return PersonalRegressor(
            model,
            self.bins,
            knowledge,
            scaler=scaler,
            weights=weights,
            hears=self.hears,
            ensemble=ensemble,
        )

    def answer(self, personal: PersonalRegressor, schema: Schema, x: Tensor) -> Answers:
        measured = personal.annotate(x)
        found = personal.distribution(measured)
        n, bins = len(x), personal.bins
        silent = torch.full((n,), torch.nan, dtype=torch.float64)
        expert = silent if measured.said is None else measured.said
        rely = fill_trust(measured.trust, personal.reliance)
        trust = torch.where(expert.isnan(), 0.0, rely).float()
        low, high = (torch.full((n,), end, dtype=torch.float64) for end in (bins.lower, bins.upper))
        if measured.sets is not None:
            low = measured.sets.lower.nan_to_num(nan=torch.inf).amin(1)
            high = measured.sets.upper.nan_to_num(nan=-torch.inf).amax(1)
        decided = torch.full((n,), NETWORK, dtype=torch.uint8)
        decided[trust > 0] = BOTH
        decided[trust >= 1] = EXPERT
        decided[low == high] = RANGE
        every = torch.ones(n, bins.k, dtype=torch.bool)
        if personal.ensemble is None:
            number = found.middle(ordered=personal.decode == "median")
        else:
            number = personal.predict(measured)
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
        )

    def score(
        self, personal: PersonalRegressor, schema: Schema, x: Tensor, y: Tensor
    ) -> dict[str, float]:
        """RMSE, MAE, R² and CRPS, numbers outside their set, and how the intervals cover."""
        measured = personal.annotate(x)
        scores = all_scores(personal.predict(measured), y, measured.sets)
        starts = range(0, max(len(x), 1), self.chunk)
        parts = [personal.distribution(measured[i : i + self.chunk]).region(LEVEL) for i in starts]
        n = len(x)
        each = [region_scores(p, y[i : i + self.chunk]) for p, i in zip(parts, starts, strict=True)]
        sizes = [len(p) / max(n, 1) for p in parts]
        together = {
            name: sum(part[name] * size for part, size in zip(each, sizes, strict=True))
            for name in each[0]
        }
        quantiles = personal.quantiles(measured, SCORED_LEVELS)
        return scores | together | {"crps": quantile_score(quantiles, y, SCORED_LEVELS)}

    @property
    def heard_inputs(self) -> int:
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
    def from_header(cls, bins: Bins | None, *, hears: bool) -> "Regression":
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

    measured: Measured
    reliance: float
    injected: bool

    def __call__(self, logits: Tensor) -> dict[str, float]:
        measured = self.measured
        if measured.y is None:
            return {}
        trust = fill_trust(measured.trust, self.reliance)
        found = decode_logits(logits, _see(measured, self.injected), trust)
        return all_scores(
            found.middle(ordered=measured.signs is not None), measured.y, measured.sets
        )


def _see(measured: Measured, injected: bool) -> Measured:
    """What training and prediction may see of the knowledge."""
    return measured if injected else replace(measured, said=None, sets=None)


def _by_bin(found: Distribution, bins: Bins) -> Tensor:
    """The probability of each bin, the expert's number in its own, (n, k)."""
    own = bins.encode(torch.where(found.weight > 0, found.said, bins.lower))
    mixed = (1 - found.weight).unsqueeze(1) * found.classes
    return mixed.scatter_add_(1, own.unsqueeze(1), found.weight.unsqueeze(1))


TASKS: dict[TaskName, type[Classification] | type[Regression]] = {
    "classification": Classification,
    "regression": Regression,
}


def task_for(
    clients: Sequence[Member[P]],
    task: TaskName | TaskKind[P] | None = None,
    *,
    bins: Bins | None = None,
    ordinal: float = 0.0,
    hears: bool = False,
) -> TaskKind[P]:
    """The task of these clients; where none is named, the one that their rows are for."""
    if task is not None and not isinstance(task, str):
        if bins is not None or ordinal or hears:
            raise ConfigError("a task given as an object brings its own bins, ordinal and hears")
        return task
    found = TASKS[name_for(clients, task)].chosen(bins, ordinal=ordinal, hears=hears)
    return cast(TaskKind[P], found)  # a client of another task is refused when it enters


def name_for(clients: Sequence[Member[P]], task: TaskName | TaskKind[P] | None = None) -> TaskName:
    """What the task of these clients is called."""
    if task is None:
        return _name_of(clients[0].predictor) if clients else "classification"
    if not isinstance(task, str):
        return task.name
    if task not in TASKS:
        raise ConfigError(f"task must be {' or '.join(TASKS)}, got '{task}'")
    return task


def task_of(personal: P) -> TaskKind[P]:
    """The task that a personal model answers."""
    kind = cast(type[TaskKind[P]], TASKS[_name_of(type(personal))])
    return kind.of(personal)


def _name_of(predictor: type[Predictor]) -> TaskName:
    for name, kind in TASKS.items():
        if predictor is kind.predictor:
            return name
    raise FedloreError(f"no task has personal models of type {predictor.__name__}")
