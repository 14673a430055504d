"""Training a stack of clients: the work of one round in lockstep, and what several stacks give."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import torch
from torch import Tensor

from ...algorithms import Plan, Slopes, facts_of, reach
from ...core import tree
from ...core.rng import stream
from ...core.tree import Params, Payload
from ...core.wire import Task
from ..loop import Recipe
from .batches import BatchSchedule
from .clients import ClientSource
from .memory import EMPTY, MemoryBank
from .params import Batch, Graphs, StackedParams


class StackWork:
    """One round of m clients; every tensor has a leading client axis."""

    def __init__(
        self,
        params: StackedParams,
        schedule: BatchSchedule,
        *,
        rate: float = 1.0,
        graphs: Graphs | None = None,
    ) -> None:
        self.plan: Plan = schedule.plan
        self.lr = schedule.plan.lr * rate
        self._params, self._schedule, self._graphs = params, schedule, graphs
        self._clients = len(schedule.members)
        self._steps = schedule.totals
        self.taken = 0  # steps of the last descent, where they are the same for all

    @property
    def reach(self) -> float | Tensor:
        ways = {s: reach(s, self.lr, self.plan.momentum) for s in set(self._steps)}
        if len(ways) == 1:
            return ways[self._steps[0]]
        return self._params.point(1).new_tensor([ways[s] for s in self._steps])

    def shared(self, purpose: str) -> torch.Generator:
        return stream(self._schedule.seed, self._schedule.round, "shared", purpose)

    @torch.no_grad()
    def descend(
        self,
        start: Params,
        *,
        shift: Params | None = None,
        anchor: Params | None = None,
        pull: float = 0.0,
        steps: int | None = None,
    ) -> Params:
        params, m = self._params, self._clients
        params.load(start, m)
        bias = None if shift is None else params.flatten(shift, m, "shift")
        home = None if anchor is None or not pull else params.flatten(anchor, m, "anchor")
        self.taken = max(self._steps) if steps is None else steps
        speed = params.away(m)
        if self.plan.clip is not None:  # the gradient must be seen before it joins the velocity
            speed = params.keep("velocity", m)
        speed.zero_()
        walk = _Walk(m, speed, bias, home, pull)
        if self._graphs is not None:
            self._record(walk, steps)
        else:
            for block in self._schedule.blocks(steps):
                for step in block.steps:
                    if step.active < walk.clients:
                        self._dismiss(walk, step.active)
                    self._step(walk, block.batch(step))
        ended = params.point(walk.clients).clone()
        if not walk.ends:
            return params.views(ended, m)
        if walk.clients < m:
            self._leave(walk, ended, 0, walk.clients)
        return walk.ends

    def _record(self, walk: "_Walk", steps: int | None) -> None:
        """The same on a card, as recordings: everyone moves on, and who is done is noted down."""
        params, m = self._params, walk.clients
        assert self._graphs is not None
        params.rate.fill_(-self.lr)
        params.brake.fill_(1.0 / (1.0 + self.lr * walk.pull))
        present = m
        flats = [params.point(m), params.away(m), walk.speed]
        for block in self._schedule.blocks(steps, together=True):
            for step in block.steps:
                if step.active < present:
                    self._leave(walk, params.point(m), step.active, present)
                    present = step.active
                batch = block.batch(step)
                parts = tuple(t is None for t in vars(batch).values())
                mode = (walk.bias is None, walk.home is None, walk.pull, self.plan)
                key = (m, step.rows, parts, mode)
                self._graphs.play(key, batch, lambda b: self._step(walk, b), flats)
        if present < m:
            self._leave(walk, params.point(m), 0, present)

    def _step(self, walk: "_Walk", batch: Batch) -> None:
        params, plan, clients = self._params, self.plan, walk.clients
        point, speed = params.point(clients), walk.speed[: clients * params.width]
        program = params.program(clients, batch.x.shape[1])
        if plan.clip is None:
            program.gradient(batch, plan.plain, plan.momentum)
        else:
            program.gradient(batch, plan.plain, 0.0)
            self._clip(clients, plan.clip)
            speed.mul_(plan.momentum).add_(params.away(clients))
        if walk.bias is not None:
            speed.add_(walk.bias[: len(speed)])
        if walk.home is not None:
            speed.add_(point - walk.home[: len(speed)], alpha=walk.pull)
            if plan.decay:
                speed.add_(point, alpha=plan.decay)
            # the brake makes the pull implicit: stable at any strength
            speed.mul_(1.0 / (1.0 + self.lr * walk.pull) if self._graphs is None else params.brake)
        if self._graphs is not None:
            decay = plan.decay if walk.home is None else 0.0
            params.fused.update(point, speed, params.rate, decay)
            return
        if plan.decay and walk.home is None:
            speed.add_(point, alpha=plan.decay)
        point.add_(speed, alpha=-self.lr)

    def _dismiss(self, walk: "_Walk", clients: int) -> None:
        """Clients that have taken all their steps leave; the others move together."""
        params, before = self._params, walk.clients
        self._leave(walk, params.point(before), clients, before)
        for flat in (params.point(before), walk.speed, walk.bias, walk.home):
            if flat is not None:
                params.shrink(flat, before, clients)
        walk.clients = clients

    def _leave(self, walk: "_Walk", point: Tensor, first: int, last: int) -> None:
        """Write down where clients from `first` up to `last` got to."""
        params = self._params
        if not walk.ends:
            flat = point.new_empty(self._clients * params.width)
            walk.ends = params.views(flat, self._clients)
        for name, value in params.views(point, walk.clients).items():
            walk.ends[name][first:last] = value[first:last]

    def _clip(self, clients: int, most: float) -> None:
        """Make each client's gradient have a norm of at most `most`."""
        grads = self._params.params(clients)[1].values()
        squares = torch.stack([g.flatten(1).square().sum(1) for g in grads]).sum(0)
        factor = (most / squares.sqrt()).clamp(max=1.0)  # (a,)
        for g in grads:
            g.mul_(factor.view(-1, *[1] * (g.ndim - 1)))

    @torch.no_grad()
    def walk(self, points: Payload, slopes: Slopes) -> Payload:
        m = self._clients
        points = {k: _expand(point, m) for k, point in points.items()}
        velocity = {k: tree.zeros(point) for k, point in points.items()}
        self.taken = max(self._steps)
        moving = self._params.point(1).new_tensor(self._steps)
        time = 0
        for block in self._schedule.blocks(together=True):
            for step in block.steps:
                batch = block.batch(step)
                away = slopes(points, lambda at, batch=batch: self._gradient(at, batch))  # type: ignore[misc]
                rate: float | Tensor = -self.lr
                if time >= min(self._steps):  # clients that are done stand still
                    rate = (moving > time).to(moving.dtype) * -self.lr
                velocity = {k: tree.axpy(self.plan.momentum, velocity[k], away[k]) for k in points}
                points = {k: tree.axpy(rate, velocity[k], point) for k, point in points.items()}
                time += 1
        return points

    def _gradient(self, at: Params, batch: Batch) -> Params:
        """The gradient of this batch at any point, weight decay included."""
        params, plan = self._params, self.plan
        clients, rows = batch.x.shape[:2]
        params.load(at, clients)
        params.program(clients, rows).gradient(batch, plan.plain, 0.0)
        if plan.clip is not None:
            self._clip(clients, plan.clip)
        found = torch.add(params.away(clients), params.point(clients), alpha=plan.decay)
        return params.views(found, clients)


@dataclass
class _Walk:
    """A descent on its way: who still takes part, and the flat vectors beside the parameters'."""

    clients: int
    speed: Tensor
    bias: Tensor | None
    home: Tensor | None
    pull: float
    ends: Params = field(default_factory=dict)  # (m, ...) where those who left got to


def _expand(bundle: Params, clients: int) -> Params:
    """Bundles are stacked already; a common one may come as a view."""
    return {name: t.expand(clients, *t.shape[1:]) for name, t in bundle.items()}


Stack = tuple[list[int], list[int], int]  # clients, their settled memories, what those hold


@dataclass(frozen=True, eq=False)
class StackSum:
    """What several stacks come to: the sum of the uploads that can be used, with weights."""

    members: list[int]  # whose uploads are in the sum
    total: Payload
    weight: float
    rows: int
    steps: int

    def mean(self) -> Payload:
        return {key: tree.scale(b, 1.0 / self.weight) for key, b in self.total.items()}


@dataclass(frozen=True, eq=False)
class StackRunner:
    """All that training a stack needs; its parameters are scratch space."""

    recipe: Recipe
    source: ClientSource
    params: StackedParams
    bank: MemoryBank
    initial: Params
    room: int  # bytes that the gathered rows of one block of steps may take
    graphs: Graphs | None = None  # on a card

    def share(self, task: Task, stacks: Sequence[Stack]) -> StackSum:
        """The stacks one after another, summed."""
        total: Payload = {}
        members: list[int] = []
        weight, rows, steps = 0.0, 0, 0
        for stack in stacks:
            asked, counts, upload, steps = self.train(task, stack)
            good, upload = _finite(upload, len(asked))
            kept = [counts[j] for j in good]
            weights = [float(n) for n in kept] if self.recipe.weights == "size" else None
            part = _sum(upload, weights)
            total = {k: tree.add(total[k], b) for k, b in part.items()} if total else part
            weight += sum(weights) if weights is not None else len(good)
            rows += sum(kept)
            members += [asked[j] for j in good]
        return StackSum(members, total, weight, rows, steps)

    def singles(
        self, task: Task, stacks: Sequence[Stack]
    ) -> Iterator[tuple[int, Payload, int, int]]:
        """The stacks one after another: of each client its number, upload, rows and steps."""
        for stack in stacks:
            asked, counts, upload, steps = self.train(task, stack)
            for j, i in enumerate(asked):
                own = tree.each(upload, itemgetter(j))
                yield i, own, counts[j], steps

    def train(self, task: Task, stack: Stack) -> tuple[list[int], list[int], Payload, int]:
        """One task at one stack: clients, their rows, uploads with a client axis, steps."""
        members, settled, held = stack
        table, places = self.source.rows_of(members)
        # the most rows first: those that are done early drop off at the end
        by_size = sorted(range(len(places)), key=lambda j: -table.counts[places[j]])
        if by_size != list(range(len(places))):
            members, settled, places = (
                [of[j] for j in by_size] for of in (members, settled, places)
            )
        algorithm, plan = self.recipe.algorithm, self.recipe.plan
        schedule = BatchSchedule(table, tuple(places), plan, task.seed, task.round, self.room)
        work = StackWork(self.params, schedule, rate=task.rate, graphs=self.graphs)
        sent = spread_stacks(task.sent, len(members))
        memory = self.recall(task, settled, held)
        upload: Payload = {}
        if task.kind == "finish":
            start = algorithm.personal(sent, memory)
            memory = memory | {"finished": work.descend(start, steps=plan.finish)}
        else:
            upload, memory = algorithm.local(sent, memory, work)
        if memory:
            self.bank.write(settled, memory)
        return members, [table.counts[i] for i in places], upload, work.taken

    def recall(self, task: Task, settled: Sequence[int], held: int) -> Payload:
        """What the clients of a stack remember, made up before their first round."""
        if held == EMPTY:
            start = self.recipe.algorithm.start(task.sent, self.initial)
            return spread_stacks(start, len(settled))
        return self.bank.read(settled, held)

    def metrics(self, steps: int) -> dict[str, float]:
        """In lockstep by a public coin, the server checks that all took the same steps."""
        return {"steps": steps} if facts_of(self.recipe.algorithm).everyone else {}


def spread_stacks(payload: Payload, clients: int) -> Payload:
    """The same for every client of a stack, without a copy."""
    return tree.each(payload, lambda t: t.expand(clients, *t.shape))


def _finite(upload: Payload, clients: int) -> tuple[list[int], Payload]:
    """Which clients' uploads can be used, and those uploads: one that diverged drops out."""
    tensors = [t for bundle in upload.values() for t in bundle.values()]
    if not tensors or bool(torch.stack([t.sum() for t in tensors]).isfinite().all()):
        return list(range(clients)), upload  # a NaN or an infinity would show in the sum
    good = torch.stack([t.flatten(1).isfinite().all(1) for t in tensors]).all(0)
    return good.nonzero()[:, 0].tolist(), tree.each(upload, lambda t: t[good])


def _sum(upload: Payload, weights: list[float] | None) -> Payload:
    """The sum over clients, each with its weight."""

    def add_up(t: Tensor) -> Tensor:
        if weights is None:
            return t.sum(0)
        return (t.new_tensor(weights) @ t.flatten(1)).view(t.shape[1:])

    return tree.each(upload, add_up)
