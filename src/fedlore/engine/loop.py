"""The one round loop, a client's whole life in any engine, and the reference engine."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from torch import nn

from ..algorithms import Algorithm, FlatParams, Plan, Solo, check_fit, facts_of
from ..core import tree
from ..core.aggregate import Aggregate, Mean
from ..core.history import RoundSeen, Row, mean_of, tell_round
from ..core.nets import initialise
from ..core.one_shot import OneShot
from ..core.rng import draw_numbers, key
from ..core.scaler import Inputs, Scaler, from_moments
from ..core.tree import Params, Payload
from ..core.wire import Reply, Task, Transport, find_flaw
from ..errors import ConfigError, FedloreError
from ..models.client import Client
from ..privacy.dp.records import Records
from .client import Memory, Site, ready, score
from .one_shot import one_shot_rows

Weights = Literal["equal", "size"]
ROW_SUMS = ("moments", "gram")  # tasks that are answered from the rows alone


@dataclass(frozen=True, eq=False)
class Recipe:
    """What all sites of a federation agree on before it starts."""

    model: nn.Module  # a server model: its weights are the start of round 1
    algorithm: Algorithm
    plan: Plan = field(default_factory=Plan)
    seed: int = 0
    scaler: Scaler | None = None
    weights: Weights = "equal"  # the paper counts clients equally; "size" counts rows
    aggregate: Aggregate = field(default_factory=Mean)
    records: Records | None = None  # DP-SGD at the sites
    one_shot: OneShot | None = None  # the one-shot model, where sites may be asked for its sums

    def __post_init__(self) -> None:
        if self.weights not in get_args(Weights):
            raise ConfigError(f"weights must be equal or size, got '{self.weights}'")
        if self.aggregate.needs_individuals and self.weights == "size":
            raise ConfigError(
                f"aggregate '{self.aggregate.name}' counts clients equally: weights must be equal, "
                "got 'size'"
            )
        check_fit(self.algorithm, self.plan, aggregate=self.aggregate)


@dataclass(frozen=True)
class Run:
    """Where a federation stands."""

    state: Payload
    round: int = 0
    accepted: dict[str, int] = field(default_factory=dict)  # client -> last round merged
    rows: list[Row] = field(default_factory=list)


def answer(
    site: Site, recipe: Recipe, task: Task, memory: Payload, buffer: FlatParams
) -> tuple[Reply, Payload]:
    """One task at one client, in any engine: the reply and what the client now remembers."""
    reply = Reply(site.id, task.round, rows=len(site.lesson))
    if task.kind in ROW_SUMS:
        classes = site.lesson.target.shape[1]
        return replace(reply, upload=sum_up(site.client, recipe, task, classes)), memory
    memory = recall(recipe, task.sent, memory)
    if task.kind == "evaluate":
        buffer.flat.copy_(buffer.flatten(own_params(recipe.algorithm, task.sent, memory)))
        return replace(reply, metrics=score(site, buffer.model)), memory
    noisy = None
    if recipe.records is not None and task.kind == "train":  # what is finished stays at home
        noisy = recipe.records.noisy(
            recipe.model, site.lesson, recipe.plan, recipe.algorithm, task.seed
        )
    work = Solo(
        buffer,
        site.lesson,
        recipe.plan,
        client=site.id,
        seed=task.seed,
        round=task.round,
        rate=task.rate,
        noisy=noisy,
    )
    if task.kind == "finish":
        start = recipe.algorithm.personal(task.sent, memory)
        return reply, memory | {"finished": work.descend(start, steps=recipe.plan.finish)}
    if task.kind != "train":
        raise ConfigError(f"unknown task '{task.kind}'")
    upload, memory = recipe.algorithm.local(task.sent, memory, work)
    if facts_of(recipe.algorithm).everyone:  # in lockstep by a public coin: the server checks it
        reply = replace(reply, metrics={"steps": work.taken})
    if noisy is not None:  # for the site's own ledger, which takes it out again
        reply = replace(reply, metrics={**reply.metrics, **noisy.done})
    return replace(reply, upload=upload), memory


def sum_up(client: Client, recipe: Recipe, task: Task, classes: int) -> Payload:
    """What a client gives away for a common scaling, or for the one-shot model if there is one."""
    if task.kind == "moments":
        return {"moments": client.sums()}
    if recipe.one_shot is None:
        raise ConfigError("sums of rows were asked for, and the recipe has no one-shot model")
    if task.sent:
        raise ConfigError("only clients of lore give sums of rows behind a link")
    return {"gram": one_shot_rows(client, recipe.one_shot, recipe.scaler, classes=classes).sums()}


def recall(recipe: Recipe, sent: Payload, memory: Payload) -> Payload:
    """What a client remembers, made up from the initial weights before its first round."""
    if memory:
        return memory
    initial = {name: p.detach() for name, p in recipe.model.named_parameters()}
    return recipe.algorithm.start(sent, initial)


def own_params(algorithm: Algorithm, sent: Payload, memory: Payload) -> Params:
    """What a client predicts with, its last local steps included."""
    return memory["finished"] if "finished" in memory else algorithm.personal(sent, memory)


def start_run(recipe: Recipe, salt: str = "") -> Run:
    """A training before its first round, with a salt from other weights of the same kind.

    Sums over different sites from the same start would tell single uploads.
    """
    model = recipe.model
    if salt:
        model = initialise(deepcopy(model), key(recipe.seed, "start", salt))
    return Run(recipe.algorithm.init({n: p.detach().clone() for n, p in model.named_parameters()}))


def federate(
    transport: Transport,
    recipe: Recipe,
    rounds: int,
    *,
    sample: float = 1.0,
    evaluate: int = 0,
    start: Run | None = None,
    trial: str = "",
    on_round: Callable[[Run], None] | None = None,
) -> Run:
    """Train for `rounds` rounds over any transport, with a share `sample` of clients in each.

    With `evaluate` = e the clients score the model after every e-th round and the last. `trial`
    names what is trained where there are several trainings.
    """
    names = sorted(transport.clients())
    cohort_size = _cohort_size(sample, len(names), rounds)
    algorithm, plan = recipe.algorithm, recipe.plan
    check_fit(algorithm, plan, weights=recipe.weights, sample=sample)
    run = start or start_run(recipe)
    gone = sorted(set(run.accepted) - set(names))
    if gone and facts_of(algorithm).everyone:
        raise FedloreError(
            f"{type(algorithm).__name__} needs the same clients in every round: '{gone[0]}' took "
            "part before and is missing"
        )
    for round in range(run.round + 1, rounds + 1):
        cohort = [
            names[i] for i in draw_numbers(cohort_size, len(names), recipe.seed, "cohort", round)
        ]
        task = Task(
            "train",
            round,
            algorithm.send(run.state),
            recipe.seed,
            plan.rate(round, rounds),
            run.accepted,
            trial,
            sums=getattr(transport, "sums", False) and not recipe.aggregate.needs_individuals,
        )
        replies = _order(transport.exchange(task, cohort))
        run = _merge(run, recipe, task, replies, asked=len(cohort), clients=len(names))
        if round == rounds and plan.finish:
            finish = replace(
                task,
                kind="finish",
                round=rounds + 1,
                sent=algorithm.send(run.state),
                accepted=run.accepted,
            )
            done = _order(transport.exchange(finish, names))
            run.accepted.update({name: rounds + 1 for reply in done for name in reply.names})
        scored: list[Row] = []
        if evaluate and (round % evaluate == 0 or round == rounds):
            scored = score_round(transport, recipe, run, trial=trial)
            run.rows.extend(scored)
        tell_round(RoundSeen(round, rounds, trial, mean_of(scored, "ta"), mean_of(scored, "rmse")))
        if on_round is not None:
            on_round(run)
    return run


def score_round(transport: Transport, recipe: Recipe, run: Run, *, trial: str = "") -> list[Row]:
    """One row of scores per client, each on its own test rows with its own model."""
    task = Task(
        "evaluate",
        run.round,
        recipe.algorithm.send(run.state),
        recipe.seed,
        accepted=run.accepted,
        trial=trial,
    )
    replies = _order(transport.exchange(task, sorted(transport.clients())))
    return [{"round": run.round, "client": r.client, **r.metrics} for r in replies if r.metrics]


def scale_together(transport: Transport, inputs: Inputs | None = None) -> Scaler:
    """A common scaler from the sites' sums and squares; rows stay at home."""
    replies = _order(transport.exchange(Task("moments", 0), sorted(transport.clients())))
    if not replies:
        raise FedloreError("no sums of features came back for a common scaling")
    return from_moments(tree.mean((r.upload, 1.0) for r in replies)["moments"], inputs)


def _cohort_size(sample: float, clients: int, rounds: int) -> int:
    if not 0.0 < sample <= 1.0:
        raise ConfigError(f"sample must lie in (0, 1], got {sample}")
    if clients == 0:
        raise ConfigError("a federation needs at least one client, got none")
    if rounds < 1:
        raise ConfigError(f"rounds must be at least 1, got {rounds}")
    size = math.ceil(sample * clients - 1e-9)  # the paper's ⌈τM⌉, safe from rounding up
    if size == 0:
        raise ConfigError(f"sample {sample:g} of {clients} clients leaves no client")
    return size


def _order(replies: Iterable[Reply]) -> list[Reply]:
    """Replies by client, so that sums have the same bits in any order of arrival."""
    return sorted(replies, key=lambda reply: reply.client)


def _merge(
    run: Run, recipe: Recipe, task: Task, replies: list[Reply], *, asked: int, clients: int
) -> Run:
    """The state after one round, from the replies that can be used."""
    good = [r for r in replies if r.round == task.round and _usable(r, recipe, task)]
    if facts_of(recipe.algorithm).everyone:
        _check_lockstep(good, recipe)
        good = good if _count_heard(good) == clients else []  # void: nobody commits it
    state = run.state
    if good:
        by_size = recipe.weights == "size"
        weighted = [(r.upload, float(r.rows if by_size else len(r.names))) for r in good]
        state = recipe.algorithm.merge(
            state, recipe.aggregate(weighted), _count_heard(good) / clients
        )
    rows = [*run.rows, {"round": task.round, "asked": asked, "merged": _count_heard(good)}]
    accepted = run.accepted | {name: task.round for r in good for name in r.names}
    return Run(state, task.round, accepted, rows)


def _count_heard(replies: list[Reply]) -> int:
    """How many clients these replies stand for."""
    return sum(len(reply.names) for reply in replies)


def _check_lockstep(replies: list[Reply], recipe: Recipe) -> None:
    """Refuse clients that took other numbers of steps where the algorithm counts on one."""
    steps = {r.client: int(r.metrics["steps"]) for r in replies if "steps" in r.metrics}
    if len(set(steps.values())) > 1:
        (a, most), (b, least) = (pick(steps.items(), key=lambda s: s[1]) for pick in (max, min))
        raise FedloreError(
            f"{type(recipe.algorithm).__name__} needs the same number of local steps at every "
            f"client: '{a}' took {most}, '{b}' took {least} (do they share seed and settings?)"
        )


def _usable(reply: Reply, recipe: Recipe, task: Task) -> bool:
    """Whether an upload is finite and shaped like what was sent."""
    wanted = {key: task.sent[key] for key in recipe.algorithm.uploads}
    return find_flaw(reply.upload, wanted) is None


def check_distinct(clients: Sequence[Client]) -> None:
    """Refuse clients of the same name."""
    twice = [name for name, times in Counter(c.id for c in clients).items() if times > 1]
    if twice:
        raise FedloreError(f"client ids must differ, '{twice[0]}' appears twice")


class Local:
    """A transport that calls each client in turn."""

    def __init__(self, clients: Sequence[Client], recipe: Recipe) -> None:
        check_distinct(clients)
        self._recipe = recipe
        self._sites = {c.id: ready(c, recipe.model, recipe.scaler) for c in clients}
        self._buffer = FlatParams(recipe.model)
        self.memories = {c.id: Memory() for c in clients}

    def clients(self) -> Sequence[str]:
        return list(self._sites)

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        for name in to:
            memory = self.memories[name]
            settled = memory.settle(task.accepted.get(name, 0))
            reply, new = answer(self._sites[name], self._recipe, task, settled, self._buffer)
            if task.kind in ("train", "finish"):
                self.memories[name] = Memory(task.round, before=settled, after=new)
            yield reply
