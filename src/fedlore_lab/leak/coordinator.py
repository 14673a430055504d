"""A training run as a curious coordinator sees it, with the filters that stand before it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedlore import Personal
from fedlore.algorithms import Plan
from fedlore.core import tree
from fedlore.core.nets import server
from fedlore.core.scaler import Scaler
from fedlore.core.tree import Params
from fedlore.core.wire import Reply, Task, Transport
from fedlore.engine import Client, Fitted, Local, Recipe, engine_for, federate
from fedlore.knowledge import Knowledge
from fedlore.models import Classification
from fedlore.privacy import Dp, Filter, Ledger, NoiseFilter, guard_transport

from .settings import LeakSetting, View
from .uploads import Anatomy, Seen, one_row

DELTA = 1e-5


def leak_filters(setting: LeakSetting, clients: Sequence[Client], rounds: int) -> list[Filter]:
    """Site-level noise in shares at the sites, whose sum alone the server sees.

    Secure aggregation and encryption change nothing in the sum beyond rounding, so that for them
    the audit looks at the sum itself.
    """
    if setting.epsilon is None:
        return []
    dp = Dp(setting.epsilon, DELTA, clip=setting.clip)
    noise = dp.multiplier(rounds)
    ledgers = {client.id: Ledger() for client in clients}
    return [NoiseFilter(dp, noise, len(clients), ledgers.__getitem__, "leak audit")]


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
        self.answers: dict[str, dict[str, Params]] = {}  # sums of rows and votes, by task and site

    def clients(self) -> Sequence[str]:
        return self._transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        replies = list(self._transport.exchange(task, to))
        inside = {k: k for k in ("gram", "vote")}.get(task.kind)
        inside = "model" if task.kind == "train" else inside
        if inside is not None:
            uploads = {r.client: r.upload[inside] for r in sorted(replies, key=lambda r: r.client)}
            if task.kind == "train":
                exchange = Exchange(task.sent["model"], uploads)
                self.kept.setdefault(task.trial, []).append(exchange)
            else:
                step = task.trial if task.kind == "vote" else str(task.round or "")
                name = f"{task.kind} {step}".strip()
                self.answers[name] = uploads
        yield from replies


@dataclass(frozen=True, eq=False)
class ObservedRun:
    """A run, its weights and all that its server saw."""

    fitted: Fitted[Personal]
    exchanges: list[Exchange]

    @property
    def start(self) -> Params:
        return {n: p.detach() for n, p in self.fitted.recipe.model.named_parameters()}


def anatomy(run: ObservedRun, setting: LeakSetting) -> Anatomy:
    """Where this run's network keeps what speaks of classes."""
    shapes = {name: tuple(t.shape) for name, t in run.start.items()}
    return Anatomy.of(shapes, hears=setting.approach.hears)


def as_trained(client: Client, setting: LeakSetting, trust: float | None = None) -> Client:
    """A client as the setting trains it; `trust` replaces its λ."""
    approach = setting.approach
    if not approach.trained:
        return client.bare()
    given = approach.trust if trust is None else trust
    known = replace(client.knowledge, floor=setting.floor)
    return replace(client, knowledge=known if given is None else replace(known, trust=given))


def observe_run(
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
) -> ObservedRun:
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
        return ObservedRun(Fitted(Classification(), recipe, run, {}, {}), spy.kept[""])
    with engine_for(clients, recipe, workers=1) as (engine, there):
        spy = Spy(guard_transport(engine, filters) if filters else engine)
        run = federate(spy, there, rounds)
        memories = {n: m.settle(run.accepted.get(n, 0)) for n, m in engine.memories.items()}
    knowledge = {c.id: c.knowledge if c.injected else Knowledge() for c in clients}
    return ObservedRun(Fitted(Classification(), recipe, run, knowledge, memories), spy.kept[""])


def row_errors(
    runs: Sequence[tuple[Sequence[Client], ObservedRun]],
    setting: LeakSetting,
    plan: Plan,
    names: Sequence[str],
) -> dict[str, Tensor]:
    """Errors at each site: of the range, and of whether the expert is right; and the ranges."""
    ranges: dict[str, list[float]] = {name: [] for name in names}
    rights: dict[str, list[tuple[bool, bool]]] = {name: [] for name in names}
    truths: dict[str, list[Tensor]] = {name: [] for name in names}
    for rows, run in runs:
        at = anatomy(run, setting)
        for client in rows:
            seen = run.exchanges[0].seen(client.id, setting.view, run.start)
            guess = one_row(seen, at, lr=plan.lr, decay=plan.decay, plain=setting.approach.plain)
            allowed, prior, y = client.data.allowed, client.data.prior, client.data.y
            assert y is not None and allowed is not None and prior is not None
            truths[client.id].append(allowed[0])
            if not allowed.all():
                ranges[client.id].append(missed_classes(guess.allowed, allowed[0]))
            if setting.uses_trust:
                rights[client.id].append((bool(prior[0, int(y)] > 0), guess.weight < 1.0 - 1e-3))
    return {
        "row_range": torch.tensor([_mean(ranges[n]) for n in names]).double(),
        "row_right": torch.tensor([_balance(rights[n]) for n in names]).double(),
        "row_truth": torch.stack([torch.stack(truths[n]) for n in names]),
    }


def missed_classes(guess: Tensor, truth: Tensor) -> float:
    """Balanced error of a guessed set of classes, (k,) bool each; 1/2 is a coin's."""
    return 0.5 * float((~guess[truth]).double().mean() + guess[~truth].double().mean())


def _balance(pairs: list[tuple[bool, bool]]) -> float:
    """Balanced error of yes and no; NaN where only one of them occurs."""
    right, wrong = ([g for t, g in pairs if t is kind] for kind in (True, False))
    if not right or not wrong:
        return math.nan
    return 0.5 * (1 - sum(right) / len(right) + sum(wrong) / len(wrong))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
