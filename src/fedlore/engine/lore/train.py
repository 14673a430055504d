"""lore in one process: a transport to all sites, the server over it, a model for each site."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn

from ...answers import Bins
from ...core.aggregate import aggregate_of
from ...core.history import Row, tell_step
from ...core.lipschitz import keeps_shapes
from ...core.nets import server
from ...core.tree import Params, Payload
from ...core.wire import LORE_TASKS, Reply, Task, Transport
from ...errors import ConfigError, FedloreError
from ...models.client import Client, Member, NumberClient, knowledge_within
from ...models.tasks import TaskKind, task_for, wrong_client
from ...privacy.filters import guard_transport
from ..loop import Local
from ..stacked import Stacked
from ..training import (
    Fitted,
    Training,
    bring_home,
    engine_for,
    fit_inputs,
    inputs_of_all,
)
from .client import LoreClient
from .rows import SiteRows
from .server import Progress, conduct
from .space import MAIN, Agreement, ModelMaker, SearchSpace, Trial, default_space
from .stacking import SiteModel


class InProcess:
    """All sites in this process, with an engine for the training that runs.

    Close it, or use it in a with statement.
    """

    def __init__(
        self,
        rows: Sequence[SiteRows],
        common: Agreement,
        *,
        engine: str = "auto",
        workers: int | None = None,
    ) -> None:
        self._clients = {r.id: LoreClient(r, _Memory(self, r.id)) for r in rows}
        self._common, self._engine, self._workers = common, engine, workers
        self._stack = ExitStack()
        self._running: tuple[Trial, Local | Stacked] | None = None
        self.memories: dict[tuple[Trial, str], Payload] = {}  # of trainings that are over
        self.models: dict[str, SiteModel] = {}

    def clients(self) -> Sequence[str]:
        return list(self._clients)

    @property
    def sums(self) -> bool:
        """Whether a reply may stand for many clients; the engine of a trial says the rest."""
        return True

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        if task.kind in LORE_TASKS:
            if task.trial:
                self._end(Trial.read(task.trial), task)
            for count, name in enumerate(to, 1):
                yield self._clients[name].answer(task)
                if task.kind == "ensemble":
                    tell_step(f"ensembles of {count} of {len(to)} sites")
        else:
            yield from self._engine_of(Trial.read(task.trial)).exchange(task, to)

    def close(self) -> None:
        """End the training that runs, if there is one."""
        self._running = None
        self._stack.close()

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _engine_of(self, trial: Trial) -> Local | Stacked:
        """The engine of a training, made when its first task comes."""
        if self._running is None or self._running[0] != trial:
            self.close()
            rounds = self._common.rounds
            self.memories = {k: m for k, m in self.memories.items() if k[0].rounds == rounds}
            candidate = self._common.candidate(trial)
            clients = [c.rows.part(candidate, trial.fold)[0] for c in self._clients.values()]
            recipe = self._common.recipe(candidate)
            chosen = engine_for(clients, recipe, engine=self._engine, workers=self._workers)
            self._running = (trial, self._stack.enter_context(chosen)[0])
        return self._running[1]

    def _end(self, trial: Trial, task: Task) -> None:
        """Commit what the clients remember of a training, and free its engine."""
        if self._running is not None and self._running[0] == trial:
            for name, memory in self._running[1].memories.items():
                self.memories[trial, name] = memory.settle(task.accepted.get(name, 0))
            self.close()

    def memories_after(self, trial: Trial) -> Mapping[str, Payload]:
        """What each site remembers after the main training, its last steps included."""
        assert trial.fold == MAIN
        found = {}
        for name in self._clients:
            memory = self.memories.get((trial, name), {})
            last = self.models[name].finished if name in self.models else None
            found[name] = memory if last is None else memory | {"finished": last}
        return found


class _Memory:
    """The shelf of a client in this process."""

    def __init__(self, process: InProcess, name: str) -> None:
        self._process, self._name = process, name

    def memory(self, trial: Trial, accepted: int) -> Payload:
        return self._process.memories.get((trial, self._name), {})

    def full_training(self, trial: Trial) -> Payload | None:
        return self.memory(trial, 0)

    def has_model(self, key: str) -> bool:
        return False

    def keep(self, model: SiteModel, trial: Trial, network: Params, key: str) -> None:
        self._process.models[self._name] = model


def train_lore(
    members: Sequence[Member[Any]],
    training: Training,
    *,
    model: nn.Module | ModelMaker | None = None,
    search_space: SearchSpace | None = None,
    bins: Bins | None = None,
    ordered: bool | None = None,
    hidden: tuple[int, ...] = (64, 64),
    shaped: bool | None = None,
    metric: str = "",
    progress: Progress | None = None,
    door: Callable[[Transport], Transport] | None = None,  # what stands before the server
) -> Fitted[Any]:
    """Choose the recipe by trials on training rows, train it, and let every site fit its ensemble.

    With `shaped` the networks keep shapes; None: where any site has some.
    """
    if not members:
        raise ConfigError("a federation needs at least one client, got none")
    task = task_for(members, bins=bins)
    sites = _fit_sites(members, model, task)
    if shaped is None:
        shapes = [s.knowledge.shapes for s in sites if s.injected]
        shaped = any(one is not None and one.directed is not None for one in shapes)
    common = _common(sites, training, model, search_space, bins, ordered, hidden, shaped, metric)
    dp = training.privacy is not None and training.privacy.dp is not None
    if dp:
        common.search_space.refuse_dp()
    site_rows = [SiteRows(site, common) for site in sites]
    plain = [site.plain for site in site_rows]
    first = common.recipe(common.search_space.candidates[0])
    filters = training.filters(first, len(sites), sums=first.one_shot is not None)
    common = common.with_scaler(training.scaler(plain, filters))
    sites = [site.encode(common.scaler) for site in sites]
    site_rows = [SiteRows(site, common) for site in sites]
    progress = progress or Progress()
    if training.on_round is not None:
        heard = training.on_round
        progress.on_round = lambda name, run: heard(run) if "/main/" in name else None
    with InProcess(site_rows, common, engine=training.engine, workers=training.workers) as process:
        reached = guard_transport(process, filters) if filters else process
        found = conduct(
            reached if door is None else door(reached),
            common,
            progress=progress,
            evaluate=training.evaluate,
            private=dp,
            salt="" if any(one.hides for one in filters) else None,
        )
        memories, private = process.memories_after(found.trial), process.models
    recipe = common.recipe(found.candidate)
    like = replace(common, device=None).model(found.candidate)
    run, at_home = bring_home(found.run, dict(memories), like)
    recipe = replace(recipe, model=like)
    spent = training.privacy_cost(filters)
    lines: list[Row] = [{"round": run.round, "privacy": line} for line in spent]
    lines += [{"round": run.round, "trial": n, "loss": loss} for n, loss in found.losses.items()]
    lines.append({"round": run.round, "recipe": str(found.candidate)})
    task = site_rows[0].task(found.candidate)
    fitted: Fitted[Any] = Fitted(
        task,
        recipe,
        replace(run, rows=[*run.rows, *lines]),
        {s.id: private[s.id].knowledge if s.injected else knowledge_within(s) for s in sites},
        at_home,
        spent,
        {name: one.ensemble for name, one in private.items() if one.ensemble is not None},
        {name: one.benefit for name, one in private.items() if one.benefit is not None},
        {name: one.holdings for name, one in private.items()},
    )
    return _score(fitted, sites) if training.evaluate else fitted


def _fit_sites(
    members: Sequence[Member[Any]], model: nn.Module | ModelMaker | None, task: TaskKind[Any]
) -> list[Client | NumberClient]:
    """The sites, their levels as numbers where a network was given that takes them so."""
    for member in members:
        if member.predictor is not task.predictor:
            wanted = "NumberClient" if task.name == "regression" else "Client"
            raise wrong_client(task.name, wanted, member)
    sites = cast(Sequence[Client | NumberClient], members)
    if model is None:
        return list(sites)
    fitted = fit_inputs([task.enter(site) for site in sites], _network_of(model))
    return [replace(s, numeric=f.numeric) for s, f in zip(sites, fitted, strict=True)]


def _network_of(model: nn.Module | ModelMaker) -> nn.Module:
    return server(model if isinstance(model, nn.Module) else model(False))


def _common(
    sites: Sequence[Client | NumberClient],
    training: Training,
    model: nn.Module | ModelMaker | None,
    search_space: SearchSpace | None,
    bins: Bins | None,
    ordered: bool | None,
    hidden: tuple[int, ...],
    shaped: bool = False,
    metric: str = "",
) -> Agreement:
    numbers = bins is not None
    inputs = inputs_of_all(sites)
    features = sites[0].data.x.shape[1:].numel() if inputs is None else inputs.width
    flags = () if inputs is None else inputs.flags
    flat = sites[0].data.x.ndim == 2
    if ordered is None:
        schemas = [s.knowledge.schema for s in sites if not numbers]
        found = {schema.ordered for schema in schemas if schema is not None}
        if len(found) > 1:
            raise ConfigError("the sites' schemas differ in whether classes are ordered")
        ordered = found == {True}
    if search_space is None:
        search_space = default_space(
            features, ordered=ordered and flat, numbers=numbers, shaped=shaped, flags=flags
        )
    search_space = search_space.with_flags(flags)
    if metric:
        search_space = replace(search_space, metric=metric)
    maker: ModelMaker | None = None
    if shaped and model is not None:
        made = _network_of(model)
        if not keeps_shapes(made):
            raise ConfigError(
                "where sites have shapes lore tries only networks that keep them: leave the model "
                f"out, got a {type(made).__name__}"
            )
    if isinstance(model, nn.Module):
        given = model
        hears = bool(getattr(given, "hears", False))
        usable = [c for c in search_space.candidates if c.head != "classes" or c.hears == hears]
        if not usable:
            raise ConfigError(
                "no candidate of the search space suits a network that "
                f"{'hears the expert' if hears else 'does not hear the expert'}"
            )
        search_space = replace(search_space, candidates=tuple(usable))
        maker = lambda hears: given  # noqa: E731
    elif model is not None:
        maker = model
    privacy = training.privacy
    if privacy is not None and privacy.records(training.rounds) is not None:
        raise ConfigError("recipe = lore and record level differential privacy do not go together")
    return Agreement(
        features,
        count_classes(cast(Sequence[Client], sites)) if bins is None else bins.k,
        search_space,
        training.plan,
        training.rounds,
        training.seed,
        training.sample,
        training.algorithm,
        training.weights,
        aggregate_of(training.aggregate),
        hidden=hidden,
        bins=bins,
        ordered=ordered,
        make_model=maker,
        device=training.device,
    )


def count_classes(clients: Sequence[Client]) -> int:
    """How many classes there are: as the schemas say, else the knowledge, else the labels."""
    for client in clients:
        if client.knowledge.schema is not None:
            return len(client.knowledge.schema.classes)
    for client in clients:
        for rows in (client.data.prior, client.data.allowed):
            if rows is not None:
                return rows.shape[1]
    tops = [int(c.data.y.max()) + 1 for c in clients if c.data.y is not None]
    if not tops:
        raise FedloreError("no client has labels to learn from")
    return max(2, *tops)


@torch.no_grad()
def _score(fitted: Fitted[Any], sites: Sequence[Client | NumberClient]) -> Fitted[Any]:
    """The same with the scores of the sites' mixtures, where they have test rows."""
    rows: list[Row] = []
    for site in sites:
        scores = site.score(fitted.model(site.id))
        if scores:
            rows.append({"round": fitted.run.round, "client": site.id, **scores})
    return replace(fitted, run=replace(fitted.run, rows=[*fitted.run.rows, *rows]))
