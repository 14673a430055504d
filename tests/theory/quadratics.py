"""Clients whose loss is ½(x-b)ᵀA(x-b): every gradient exact, every optimum in closed form."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedlore import Plan, federate
from fedlore.algorithms import Algorithm, reach
from fedlore.core import tree
from fedlore.core.rng import stream
from fedlore.core.wire import Reply
from fedlore.engine import Memory, Recipe
from fedlore.engine.loop import recall


@dataclass(frozen=True)
class Bowl:
    """One client: curvature A (d, d), centre b (d,), and how many local steps it takes."""

    a: Tensor
    b: Tensor
    steps: int = 5
    rows: int = 1


class BowlWork:
    """Work on a quadratic, written from the protocol's words and nothing else."""

    def __init__(self, bowl: Bowl, plan: Plan, address: tuple, rate: float = 1.0) -> None:
        self.plan, self.bowl, self.address = plan, bowl, address
        self.lr = plan.lr * rate
        self.reach = reach(bowl.steps, self.lr, plan.momentum)

    def gradient(self, at):
        return {"x": self.bowl.a @ (at["x"] - self.bowl.b) + self.plan.decay * at["x"]}

    def descend(self, start, *, shift=None, anchor=None, pull=0.0, steps=None):
        x, velocity = start["x"], torch.zeros_like(start["x"])
        for _ in range(self.bowl.steps if steps is None else steps):
            direction = self.gradient({"x": x})["x"]
            if shift is not None:
                direction = direction + shift["x"]
            velocity = self.plan.momentum * velocity + direction
            if anchor is not None:
                velocity = (velocity + pull * (x - anchor["x"])) / (1 + self.lr * pull)
            x = x - self.lr * velocity
        return {"x": x}

    def walk(self, points, slopes):
        velocity = {k: tree.zeros(p) for k, p in points.items()}
        for _ in range(self.bowl.steps):
            away = slopes(points, self.gradient)
            velocity = {k: tree.axpy(self.plan.momentum, velocity[k], away[k]) for k in points}
            points = {k: tree.axpy(-self.lr, velocity[k], p) for k, p in points.items()}
        return points

    def shared(self, purpose):
        return stream(*self.address, "shared", purpose)


class Point(nn.Module):
    """A server model that is one vector."""

    def __init__(self, at: Tensor) -> None:
        super().__init__()
        self.x = nn.Parameter(at)


class Bowls:
    """A transport over quadratic clients."""

    def __init__(self, bowls: Sequence[Bowl], recipe: Recipe) -> None:
        self.bowls = {f"bowl-{i}": bowl for i, bowl in enumerate(bowls)}
        self.recipe = recipe
        self.memories = {name: Memory() for name in self.bowls}

    def clients(self):
        return list(self.bowls)

    def exchange(self, task, to):
        for name in to:
            settled = self.memories[name].settle(task.accepted.get(name, 0))
            work = BowlWork(self.bowls[name], self.recipe.plan, (task.seed, task.round), task.rate)
            memory = recall(self.recipe, task.sent, settled)
            upload, new = self.recipe.algorithm.local(task.sent, memory, work)
            self.memories[name] = Memory(task.round, settled, new)
            yield Reply(name, task.round, upload, rows=self.bowls[name].rows)

    def memory(self, name, run):
        """What a client remembers after a run."""
        sent = self.recipe.algorithm.send(run.state)
        return recall(self.recipe, sent, self.memories[name].settle(run.accepted.get(name, 0)))


def bowls(m: int = 6, d: int = 4, *, hard: float = 8.0, steps: Sequence[int] = (5,)) -> list[Bowl]:
    """m clients with different centres and curvatures between 1 and `hard`."""
    g = stream("bowls", m, d)
    made = []
    for i in range(m):
        turn = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=torch.float64)).Q
        curves = 1 + (hard - 1) * torch.rand(d, generator=g, dtype=torch.float64)
        centre = 3 * torch.randn(d, generator=g, dtype=torch.float64)
        made.append(Bowl(turn @ curves.diag() @ turn.T, centre, steps[i % len(steps)], rows=i + 1))
    return made


def optimum(clients: Sequence[Bowl], *, decay: float = 0.0, by_size: bool = False) -> Tensor:
    """argmin of the (weighted) mean loss, weight decay included."""
    weights = [c.rows if by_size else 1.0 for c in clients]
    eye = torch.eye(len(clients[0].b), dtype=torch.float64)
    a = sum(w * (c.a + decay * eye) for w, c in zip(weights, clients, strict=True))
    return torch.linalg.solve(a, sum(w * c.a @ c.b for w, c in zip(weights, clients, strict=True)))


def solve(clients, algorithm: Algorithm, *, rounds: int, sample: float = 1.0, **changes):
    """Run an algorithm on quadratics through the real loop: where it ends, run and transport."""
    weights = changes.pop("weights", "equal")
    plan = replace(Plan(lr=0.05, momentum=0.0, decay=0.0), **changes)
    start = torch.zeros(len(clients[0].b), dtype=torch.float64)
    recipe = Recipe(Point(start), algorithm, plan, seed=1, weights=weights)
    transport = Bowls(clients, recipe)
    run = federate(transport, recipe, rounds, sample=sample)
    return run.state["model"]["x"], run, transport
