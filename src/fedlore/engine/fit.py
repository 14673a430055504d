"""Train a federation in this process with one call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from torch import Tensor, nn

from ..algorithms import Algorithm, FedAvg, Plan
from ..bundle import bundle_of, write_bundle
from ..core.aggregate import Aggregate, aggregate_of
from ..core.history import Row
from ..core.nets import server
from ..core.scaler import Scaler
from ..core.tree import Payload
from ..errors import FedloreError, unknown
from ..knowledge import Knowledge
from ..knowledge.numbers.bins import Bins
from ..knowledge.numbers.numbers import Numbers
from ..knowledge.schema import Schema
from ..personal.classifier import Personal
from ..personal.regressor import PersonalRegressor
from ..privacy.ckks.cipher import new_key
from ..privacy.filters import guarded
from ..privacy.settings import Privacy
from .choice import brought_home, engine_for, scaler_of
from .client import Client
from .defences import books_for, filters_for, privacy_lines, records_of
from .loop import Recipe, Run, Weights, federate, own_params, recall
from .numbers import NumberClient, at_the_door


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained federation: a personal model for every client, and what happened."""

    recipe: Recipe
    run: Run
    knowledge: dict[str, Knowledge]
    memories: dict[str, Payload]
    privacy: tuple[str, ...] = ()  # what was spent and lost, in words

    @property
    def history(self) -> list[Row]:
        """One row per round, and one per client and round that was evaluated."""
        return self.run.rows

    def model(self, client: str) -> Personal:
        """This client's own model f^m."""
        if client not in self.knowledge:
            raise FedloreError(unknown("client", client, self.knowledge))
        algorithm = self.recipe.algorithm
        sent = algorithm.send(self.run.state)
        memory = recall(self.recipe, sent, self.memories[client])
        weights = own_params(algorithm, sent, memory)
        return Personal(
            self.recipe.model,
            self.knowledge[client],
            scaler=self.recipe.scaler,
            weights=weights,
        )

    def predict(self, client: str, x: Tensor) -> Tensor:
        """This client's class for each row in raw units, (n,)."""
        return self.model(client).predict(x)

    def save(
        self,
        client: str,
        path: str | Path,
        *,
        schema: Schema | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Write this client's bundle: a zip where the name ends in .lore, else a folder.

        Without `schema` it is the one of the client's knowledge; without `metrics` they are its
        last scores.
        """
        scores = _scores(self.history, client) if metrics is None else metrics
        write_bundle(bundle_of(self.model(client), client, schema=schema, metrics=scores), path)


@dataclass(frozen=True, eq=False)
class FittedNumbers:
    """A trained federation for numbers: a personal regressor for every client."""

    fitted: Fitted  # the same, seen as classes
    bins: Bins
    knowledge: dict[str, Numbers]
    hears: bool = False

    @property
    def history(self) -> list[Row]:
        """One row per round, and one per client and round that was evaluated."""
        return self.fitted.history

    @property
    def privacy(self) -> tuple[str, ...]:
        """What was spent and lost, in words."""
        return self.fitted.privacy

    def model(self, client: str) -> PersonalRegressor:
        """This client's own regressor."""
        personal = self.fitted.model(client)
        return PersonalRegressor(
            personal.model,
            self.bins,
            self.knowledge[client],
            scaler=personal.scaler,
            hears=self.hears,
        )

    def predict(self, client: str, x: Tensor) -> Tensor:
        """This client's number for each row in raw units, (n,)."""
        return self.model(client).predict(x)

    def save(
        self,
        client: str,
        path: str | Path,
        *,
        schema: Schema,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Write this client's bundle; the schema names its features, and by `label` the number."""
        scores = _scores(self.history, client) if metrics is None else metrics
        write_bundle(bundle_of(self.model(client), client, schema=schema, metrics=scores), path)


class Settings(TypedDict, total=False):
    """What every task shares: the settings of `fit`."""

    algorithm: Algorithm | None
    plan: Plan | None
    rounds: int
    sample: float
    weights: Weights
    aggregate: Aggregate | str
    scale: bool | Scaler
    seed: int
    evaluate: int
    on_round: Callable[[Run], None] | None
    engine: str
    workers: int | None
    device: str | None
    privacy: Privacy | None
    ledgers: str | Path | None


@overload
def fit(
    clients: Sequence[Client],
    model: nn.Module,
    *,
    task: Literal["classification"] = ...,
    **settings: Unpack[Settings],
) -> Fitted: ...


@overload
def fit(
    clients: Sequence[NumberClient],
    model: nn.Module,
    *,
    task: Literal["regression"],
    bins: Bins,
    ordinal: float = ...,
    hears: bool = ...,
    **settings: Unpack[Settings],
) -> FittedNumbers: ...


def fit(
    clients: Sequence[Client] | Sequence[NumberClient],
    model: nn.Module,
    *,
    task: str = "classification",
    bins: Bins | None = None,
    ordinal: float = 0.0,
    hears: bool = False,
    algorithm: Algorithm | None = None,
    plan: Plan | None = None,
    rounds: int = 10,
    sample: float = 1.0,
    weights: Weights = "equal",
    aggregate: Aggregate | str = "mean",
    scale: bool | Scaler = True,
    seed: int = 0,
    evaluate: int = 0,
    on_round: Callable[[Run], None] | None = None,
    engine: str = "auto",
    workers: int | None = None,
    device: str | None = None,
    privacy: Privacy | None = None,
    ledgers: str | Path | None = None,
) -> Fitted | FittedNumbers:
    """Train `model` over the clients, each seeing it through its own knowledge.

    With `scale` the features are standardised by sums that the clients add up first, or by a
    scaler that is known (differential privacy allows no other, see `scaler_of_scope`). The model
    passed in is not changed. For task = regression the clients are `NumberClient`s, the
    model has one output per bin, `ordinal` > 0 makes the loss aim at neighbouring bins too, and
    with `hears` the model gets `regression.HEARD` more inputs: what the expert says of the row.

    The engine trains many clients at once where the model bears it ("auto"), always or not at
    all ("stacked", "local"); `workers` are its processes, and `device` is where it computes.
    `privacy` says what the server may see of single clients: see `fedlore.privacy`. What it spends
    of a budget is kept in the folder `ledgers`, or forgotten after this call.
    """
    people = clients
    clients = at_the_door(people, task, bins, ordinal, hears, model)
    recipe = Recipe(
        server(model),
        algorithm or FedAvg(),
        plan or Plan(),
        seed,
        weights=weights,
        aggregate=aggregate_of(aggregate),
        records=records_of(privacy, rounds),
    )
    books = books_for(privacy, [c.id for c in clients], ledgers)
    filters = filters_for(
        privacy,
        recipe,
        sites=len(clients),
        rounds=rounds,
        sample=sample,
        ledger=books.__getitem__,
        run=f"seed {seed}",
        key=new_key() if privacy is not None and privacy.encryption else None,
    )
    if isinstance(scale, Scaler):
        recipe = replace(recipe, scaler=scale)
    elif scale and clients:
        recipe = replace(recipe, scaler=scaler_of(clients, filters))
    chosen = engine_for(clients, recipe, engine=engine, workers=workers, device=device)
    with chosen as (transport, there):
        run = federate(
            guarded(transport, filters) if filters else transport,
            there,
            rounds,
            sample=sample,
            evaluate=evaluate,
            on_round=on_round,
        )
        kept = transport.memories.items()
        memories = {name: m.settle(run.accepted.get(name, 0)) for name, m in kept}
    run, memories = brought_home(run, memories, recipe.model)
    knowledge = {c.id: c.knowledge if c.injected else Knowledge() for c in clients}
    spent = privacy_lines(privacy, filters, list(books.values()), rounds=rounds, sample=sample)
    told: list[Row] = [{"round": run.round, "privacy": line} for line in spent]
    run = replace(run, rows=[*run.rows, *told])
    fitted = Fitted(recipe, run, knowledge, memories, tuple(spent))
    if bins is None:
        return fitted
    known = {
        c.id: c.knowledge if c.injected else Numbers()
        for c in people
        if isinstance(c, NumberClient)
    }
    return FittedNumbers(fitted, bins, known, hears)


def _scores(history: Sequence[Row], client: str) -> dict[str, float]:
    """The last scores of a client, where it was evaluated."""
    rows = [row for row in history if row.get("client") == client]
    last = {} if not rows else rows[-1]
    return {k: v for k, v in last.items() if isinstance(v, float)}
