"""What a task is: all that differs between learning a class and learning a number.

The loop, the algorithms and the engines know classes alone. A task turns a site's rows into
those at the door, and what was learned back into a model that answers in the site's own terms.
A new task is a file beside these with an entry in `TASKS`, and where its rows are of a new type
a kind of client.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, cast

import torch
from torch import Tensor, nn

from ..answers import HEARD, Bins, Line, Measured
from ..answers.measured import all_scores
from ..core.examples import Examples
from ..core.inject import fill_trust
from ..core.nets import server
from ..core.ordinal import reads_between
from ..core.scaler import Scaler
from ..core.tree import Params
from ..errors import ConfigError, FedloreError, KnowledgeError
from ..knowledge import Knowledge
from .classifier import Personal, TaskName
from .client import Client, Member, NumberClient, P, P_co
from .ensemble import Ensemble
from .regressor import PersonalRegressor, decode_logits


class TaskKind(Protocol[P_co]):
    """What a federation learns, and how a personal model P of it is made."""

    @property
    def name(self) -> TaskName: ...

    @property
    def predictor(self) -> type[P_co]:
        """The personal model of this task; a client of this task names the same."""

    # the door

    def enter(self, client: Member[Any]) -> Client:
        """The client as the loop knows it, or an error if its rows are for another task."""

    def check(self, model: nn.Module, client: Client) -> None:
        """Refuse a network that cannot learn this task from a client's rows."""

    def suit(self, model: nn.Module) -> Self:
        """The task as this network reads its rows."""

    # the personal model

    def build(
        self,
        model: nn.Module,
        knowledge: Knowledge | None,
        *,
        scaler: Scaler | None = None,
        weights: Params | None = None,
        ensemble: Ensemble | None = None,
    ) -> P_co:
        """A network seen through one site's knowledge; without any it is the network alone."""

    @property
    def heard_inputs(self) -> int:
        """How many inputs beside the features the network has for what the expert says."""

    # how it is made

    @classmethod
    def from_settings(cls, bins: Bins | None, *, ordinal: float, hears: bool) -> Self:
        """The task as `fit` was asked for it."""


def wrong_client(task: TaskName, wanted: str, client: Member[Any]) -> ConfigError:
    """The error for rows of another task."""
    return ConfigError(
        f"{task} needs clients of type {wanted}: '{client.id}' is a {type(client).__name__}"
    )


@dataclass(frozen=True)
class Classification:
    """The label is a class; a `Client` is in the loop's own terms already."""

    name: ClassVar[TaskName] = "classification"
    predictor: ClassVar[type[Personal]] = Personal
    heard_inputs: ClassVar[int] = 0  # a network that hears gets prior and range beside its rows

    def enter(self, client: Member[Any]) -> Client:
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
        ensemble: Ensemble | None = None,
    ) -> Personal:
        if knowledge is not None and knowledge.line is not None:
            raise KnowledgeError("a network for classes and knowledge about a number do not fit")
        if ensemble is not None and ensemble.of_number:
            raise KnowledgeError("a network for classes and members for a number do not fit")
        return Personal(model, knowledge, scaler=scaler, weights=weights, ensemble=ensemble)

    @classmethod
    def from_settings(cls, bins: Bins | None, *, ordinal: float, hears: bool) -> "Classification":
        if bins is not None or ordinal or hears:
            raise ConfigError("bins, ordinal and hears belong to task = regression")
        return cls()


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

    def __post_init__(self) -> None:
        if not 0.0 <= self.ordinal < float("inf"):
            raise ConfigError(f"ordinal must not be negative, got {self.ordinal}")

    def enter(self, client: Member[Any]) -> Client:
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
        ensemble: Ensemble | None = None,
    ) -> PersonalRegressor:
        if knowledge is not None and knowledge.line is None:
            raise KnowledgeError(
                "a network for a number and knowledge about classes do not fit; of knowledge made "
                "in Python that names a number, say so: knowledge.of_number(bins)"
            )
        if ensemble is not None and not ensemble.of_number:
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

    @property
    def heard_inputs(self) -> int:
        return HEARD if self.hears else 0

    @classmethod
    def from_settings(cls, bins: Bins | None, *, ordinal: float, hears: bool) -> "Regression":
        if bins is None:
            raise ConfigError("regression needs bins, the federation's declared bounds and edges")
        return cls(bins, ordinal, hears)


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
    numbers = bool(clients) and clients[0].predictor is PersonalRegressor
    name = task or ("regression" if numbers else "classification")
    if name not in TASKS:
        raise ConfigError(f"task must be {' or '.join(TASKS)}, got '{name}'")
    found = TASKS[name].from_settings(bins, ordinal=ordinal, hears=hears)
    return cast(TaskKind[P], found)  # a client of another task is refused when it enters
