"""One task at a stack of clients, and what several stacks come to."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...algorithms import facts_of
from ...core import tree
from ...core.tree import Params, Payload
from ...core.wire import Task
from ..loop import Recipe
from .batches import Drill
from .bench import Bench
from .graph import Graphs
from .memory import EMPTY, Bank
from .population import Crowd
from .work import Crew

Stack = tuple[list[int], list[int], int]  # clients, their settled memories, what those hold


@dataclass(frozen=True, eq=False)
class Single:
    """What one client answers."""

    member: int
    upload: Payload
    rows: int
    steps: int


@dataclass(frozen=True, eq=False)
class Share:
    """What several stacks come to: the sum of the uploads that can be used, with weights."""

    members: list[int]  # whose uploads are in the sum
    total: Payload
    weight: float
    rows: int
    steps: int

    def mean(self) -> Payload:
        return {key: tree.scale(b, 1.0 / self.weight) for key, b in self.total.items()}


@dataclass(frozen=True, eq=False)
class Stint:
    """All that training a stack needs; the bench is scratch space."""

    recipe: Recipe
    crowd: Crowd
    bench: Bench
    bank: Bank
    initial: Params
    room: int  # bytes that the gathered rows of one block of steps may take
    graphs: Graphs | None = None  # on a card

    def share(self, task: Task, stacks: Sequence[Stack]) -> Share:
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
        return Share(members, total, weight, rows, steps)

    def singles(self, task: Task, stacks: Sequence[Stack]) -> list[Single]:
        """The stacks one after another, each client's answer by itself."""
        found = []
        for stack in stacks:
            asked, counts, upload, steps = self.train(task, stack)
            for j, i in enumerate(asked):
                own = {k: {n: t[j] for n, t in b.items()} for k, b in upload.items()}
                found.append(Single(i, own, counts[j], steps))
        return found

    def train(self, task: Task, stack: Stack) -> tuple[list[int], list[int], Payload, int]:
        """One task at one stack: clients, their rows, uploads with a client axis, steps."""
        members, settled, held = stack
        fleet, places = self.crowd.fleet(members)
        # the most rows first: those that are done early drop off at the end
        by_size = sorted(range(len(places)), key=lambda j: -fleet.counts[places[j]])
        if by_size != list(range(len(places))):
            members, settled, places = (
                [of[j] for j in by_size] for of in (members, settled, places)
            )
        algorithm, plan = self.recipe.algorithm, self.recipe.plan
        drill = Drill(fleet, tuple(places), plan, task.seed, task.round, self.room)
        crew = Crew(self.bench, drill, rate=task.rate, graphs=self.graphs)
        sent = spread_stacks(task.sent, len(members))
        memory = self.recall(task, settled, held)
        upload: Payload = {}
        if task.kind == "finish":
            start = algorithm.personal(sent, memory)
            memory = memory | {"finished": crew.descend(start, steps=plan.finish)}
        else:
            upload, memory = algorithm.local(sent, memory, crew)
        if memory:
            self.bank.write(settled, memory)
        return members, [fleet.counts[i] for i in places], upload, crew.taken

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
    return {
        key: {name: t.expand(clients, *t.shape) for name, t in bundle.items()}
        for key, bundle in payload.items()
    }


def _finite(upload: Payload, clients: int) -> tuple[list[int], Payload]:
    """Which clients' uploads can be used, and those uploads: one that diverged drops out."""
    tensors = [t for bundle in upload.values() for t in bundle.values()]
    if not tensors or bool(torch.stack([t.sum() for t in tensors]).isfinite().all()):
        return list(range(clients)), upload  # a NaN or an infinity would show in the sum
    good = torch.stack([t.flatten(1).isfinite().all(1) for t in tensors]).all(0)
    kept = {k: {n: t[good] for n, t in bundle.items()} for k, bundle in upload.items()}
    return good.nonzero()[:, 0].tolist(), kept


def _sum(upload: Payload, weights: list[float] | None) -> Payload:
    """The sum over clients, each with its weight."""

    def summed(t: Tensor) -> Tensor:
        if weights is None:
            return t.sum(0)
        return (t.new_tensor(weights) @ t.flatten(1)).view(t.shape[1:])

    return {key: {n: summed(t) for n, t in b.items()} for key, b in upload.items()}
