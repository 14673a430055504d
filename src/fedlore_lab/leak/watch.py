"""A training run as a curious coordinator watches it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import nn

from fedlore import Personal
from fedlore.algorithms import Plan
from fedlore.core import tree
from fedlore.core.nets import server
from fedlore.core.scaler import Scaler
from fedlore.core.tree import Params
from fedlore.core.wire import Reply, Task, Transport
from fedlore.engine import Client, Fitted, Local, Recipe, engine_for, federate
from fedlore.knowledge import Knowledge
from fedlore.personal import Classification
from fedlore.privacy import Filter, guard_transport

from .settings import LeakSetting, View
from .uploads import Anatomy, Seen


@dataclass(frozen=True, eq=False)
class Exchange:
    """One round of training at the server's side: the broadcast, and what came back."""

    sent: Params
    uploads: dict[str, Params]  # by site; one entry that stands for all where a filter sums

    def seen(self, site: str, view: View, start: Params) -> Seen:
        """What the coordinator holds against one site; private layers are known at their start."""
        names = names_seen(list(self.uploads), site, view)
        moved = tree.mean([({"": self.uploads[name]}, 1.0) for name in names])[""]
        return Seen(start | self.sent, moved)


def names_seen(names: Sequence[str], site: str, view: View) -> Sequence[str]:
    """Whose answers the coordinator can take the mean of, when it is after one site."""
    if view == "single" and site in names:
        return [site]
    if view == "collusion" and site in names:
        other = names[(names.index(site) + 1) % len(names)]
        return [name for name in names if name != other]
    return names


class Spy:
    """A transport that keeps what passes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.kept: dict[str, list[Exchange]] = {}  # rounds of each training, by its trial
        self.told: dict[str, dict[str, Params]] = {}  # sums of rows and votes, by task and site

    def clients(self) -> Sequence[str]:
        return self._transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        replies = list(self._transport.exchange(task, to))
        inside = {"train": "model", "gram": "gram", "vote": "vote"}.get(task.kind)
        if inside is not None:
            uploads = {r.client: r.upload[inside] for r in sorted(replies, key=lambda r: r.client)}
            if task.kind == "train":
                exchange = Exchange(task.sent["model"], uploads)
                self.kept.setdefault(task.trial, []).append(exchange)
            else:
                self.told[f"{task.kind} {task.trial}".strip()] = uploads
        yield from replies


@dataclass(frozen=True, eq=False)
class Watched:
    """A run, its weights and all that its server saw."""

    fitted: Fitted[Personal]
    exchanges: list[Exchange]

    @property
    def start(self) -> Params:
        return {n: p.detach() for n, p in self.fitted.recipe.model.named_parameters()}


def anatomy(run: Watched, setting: LeakSetting) -> Anatomy:
    """Where this run's network keeps what speaks of classes."""
    shapes = {name: tuple(t.shape) for name, t in run.start.items()}
    return Anatomy.of(shapes, hears=setting.approach.hears)


def as_trained(client: Client, setting: LeakSetting, trust: float | None = None) -> Client:
    """A client as the setting trains it; `trust` replaces its λ."""
    approach = setting.approach
    if not approach.trained:
        return client.bare()
    told = approach.trust if trust is None else trust
    known = replace(client.knowledge, floor=setting.floor)
    return replace(client, knowledge=known if told is None else replace(known, trust=told))


def watch(
    clients: Sequence[Client],
    model: nn.Module,
    setting: LeakSetting,
    *,
    plan: Plan,
    rounds: int,
    seed: int,
    scaler: Scaler | None,
    filters: Sequence[Filter] = (),
    one_by_one: bool = False,
) -> Watched:
    """Train as `fit` does, with a spy at the server's door.

    `one_by_one` is for clients of a single row and a single round, where stacking does not pay.
    """
    algorithm = setting.approach.algorithm
    assert algorithm is not None
    plan = replace(plan, plain=setting.approach.plain)
    recipe = Recipe(server(model), algorithm, plan, seed, scaler=scaler)
    if one_by_one:
        transport = Local(clients, recipe)
        spy = Spy(guard_transport(transport, filters) if filters else transport)
        run = federate(spy, recipe, rounds)
        return Watched(Fitted(Classification(), recipe, run, {}, {}), spy.kept[""])
    with engine_for(clients, recipe, workers=1) as (engine, there):
        spy = Spy(guard_transport(engine, filters) if filters else engine)
        run = federate(spy, there, rounds)
        memories = {n: m.settle(run.accepted.get(n, 0)) for n, m in engine.memories.items()}
    knowledge = {c.id: c.knowledge if c.injected else Knowledge() for c in clients}
    return Watched(Fitted(Classification(), recipe, run, knowledge, memories), spy.kept[""])
