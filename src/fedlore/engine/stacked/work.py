"""The work of a stack of clients in lockstep: SGD over one flat vector for all of them."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...algorithms import Plan, Slopes, reach
from ...core import tree
from ...core.rng import stream
from ...core.tree import Params, Payload
from .batches import Drill
from .bench import Batch, Bench
from .graph import Graphs


class Crew:
    """One round of m clients; every tensor has a leading client axis."""

    def __init__(
        self, bench: Bench, drill: Drill, *, rate: float = 1.0, graphs: Graphs | None = None
    ) -> None:
        self.plan: Plan = drill.plan
        self.lr = drill.plan.lr * rate
        self._bench, self._drill, self._graphs = bench, drill, graphs
        self._clients = len(drill.members)
        self._steps = drill.totals
        self.taken = 0  # steps of the last descent, where they are the same for all

    @property
    def reach(self) -> float | Tensor:
        ways = {s: reach(s, self.lr, self.plan.momentum) for s in set(self._steps)}
        if len(ways) == 1:
            return ways[self._steps[0]]
        return self._bench.point(1).new_tensor([ways[s] for s in self._steps])

    def shared(self, purpose: str) -> torch.Generator:
        return stream(self._drill.seed, self._drill.round, "shared", purpose)

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
        bench, m = self._bench, self._clients
        bench.load(start, m)
        bias = None if shift is None else bench.flatten(shift, m, "shift")
        home = None if anchor is None or not pull else bench.flatten(anchor, m, "anchor")
        self.taken = max(self._steps) if steps is None else steps
        speed = bench.away(m)
        if self.plan.clip is not None:  # the gradient must be seen before it joins the velocity
            speed = bench.keep("velocity", m)
        speed.zero_()
        walk = _Walk(m, speed, bias, home, pull)
        if self._graphs is not None:
            self._record(walk, steps)
        else:
            for block in self._drill.blocks(steps):
                for step in block.steps:
                    if step.active < walk.clients:
                        self._dismiss(walk, step.active)
                    self._step(walk, block.batch(step))
        ended = bench.point(walk.clients).clone()
        if not walk.ends:
            return bench.views(ended, m)
        if walk.clients < m:
            self._leave(walk, ended, 0, walk.clients)
        return walk.ends

    def _record(self, walk: "_Walk", steps: int | None) -> None:
        """The same on a card, as recordings: everyone moves on, and who is done is noted down."""
        bench, m = self._bench, walk.clients
        assert self._graphs is not None
        bench.rate.fill_(-self.lr)
        bench.brake.fill_(1.0 / (1.0 + self.lr * walk.pull))
        present = m
        flats = [bench.point(m), bench.away(m), walk.speed]
        for block in self._drill.blocks(steps, together=True):
            for step in block.steps:
                if step.active < present:
                    self._leave(walk, bench.point(m), step.active, present)
                    present = step.active
                batch = block.batch(step)
                parts = tuple(t is None for t in vars(batch).values())
                mode = (walk.bias is None, walk.home is None, walk.pull, self.plan)
                key = (m, step.rows, parts, mode)
                self._graphs.play(key, batch, lambda b: self._step(walk, b), flats)
        if present < m:
            self._leave(walk, bench.point(m), 0, present)

    def _step(self, walk: "_Walk", batch: Batch) -> None:
        bench, plan, clients = self._bench, self.plan, walk.clients
        point, speed = bench.point(clients), walk.speed[: clients * bench.width]
        program = bench.program(clients, batch.x.shape[1])
        if plan.clip is None:
            program.gradient(batch, plan.plain, plan.momentum)
        else:
            program.gradient(batch, plan.plain, 0.0)
            self._clip(clients, plan.clip)
            speed.mul_(plan.momentum).add_(bench.away(clients))
        if walk.bias is not None:
            speed.add_(walk.bias[: len(speed)])
        if walk.home is not None:
            speed.add_(point - walk.home[: len(speed)], alpha=walk.pull)
            if plan.decay:
                speed.add_(point, alpha=plan.decay)
            # the brake makes the pull implicit: stable at any strength
            speed.mul_(1.0 / (1.0 + self.lr * walk.pull) if self._graphs is None else bench.brake)
        if self._graphs is not None:
            decay = plan.decay if walk.home is None else 0.0
            bench.fused.update(point, speed, bench.rate, decay)
            return
        if plan.decay and walk.home is None:
            speed.add_(point, alpha=plan.decay)
        point.add_(speed, alpha=-self.lr)

    def _dismiss(self, walk: "_Walk", clients: int) -> None:
        """Clients that have taken all their steps leave; the others move together."""
        bench, before = self._bench, walk.clients
        self._leave(walk, bench.point(before), clients, before)
        for flat in (bench.point(before), walk.speed, walk.bias, walk.home):
            if flat is not None:
                bench.shrink(flat, before, clients)
        walk.clients = clients

    def _leave(self, walk: "_Walk", point: Tensor, first: int, last: int) -> None:
        """Write down where clients from `first` up to `last` got to."""
        bench = self._bench
        if not walk.ends:
            flat = point.new_empty(self._clients * bench.width)
            walk.ends = bench.views(flat, self._clients)
        for name, value in bench.views(point, walk.clients).items():
            walk.ends[name][first:last] = value[first:last]

    def _clip(self, clients: int, most: float) -> None:
        """Make each client's gradient have a norm of at most `most`."""
        grads = self._bench.params(clients)[1].values()
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
        moving = self._bench.point(1).new_tensor(self._steps)
        time = 0
        for block in self._drill.blocks(together=True):
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
        bench, plan = self._bench, self.plan
        clients, rows = batch.x.shape[:2]
        bench.load(at, clients)
        bench.program(clients, rows).gradient(batch, plan.plain, 0.0)
        if plan.clip is not None:
            self._clip(clients, plan.clip)
        found = torch.add(bench.away(clients), bench.point(clients), alpha=plan.decay)
        return bench.views(found, clients)


@dataclass
class _Walk:
    """A descent on its way: who still takes part, and the flat vectors beside the bench's."""

    clients: int
    speed: Tensor
    bias: Tensor | None
    home: Tensor | None
    pull: float
    ends: Params = field(default_factory=dict)  # (m, ...) where those who left got to


def _expand(bundle: Params, clients: int) -> Params:
    """Bundles are stacked already; a common one may come as a view."""
    return {name: t.expand(clients, *t.shape[1:]) for name, t in bundle.items()}
