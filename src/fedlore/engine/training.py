"""One federated training in this process: its settings, its engine, and what it leaves behind."""

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Literal, get_args

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm, FedAvg, Plan
from ..core import tree
from ..core.aggregate import Aggregate, aggregate_of
from ..core.conformal import CoveragePromise
from ..core.history import Row
from ..core.nets import server
from ..core.scaler import Inputs, Scaler, leave_unscaled
from ..core.tree import Payload
from ..core.wire import Reply, Task
from ..data.rows import as_examples
from ..errors import ConfigError, FedloreError, unknown
from ..kernel.schema import Schema
from ..knowledge.models import Knowledge
from ..models.attribution import input_effects, input_importance, name_effects, usual_row
from ..models.benefit import Benefit
from ..models.client import Client, Member, NumberClient, P, knowledge_within
from ..models.ensemble import Ensemble
from ..models.tasks import TaskKind, task_for
from ..privacy.filters import Filter, Placement, filter_context, guard_transport
from ..privacy.settings import Privacy, filters_of, privacy_lines
from .client import check_shapes
from .loop import Local, Recipe, Run, Weights, federate, own_params, recall, scale_together
from .stacked import Stacked
from .stacked.params import Batch, StackedParams


@dataclass(frozen=True, eq=False)
class Fitted(Generic[P]):
    """A trained federation of any task: P is the personal model that its clients get."""

    task: TaskKind[P]
    recipe: Recipe
    run: Run
    knowledge: Mapping[str, Knowledge]  # by client; one that says nothing where it stayed outside
    memories: dict[str, Payload]
    privacy: tuple[str, ...] = ()  # what was spent and lost, in words
    ensembles: Mapping[str, Ensemble] = field(default_factory=dict)  # by client
    tables: Mapping[str, Benefit] = field(default_factory=dict)  # what it brought, by client
    holdings: Mapping[str, tuple[CoveragePromise, ...]] = field(default_factory=dict)  # by client

    def __repr__(self) -> str:
        """One line: weights and rules are no reading matter."""
        names = list(self.knowledge)
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        word = "client" if len(names) == 1 else "clients"
        return f"{type(self).__name__}({len(names)} {word}: {shown}; {self.run.round} rounds)"

    @property
    def history(self) -> list[Row]:
        """One row per round, and one per client and round that was evaluated."""
        return self.run.rows

    def model(self, client: str) -> P:
        """This client's own model f^m."""
        if client not in self.knowledge:
            raise FedloreError(unknown("client", client, self.knowledge))
        algorithm = self.recipe.algorithm
        sent = algorithm.send(self.run.state)
        memory = recall(self.recipe, sent, self.memories[client])
        return self.task.build(
            self.recipe.model,
            self.knowledge[client],
            scaler=self.recipe.scaler,
            weights=own_params(algorithm, sent, memory),
            ensemble=self.ensembles.get(client),
        )

    def benefit(self, client: str) -> Benefit:
        """What taking part brought this client, on its own rows; recipe = lore finds it out."""
        self._need_tables()
        if client not in self.tables:
            raise FedloreError(unknown("client with a table", client, self.tables))
        return self.tables[client]

    def _need_tables(self) -> None:
        if not self.tables:
            raise FedloreError('no models were compared: only fit(..., recipe="lore") does that')

    def leaderboard(self) -> Any:
        """A pandas data frame of what each client had to choose from, the best first.

        One row for a client and a way to predict, on rows that it had not seen, with the ends of
        a 95 % interval; recipe = lore finds it out.
        """
        self._need_tables()
        try:
            pandas = import_module("pandas")
        except ModuleNotFoundError:
            raise FedloreError("a leaderboard is a data frame: pip install pandas") from None
        rows: list[dict[str, Any]] = []
        for client, table in self.tables.items():
            best = sorted(table.lines, key=lambda one: one.value, reverse=table.measure != "rmse")
            about = {"client": client, "measure": table.measure, "rows": table.rows}
            rows += [
                {**about, **asdict(one), "weight": table.weights.get(one.name)} for one in best
            ]
        return pandas.DataFrame(rows)

    def predict(self, client: str, x: Any) -> Tensor:
        """This client's class or number for each row in raw units, (n,).

        Rows may be a tensor, or anything with columns that the knowledge's schema names: a frame,
        columns by name, records, an array.
        """
        return self.model(client).predict(self._rows(client, x))

    def explain(self, client: str, x: Any) -> list[dict[str, float]]:
        """How far each input moves a client's answers, row by row, the greatest first.

        It is the answer (of classes the probability of the class that is answered) less what it
        would be if that input alone had its usual value.
        """
        rows = self._rows(client, x)
        model: Any = self.model(client)
        schema = self.knowledge[client].schema
        usual = usual_row(model.inner.scaler, rows, schema)
        return name_effects(input_effects(model, rows, usual), schema)

    def importance(self, client: str, x: Any, y: Tensor, *, seed: int = 0) -> dict[str, float]:
        """How much worse a client's model gets on labelled rows when an input is shuffled."""
        model, rows = self.model(client), self._rows(client, x)
        found = input_importance(model, rows, y, seed=seed)
        return name_effects(found[None], self.knowledge[client].schema)[0]

    def _rows(self, client: str, x: Any) -> Tensor:
        if isinstance(x, Tensor):
            return x
        if client not in self.knowledge:
            raise FedloreError(unknown("client", client, self.knowledge))
        schema = self.knowledge[client].schema
        if schema is None:
            raise FedloreError("rows by name need knowledge with a schema: give a tensor")
        return as_examples(x, schema).x

    def scores(self, client: str) -> dict[str, float]:
        """The last scores of a client, where it was evaluated."""
        rows = [row for row in self.history if row.get("client") == client]
        last = {} if not rows else rows[-1]
        return {k: v for k, v in last.items() if isinstance(v, float)}

    def save(
        self,
        client: str,
        path: str | Path,
        *,
        schema: Schema | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Write this client's bundle: a zip where the name ends in .lore, else a folder.

        Without `schema` it is the one of the client's knowledge, where that was read from a file.
        Without `metrics` they are its last scores.
        """
        from ..bundle import save_bundle  # upstairs: training itself needs no archive

        held = self.holdings.get(client, ())
        save_bundle(self, client, path, schema=schema, metrics=metrics, holdings=held)


Engine = Literal["auto", "local", "stacked"]

_log = logging.getLogger("fedlore")


@contextmanager
def engine_for(
    clients: Sequence[Client],
    recipe: Recipe,
    *,
    engine: str = "auto",
    workers: int | None = None,
    device: str | None = None,
) -> Iterator[tuple[Local | Stacked, Recipe]]:
    """The engine, and the recipe with its model on the engine's device.

    `auto` trains in stacks wherever the model bears it, and says in one line why it does not.
    Without `workers` there is one process for each core, where a round is long enough to pay.
    """
    if engine not in get_args(Engine):
        raise ConfigError(unknown("engine", engine, get_args(Engine)))
    if workers is not None and workers < 1:
        raise ConfigError(f"workers must be at least 1, got {workers}")
    if device is not None:
        recipe = replace(recipe, model=_move(recipe.model, device))
    if recipe.records is not None:
        if engine != "local":
            _log.warning("clients are trained one by one: record level differential privacy")
        engine = "local"
    if engine == "auto" and clients:
        reason = why_not_stacked(recipe.model, clients[0])
        if reason is not None:
            _log.warning("clients are trained one by one: %s", reason)
            engine = "local"
    if engine == "local" or not clients:
        yield Local(clients, recipe), recipe
        return
    with Stacked(clients, recipe, workers=workers) as stacked:
        yield stacked, recipe


@torch.no_grad()
def why_not_stacked(model: nn.Module, client: Client) -> str | None:
    """What keeps a model from being trained for many clients at once, None if nothing does."""
    like = next(model.parameters())
    row = client.data[:1].to(like.device)
    x = row.x.to(like.dtype)
    params = StackedParams(model, x, 2)
    if params.by_hand:
        return None
    two = x.expand(2, *x.shape)  # (2, 1, *features)
    try:
        logits = model(x, row.prior, row.allowed)
        heard = None
        if getattr(model, "hears", True):
            heard = two.new_zeros(2, 1, 2 * logits.shape[1])
        target = two.new_zeros(2, logits.shape[1], 1)
        params.load(dict(model.named_parameters()), 2)
        params.program(2, 1).gradient(Batch(two, target, heard), 0.0, 0.0)
    except Exception as error:  # whatever a user's own model may raise
        return f"{type(model).__name__} cannot be mapped over clients ({_line(error)})"
    return None


def scaler_of(clients: Sequence[Client], filters: Sequence[Filter] = ()) -> Scaler:
    """A common scaler from the clients' sums; nothing else is made ready for it."""
    with torch.no_grad():
        inputs = inputs_of_all(clients)
        return scale_together(guard_transport(_Sums(clients, inputs), filters), inputs)


@torch.no_grad()
def fit_inputs(clients: Sequence[Client], model: nn.Module) -> list[Client]:
    """The clients, their levels as one number each where the network was made for that."""
    inputs = inputs_of_all(clients)
    if inputs is None:
        return list(clients)
    one = next(model.parameters())
    row = clients[0].data[:1].to(one.device)
    x = inputs.encode(row.x).to(one.dtype)
    try:
        model(x, row.prior, row.allowed)
        return list(clients)
    except RuntimeError:
        if any(feature.missing for feature in inputs.features):
            raise ConfigError(
                f"the model cannot be called on rows of {x.shape[1]} inputs (levels and missing "
                "values add some): count_inputs(schema) says how many there are"
            ) from None
    return [replace(client, numeric=True) for client in clients]


def inputs_of_all(clients: Sequence[Client | NumberClient]) -> Inputs | None:
    """How the rows of these clients reach a network, which must be the same everywhere."""
    found = [client.inputs for client in clients]
    if len({None if one is None else one.without_fills() for one in found}) > 1:
        raise ConfigError(
            "the clients' features differ in levels, or in what replaces a missing value: these "
            "must be the same at all clients"
        )
    known = [one for one in found if one is not None]
    return reduce(Inputs.join, known) if known else None


def identity_scaler(clients: Sequence[Client], *, heard: int = 0) -> Scaler | None:
    """Rows as networks take them, without a scaling; None where features are plain numbers."""
    inputs = inputs_of_all(clients)
    return None if inputs is None else leave_unscaled(inputs).widen(heard)


def bring_home(
    run: Run, memories: dict[str, Payload], like: nn.Module
) -> tuple[Run, dict[str, Payload]]:
    """The results on the device of the model that was given."""
    where = next(like.parameters()).device

    def home(payload: Payload) -> Payload:
        return tree.each(payload, lambda t: t.to(where))

    return replace(run, state=home(run.state)), {n: home(m) for n, m in memories.items()}


class _Sums:
    """A transport that can only be asked for sums of features."""

    def __init__(self, clients: Sequence[Client], inputs: Inputs | None) -> None:
        self._clients, self._inputs = {c.id: c for c in clients}, inputs

    def clients(self) -> Sequence[str]:
        return list(self._clients)

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        for name in to:
            yield Reply(name, task.round, {"moments": self._clients[name].sums(self._inputs)})


def _move(model: nn.Module, device: str) -> nn.Module:
    try:
        return copy.deepcopy(model).to(device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device '{device}' cannot be used: {_line(error)}") from None


def _line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:120] or type(error).__name__


@dataclass(frozen=True)
class Training:
    """How a federation is trained: what `fit` says about each of these."""

    algorithm: Algorithm = field(default_factory=FedAvg)
    plan: Plan = field(default_factory=Plan)
    rounds: int = 10
    sample: float = 1.0
    weights: Weights = "equal"
    aggregate: Aggregate | str = "mean"
    scale: bool | Scaler = True
    seed: int = 0
    evaluate: int = 0
    on_round: Callable[[Run], None] | None = None
    engine: str = "auto"
    workers: int | None = None
    device: str | None = None
    privacy: Privacy | None = None
    ledgers: str | Path | None = None

    def quiet(self) -> "Training":
        """The same without scores and reports, for trials."""
        return replace(self, evaluate=0, on_round=None)

    def filters(self, recipe: Recipe, sites: int, *, sums: bool = False) -> tuple[Filter, ...]:
        """What privacy puts between this many sites and the server."""
        around = filter_context(
            recipe.algorithm,
            sites=sites,
            rounds=self.rounds,
            weights=recipe.weights,
            aggregate=recipe.aggregate,
            sample=self.sample,
            sums=sums,
        )
        folder = None if self.ledgers is None else Path(self.ledgers)
        place = Placement(folder=folder, run=f"seed {self.seed}")
        return tuple(filters_of(self.privacy, around, place))

    def scaler(
        self, clients: Sequence[Client], filters: Sequence[Filter], *, heard: int = 0
    ) -> Scaler | None:
        """The scaler that is given, or found from sums; None where rows stay as they are."""
        if isinstance(self.scale, Scaler):
            return self.scale
        if self.scale and clients:
            return scaler_of(clients, filters)
        return identity_scaler(clients, heard=heard)

    def privacy_cost(self, filters: Sequence[Filter]) -> tuple[str, ...]:
        """What the training cost in privacy, in words."""
        return tuple(privacy_lines(filters, rounds=self.rounds, sample=self.sample))


def train(
    members: Sequence[Member[P]],
    model: nn.Module,
    training: Training,
    *,
    task: TaskKind[P] | None = None,
) -> Fitted[P]:
    """Train `model` over the clients as `training` says; the model passed in is not changed."""
    task = (task or task_for(members)).suit(model)
    clients = [task.enter(member) for member in members]
    clients = fit_inputs(clients, server(model))
    for client in clients[:1]:
        task.check(model, client.encode(identity_scaler(clients, heard=task.heard_inputs)))
    privacy, rounds, sample = training.privacy, training.rounds, training.sample
    recipe = Recipe(
        server(model),
        training.algorithm,
        training.plan,
        training.seed,
        weights=training.weights,
        aggregate=aggregate_of(training.aggregate),
        records=None if privacy is None else privacy.records(rounds),
    )
    for member in members:
        check_shapes(member, noisy=recipe.records is not None)
    filters = training.filters(recipe, len(clients))
    recipe = replace(recipe, scaler=training.scaler(clients, filters, heard=task.heard_inputs))
    clients = [client.encode(recipe.scaler) for client in clients]
    chosen = engine_for(
        clients,
        recipe,
        engine=training.engine,
        workers=training.workers,
        device=training.device,
    )
    with chosen as (transport, there):
        run = federate(
            guard_transport(transport, filters) if filters else transport,
            there,
            rounds,
            sample=sample,
            evaluate=training.evaluate,
            on_round=training.on_round,
        )
        kept = transport.memories.items()
        memories = {name: m.settle(run.accepted.get(name, 0)) for name, m in kept}
    run, memories = bring_home(run, memories, recipe.model)
    spent = training.privacy_cost(filters)
    lines: list[Row] = [{"round": run.round, "privacy": line} for line in spent]
    run = replace(run, rows=[*run.rows, *lines])
    known = {m.id: knowledge_within(m) for m in members}
    return Fitted(task, recipe, run, known, memories, spent)
