"""The work of a stack of clients in lockstep: SGD over one flat vector for all of them."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from .. import tree
from ..algorithms import Plan, Slopes, reach
from ..rng import stream
from ..tree import Params, Payload
from .stacked_batches import Drill
from .stacked_bench import Batch, Bench


class Crew:
    """One round of m clients; every tensor has a leading client axis."""

    def __init__(self, bench: Bench, drill: Drill, *, rate: float = 1.0) -> None:
        self.plan: Plan = drill.plan
        self.lr = drill.plan.lr * rate
        self._bench, self._drill = bench, drill
        self._clients = len(drill.members)
        self._steps = [drill.steps(i) for i in drill.members]
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
        bias = None if shift is None else bench.flatten(shift, m)
        home = None if anchor is None or not pull else bench.flatten(anchor, m)
        self.taken = max(self._steps) if steps is None else steps
        speed = bench.away(m)
        if self.plan.clip is not None:  # the gradient must be seen before it joins the velocity
            speed = bench.scratch.take("velocity", m * bench.width)
        speed.zero_()
        walk = _Walk(m, speed, bias, home, pull)
        for block in self._drill.blocks(steps):
            for step in block.steps:
                if step.clients < walk.clients:
                    self._dismiss(walk, step.clients)
                self._step(walk, block.batch(step))
        ended = bench.point(walk.clients).clone()
        if walk.clients == m:
            return bench.views(ended, m)
        self._leave(walk, ended, 0)
        return walk.ends

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
        if plan.decay:
            speed.add_(point, alpha=plan.decay)
        if walk.bias is not None:
            speed.add_(walk.bias[: len(speed)])
        if walk.home is not None:
            # the brake makes the pull implicit: stable at any strength
            brake = 1.0 / (1.0 + self.lr * walk.pull)
            speed.add_(point - walk.home[: len(speed)], alpha=walk.pull).mul_(brake)
        point.add_(speed, alpha=-self.lr)

    def _dismiss(self, walk: "_Walk", clients: int) -> None:
        """Clients that have taken all their steps leave; the others move together."""
        bench, before = self._bench, walk.clients
        self._leave(walk, bench.point(before), clients)
        for flat in (bench.point(before), walk.speed, walk.bias, walk.home):
            if flat is not None:
                bench.shrink(flat, before, clients)
        walk.clients = clients

    def _leave(self, walk: "_Walk", point: Tensor, first: int) -> None:
        """Write down where clients from `first` on got to."""
        bench = self._bench
        if not walk.ends:
            flat = point.new_empty(self._clients * bench.width)
            walk.ends = bench.views(flat, self._clients)
        for name, value in bench.views(point, walk.clients).items():
            walk.ends[name][first : walk.clients] = value[first:]

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
        points = {k: _expanded(point, m) for k, point in points.items()}
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


def _expanded(bundle: Params, clients: int) -> Params:
    """Bundles are stacked already; a common one may come as a view."""
    return {name: t.expand(clients, *t.shape[1:]) for name, t in bundle.items()}
