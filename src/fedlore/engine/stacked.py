"""The fast engine: many clients in lockstep, one set of tensor operations for a whole stack."""

from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence

import torch
from torch import Tensor

from .. import tree
from ..algorithms import facts_of
from ..errors import ConfigError, FedloreError
from ..scaler import moments
from ..tree import Params, Payload
from ..wire import Reply, Task
from .client import Client
from .fleet import fleet_of
from .loop import Recipe, own_params
from .memory import Memory
from .stacked_batches import Drill
from .stacked_bench import Bench
from .stacked_memory import EMPTY, FINISHED, STARTED, Bank, Resident, Shape
from .stacked_score import Exam, exam_of, marks, own_logits, shared_logits
from .stacked_work import Crew

CACHE = 2 * 2**20  # bytes: what the parameters of a stack may take to stay near one core
ROOM = 2 * 2**20  # bytes: gathered rows of one block of steps
TICKETS = 64  # most replies of one round: sums are kept for each


class Stacked:
    """A transport that trains clients in stacks; the same results as one by one, to rounding.

    A stack is small on a processor, so that its parameters stay in the cache.
    """

    sums = True  # replies may stand for many clients, where the server needs only their mean

    def __init__(
        self, clients: Sequence[Client], recipe: Recipe, *, stack: int | None = None
    ) -> None:
        twice = [name for name, times in Counter(c.id for c in clients).items() if times > 1]
        if twice:
            raise FedloreError(f"client ids must differ, '{twice[0]}' appears twice")
        if not clients:
            raise ConfigError("a federation needs at least one client, got none")
        self._recipe = recipe
        self._clients = list(clients)
        self._at = {c.id: i for i, c in enumerate(clients)}
        self._fleet = fleet_of(clients, recipe.model, recipe.scaler)
        counts = self._fleet.counts
        ranked = sorted(range(len(clients)), key=lambda i: (-counts[i], clients[i].id))
        self._rank = {i: r for r, i in enumerate(ranked)}
        self._initial = {name: p.detach() for name, p in recipe.model.named_parameters()}
        self._size = stack or self._stack_size()
        self._bench = Bench(recipe.model, self._fleet.x[:1], min(self._size, len(clients)))
        self._bank = self._make_bank()
        self._exams: dict[tuple[int, ...], Exam | None] = {}

    @property
    def memories(self) -> MutableMapping[str, Memory]:
        """What each client remembers."""
        return self._bank

    def clients(self) -> Sequence[str]:
        return list(self._at)

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        members = [self._at[name] for name in to]
        if task.kind == "moments":
            for i in members:
                client = self._clients[i]
                yield Reply(client.id, task.round, {"moments": moments(client.data.x)})
        elif task.kind == "evaluate":
            yield from self._evaluate(task, members)
        elif task.kind in ("train", "finish"):
            yield from self._train(task, members)
        else:
            raise ConfigError(f"unknown task '{task.kind}'")

    # -- training

    def _train(self, task: Task, members: list[int]) -> Iterator[Reply]:
        members = sorted(members, key=self._rank.__getitem__)  # the same stacks in any order
        accepted = [task.accepted.get(self._fleet.ids[i], 0) for i in members]
        rows, held = self._bank.settle(members, accepted)
        stacks = _stacks(members, rows, held, self._size)
        replies = [r for ticket in _tickets(stacks) for r in self._ticket(task, ticket)]
        if self._bank.width:
            self._bank.turn(rows, task.round, FINISHED if task.kind == "finish" else STARTED)
        yield from replies

    def _ticket(self, task: Task, stacks: Sequence["_Stack"]) -> list[Reply]:
        """The replies of several stacks: one for each client, or one for all that can be used."""
        replies: list[Reply] = []
        total: Payload = {}
        names: list[str] = []
        weight, rows = 0.0, 0
        metrics: dict[str, float] = {}
        for members, settled, held in stacks:
            upload, metrics = self._stack(task, members, settled, held)
            if not task.sums:
                replies += self._singly(task, members, upload, metrics)
                continue
            good, upload = _finite(members, upload)
            weights = self._weights(good)
            total = _plus(total, upload, weights)
            weight += sum(weights) if weights else len(good)
            rows += sum(self._fleet.counts[i] for i in good)
            names += [self._fleet.ids[i] for i in good]
        if names:
            mean = {key: tree.scale(bundle, 1.0 / weight) for key, bundle in total.items()}
            replies.append(Reply(names[0], task.round, mean, rows, metrics, members=tuple(names)))
        return replies

    def _stack(
        self, task: Task, members: Sequence[int], settled: Sequence[int], held: int
    ) -> tuple[Payload, dict[str, float]]:
        """One task at a stack of clients that remember alike: uploads with a client axis."""
        algorithm, plan = self._recipe.algorithm, self._recipe.plan
        drill = Drill(self._fleet, tuple(members), plan, task.seed, task.round, ROOM)
        crew = Crew(self._bench, drill, rate=task.rate)
        sent = _spread(task.sent, len(members))
        memory = self._recall(task, settled, held)
        metrics: dict[str, float] = {}
        if task.kind == "finish":
            start = algorithm.personal(sent, memory)
            upload: Payload = {}
            memory = memory | {"finished": crew.descend(start, steps=plan.finish)}
        else:
            upload, memory = algorithm.local(sent, memory, crew)
            if facts_of(algorithm).everyone:  # the server checks that all took the same steps
                metrics = {"steps": crew.taken}
        if memory:
            self._bank.write(settled, memory)
        return upload, metrics

    def _recall(self, task: Task, settled: Sequence[int], held: int) -> Payload:
        """What the clients of a stack remember, made up before their first round."""
        if held == EMPTY:
            start = self._recipe.algorithm.start(task.sent, self._initial)
            return _spread(start, len(settled))
        return self._bank.read(settled, held)

    def _singly(
        self, task: Task, members: Sequence[int], upload: Payload, metrics: Mapping[str, float]
    ) -> Iterator[Reply]:
        for j, i in enumerate(members):
            own = {key: {n: t[j] for n, t in bundle.items()} for key, bundle in upload.items()}
            yield Reply(self._fleet.ids[i], task.round, own, self._fleet.counts[i], metrics)

    def _weights(self, members: Sequence[int]) -> list[float] | None:
        if self._recipe.weights == "equal":
            return None
        return [float(self._fleet.counts[i]) for i in members]

    # -- evaluation

    def _evaluate(self, task: Task, members: list[int]) -> Iterator[Reply]:
        accepted = [task.accepted.get(self._fleet.ids[i], 0) for i in members]
        rows, held = self._bank.settle(members, accepted)
        for some, settled, kind in _stacks(members, rows, held, 512):
            exam = self._exam(tuple(some))
            scores = [{} for _ in some] if exam is None else self._scores(task, exam, settled, kind)
            for i, metrics in zip(some, scores, strict=True):
                count = self._fleet.counts[i]
                yield Reply(self._fleet.ids[i], task.round, rows=count, metrics=metrics)

    def _scores(
        self, task: Task, exam: Exam, settled: Sequence[int], held: int
    ) -> list[dict[str, float]]:
        sent = _spread(task.sent, len(settled))
        params = own_params(self._recipe.algorithm, sent, self._recall(task, settled, held))
        if all(t.stride(0) == 0 for t in params.values()):  # one network, seen by every client
            common = {name: t[0] for name, t in params.items()}
            return marks(exam, shared_logits(exam, self._recipe.model, common))
        return marks(exam, own_logits(exam, self._bench, params))

    def _exam(self, members: tuple[int, ...]) -> Exam | None:
        if members not in self._exams:
            recipe, clients = self._recipe, [self._clients[i] for i in members]
            found = exam_of(clients, recipe.model, recipe.scaler, self._fleet.classes)
            self._exams[members] = found
        return self._exams[members]

    # -- room

    def _stack_size(self) -> int:
        """As many clients as fit into the cache with their parameters, velocity and rows."""
        some = next(iter(self._initial.values()))
        size = sum(p.numel() for p in self._initial.values()) * some.element_size()
        batch = min(self._recipe.plan.batch or 32, max(self._fleet.counts))
        return max(1, CACHE // (2 * size + 4 * batch * self._fleet.row_bytes))

    def _make_bank(self) -> Bank:
        algorithm = self._recipe.algorithm
        sent = algorithm.send(algorithm.init(self._initial))
        like = algorithm.start(sent, self._initial)
        if self._recipe.plan.finish:
            like = like | {"finished": self._initial}
        shape = Shape(like)
        some = next(iter(self._initial.values()))
        table = Resident(some.new_empty(2 * len(self._clients), shape.width))
        return Bank(self._at, shape, table, Bank.ledger(len(self._clients)))


_Stack = tuple[list[int], list[int], int]  # clients, their settled rows, what those hold


def _stacks(
    members: Sequence[int], rows: Sequence[int], held: Sequence[int], size: int
) -> list[_Stack]:
    """Clients that remember alike, at most `size` at a time, in the order given."""
    found: list[_Stack] = []
    for kind in sorted(set(held)):
        alike = [j for j, h in enumerate(held) if h == kind]
        for s in range(0, len(alike), size):
            part = alike[s : s + size]
            found.append(([members[j] for j in part], [rows[j] for j in part], kind))
    return found


def _tickets(stacks: Sequence[_Stack]) -> Iterator[Sequence[_Stack]]:
    """Stacks whose uploads are summed together: what is in a sum never depends on who did it."""
    each = max(1, -(-len(stacks) // TICKETS))
    for s in range(0, len(stacks), each):
        yield stacks[s : s + each]


def _spread(payload: Payload, clients: int) -> Payload:
    """The same for every client of a stack, without a copy."""

    def spread(bundle: Params) -> Params:
        return {name: t.expand(clients, *t.shape) for name, t in bundle.items()}

    return {key: spread(bundle) for key, bundle in payload.items()}


def _finite(members: Sequence[int], upload: Payload) -> tuple[list[int], Payload]:
    """The clients whose upload can be used, and their uploads: one that diverged drops out."""
    tensors = [t for bundle in upload.values() for t in bundle.values()]
    if all(bool(t.sum().isfinite()) for t in tensors):  # a NaN or infinity would show in the sum
        return list(members), upload
    good = torch.stack([t.flatten(1).isfinite().all(1) for t in tensors]).all(0)
    kept = {k: {n: t[good] for n, t in bundle.items()} for k, bundle in upload.items()}
    return [i for i, fine in zip(members, good.tolist(), strict=True) if fine], kept


def _plus(total: Payload, upload: Payload, weights: list[float] | None) -> Payload:
    """The sum so far and that of a stack's uploads, each client with its weight."""

    def summed(t: Tensor) -> Tensor:
        if weights is None:
            return t.sum(0)
        return (t.new_tensor(weights) @ t.flatten(1)).view(t.shape[1:])

    part = {key: {n: summed(t) for n, t in b.items()} for key, b in upload.items()}
    return {k: tree.add(total[k], b) for k, b in part.items()} if total else part
