"""The work of a stack of clients in lockstep: SGD over flat parameters, (m, p)."""

import torch
from torch import Tensor

from .. import tree
from ..algorithms import Plan, Slopes, reach
from ..rng import stream
from ..tree import Params, Payload
from .stacked_batches import Block, Drill
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
        return self._bench.point.new_tensor([ways[s] for s in self._steps])

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
        velocity = bench.away
        if self.plan.clip is not None:  # the gradient must be seen before it joins the velocity
            velocity = bench.scratch.take("velocity", *bench.away.shape)
        velocity[:m].zero_()
        for block in self._drill.blocks(steps):
            self._run(block, velocity, bias, home, pull)
        return bench.views(bench.point[:m].clone())

    def _run(
        self, block: Block, velocity: Tensor, bias: Tensor | None, home: Tensor | None, pull: float
    ) -> None:
        bench, plan = self._bench, self.plan
        brake = 1.0 / (1.0 + self.lr * pull)  # makes the pull implicit: stable at any strength
        clients = -1
        for step in block.steps:
            if step.clients != clients:  # clients that are done are left where they are
                clients = step.clients
                point, speed = bench.point[:clients], velocity[:clients]
            program = bench.program(clients, step.rows)
            if plan.clip is None:
                program.gradient(block.batch(step), plan.plain, plan.momentum)
            else:
                program.gradient(block.batch(step), plan.plain, 0.0)
                speed.mul_(plan.momentum).add_(_clipped(bench.away[:clients], plan.clip))
            if plan.decay:
                speed.add_(point, alpha=plan.decay)
            if bias is not None:
                speed.add_(bias[:clients])
            if home is not None:
                speed.add_(point - home[:clients], alpha=pull).mul_(brake)
            point.add_(speed, alpha=-self.lr)

    @torch.no_grad()
    def walk(self, points: Payload, slopes: Slopes) -> Payload:
        m = self._clients
        points = {k: _expanded(point, m) for k, point in points.items()}
        velocity = {k: tree.zeros(point) for k, point in points.items()}
        self.taken = max(self._steps)
        moving = self._bench.point.new_tensor(self._steps)
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
        found = bench.away[:clients].clone()
        if plan.clip is not None:
            found = _clipped(found, plan.clip)
        return bench.views(found.add_(bench.point[:clients], alpha=plan.decay))


def _clipped(gradient: Tensor, most: float) -> Tensor:
    """Each client's gradient with a norm of at most `most`."""
    return gradient.mul_((most / gradient.norm(dim=1, keepdim=True)).clamp(max=1.0))


def _expanded(bundle: Params, clients: int) -> Params:
    """Bundles are stacked already; a common one may come as a view."""
    return {name: t.expand(clients, *t.shape[1:]) for name, t in bundle.items()}
