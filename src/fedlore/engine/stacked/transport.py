"""The fast engine: many clients in lockstep, one set of tensor operations for a whole stack."""

from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence

import torch
from torch import nn

from ...core.wire import Reply, Task
from ...errors import ConfigError, FedloreError
from ...personal.client import Client
from ..loop import Recipe, gram_of, own_params
from ..memory import Memory
from .bench import Bench
from .fleet import Fleet
from .graph import Graphs
from .memory import FINISHED, STARTED, Bank, OnDisk, Resident, Shape
from .pool import Tickets, WorkerPool, tickets_of
from .population import AtHand, Crowd, OnCall, Population
from .score import Exam, exam_of, marks, own_logits, shared_logits
from .stint import Stack, Stint, spread_stacks
from .workers import can_fork, cores, one_thread, share_tensor

CACHE = 2 * 2**20  # bytes: what the parameters of a stack may take to stay near one core
_ROOM = 2 * 2**20  # bytes: gathered rows of one block of steps
CARD_ROOM = 4 * 2**30  # the same on a card
WORTH = 10**9  # operations in a round from which a second process pays


class Stacked:
    """A transport that trains clients in stacks; the same results as one by one, to rounding.

    A stack is small on a processor, so that its parameters stay in the cache. Given a
    population, clients are made when they are asked and their memories lie on disk, so that
    memory is bounded by the cohort. Close it, or use it in a with statement, to end its workers
    at once; they end with this object in any case.
    """

    sums = True  # a reply may stand for many clients, where the server needs only their mean

    def __init__(
        self,
        clients: Sequence[Client] | Population,
        recipe: Recipe,
        *,
        workers: int | None = 1,
        stack: int | None = None,
        folder: str | None = None,
    ) -> None:
        where = next(recipe.model.parameters()).device
        self._crowd: Crowd
        if isinstance(clients, Population):
            self._crowd, lazy = OnCall(clients, recipe, where), True
        else:
            self._crowd, lazy = AtHand(_distinct(clients), recipe, where), False
        self._recipe = recipe
        self._at = {name: i for i, name in enumerate(self._crowd.ids)}
        initial = {name: p.detach() for name, p in recipe.model.named_parameters()}
        sample, _ = self._crowd.fleet([0])
        self._classes, self._rows = sample.classes, max(sample.counts)  # of a client, about
        rows = min(recipe.plan.batch or self._rows, self._rows)
        size = 2 * sum(p.numel() * p.element_size() for p in initial.values())
        if stack is None:
            each = size + 4 * rows * sample.row_bytes
            stack = stack_size(recipe.model, sample, each, rows)
        self._size = min(stack, len(self._at))
        bench = Bench(recipe.model, sample.x[:1], self._size)
        bank = self._bank(initial, folder, lazy)
        card = where.type == "cuda"
        graphs = Graphs() if card and bench.by_hand else None
        room = CARD_ROOM if card else _ROOM
        self._stint = Stint(recipe, self._crowd, bench, bank, initial, room, graphs)
        if (workers or 1) > 1 and not can_fork():
            raise ConfigError(
                f"workers = {workers} needs Linux, where processes can be forked: leave it out"
            )
        usable = where.type == "cpu" and can_fork() and bench.by_hand
        self._processes = (cores() if workers is None else workers) if usable else 1
        self._eager = workers is not None
        self._pool: WorkerPool | None = None
        self._exams: dict[tuple[int, ...], Exam | None] | None = None if lazy else {}

    @property
    def memories(self) -> MutableMapping[str, Memory]:
        """What each client remembers."""
        return self._stint.bank

    def clients(self) -> Sequence[str]:
        return self._crowd.ids

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        members = [self._at[name] for name in to]
        if task.kind == "moments":
            for client in (self._crowd.clients([i])[0] for i in members):
                yield Reply(client.id, task.round, {"moments": client.sums()})
        elif task.kind == "gram":
            for client in (self._crowd.clients([i])[0] for i in members):
                upload = {"gram": gram_of(client, self._recipe, self._classes)}
                yield Reply(client.id, task.round, upload)
        elif task.kind == "evaluate":
            yield from self._evaluate(task, members)
        elif task.kind in ("train", "finish"):
            with one_thread():
                replies = self._train(task, members)
            yield from replies
        else:
            raise ConfigError(f"unknown task '{task.kind}'")

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def __enter__(self) -> "Stacked":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _train(self, task: Task, members: Sequence[int]) -> list[Reply]:
        ids, stint = self._crowd.ids, self._stint
        members = self._crowd.order(members)
        accepted = [task.accepted.get(ids[i], 0) for i in members]
        settled, held = stint.bank.settle(members, accepted)
        processes = self._processes if task.sums and self._worth(task, len(members)) else 1
        stacks = _stacks(members, settled, held, self._size, processes)
        replies = []
        if not task.sums:
            for one in stint.singles(task, stacks):
                metrics = stint.metrics(one.steps)
                replies.append(Reply(ids[one.member], task.round, one.upload, one.rows, metrics))
        else:
            tickets = tickets_of(stacks)
            pool = self._workers(task) if processes > 1 and len(tickets) > 1 else None
            if pool is not None:
                shares = pool.shares(task, tickets)
            else:
                shares = [stint.share(task, ticket) for ticket in tickets]
            for share in shares:
                names = tuple(ids[i] for i in share.members)
                if names:
                    metrics = stint.metrics(share.steps)
                    mean = share.mean()
                    replies.append(
                        Reply(names[0], task.round, mean, share.rows, metrics, members=names)
                    )
        if stint.bank.width:
            kind = FINISHED if task.kind == "finish" else STARTED
            stint.bank.turn(settled, task.round, kind)
        return replies

    def _worth(self, task: Task, clients: int) -> bool:
        """Whether the round is long enough for a second process."""
        if self._processes == 1 or self._eager:
            return self._processes > 1
        plan, stint = self._recipe.plan, self._stint
        steps = plan.finish if task.kind == "finish" else plan.local_steps(self._rows)
        batch = min(plan.batch or self._rows, self._rows)
        work = 6 * stint.bench.width * batch * steps * clients
        return work >= WORTH

    def _workers(self, task: Task) -> WorkerPool | None:
        if self._pool is None:
            self._pool = WorkerPool(self._processes, self._stint, task.sent, len(self._at))
        return self._pool if self._pool.fits(task) else None

    def _evaluate(self, task: Task, members: list[int]) -> Iterator[Reply]:
        ids, stint = self._crowd.ids, self._stint
        accepted = [task.accepted.get(ids[i], 0) for i in members]
        settled, held = stint.bank.settle(members, accepted)
        for some, rows, kind in _stacks(members, settled, held, 512, 1):
            exam = self._exam(tuple(some))
            if exam is None:
                scores: list[dict[str, float]] = [{} for _ in some]
            else:
                sent = spread_stacks(task.sent, len(some))
                memory = stint.recall(task, rows, kind)
                params = own_params(self._recipe.algorithm, sent, memory)
                if all(t.stride(0) == 0 for t in params.values()):  # one network for them all
                    common = {name: t[0] for name, t in params.items()}
                    logits = shared_logits(exam, self._recipe.model, common)
                else:
                    logits = own_logits(exam, stint.bench, params)
                scores = marks(exam, logits)
            for i, metrics in zip(some, scores, strict=True):
                yield Reply(ids[i], task.round, metrics=metrics)

    def _exam(self, members: tuple[int, ...]) -> Exam | None:
        if self._exams is not None and members in self._exams:
            return self._exams[members]
        recipe, clients = self._recipe, self._crowd.clients(members)
        exam = exam_of(clients, recipe.model, recipe.scaler, self._classes)
        if self._exams is not None:
            self._exams[members] = exam
        return exam

    def _bank(self, initial: dict[str, torch.Tensor], folder: str | None, lazy: bool) -> Bank:
        algorithm = self._recipe.algorithm
        like = algorithm.start(algorithm.send(algorithm.init(initial)), initial)
        if self._recipe.plan.finish:
            like = like | {"finished": initial}
        shape, some, clients = Shape(like), next(iter(initial.values())), len(self._at)
        ledger = share_tensor(torch.empty(0, dtype=torch.int64), 4, clients)
        if lazy:
            return Bank(self._at, shape, OnDisk(folder, some, shape.width), ledger)
        if some.device.type == "cpu":
            table = Resident(share_tensor(some, 2 * clients, shape.width))
        else:
            table = Resident(some.new_empty(2 * clients, shape.width))
        return Bank(self._at, shape, table, ledger)


def stack_size(model: nn.Module, sample: Fleet, each: int, rows: int) -> int:
    """How many clients train at once: those that fit into the cache, or onto the card."""
    bench = Bench(model, sample.x[:1], 1)
    where = sample.x.device
    if where.type != "cuda":
        # unfolded images fill the cache by themselves
        return 1 if bench.images else max(1, CACHE // each)
    one = sample.x[:rows][None]
    told = None if sample.told is None else sample.told[:rows][None]
    with torch.no_grad():
        bench.program(1, rows).logits(one, told)
    free, _ = torch.cuda.mem_get_info(where)
    # parameters, velocity, start, end, upload and their like; buffers of the layers
    return max(1, int(0.5 * free) // (5 * each + 2 * bench.scratch.bytes))


def _distinct(clients: Sequence[Client]) -> Sequence[Client]:
    twice = [name for name, times in Counter(c.id for c in clients).items() if times > 1]
    if twice:
        raise FedloreError(f"client ids must differ, '{twice[0]}' appears twice")
    if not clients:
        raise ConfigError("a federation needs at least one client, got none")
    return clients


def _stacks(
    members: Sequence[int], settled: Sequence[int], held: Sequence[int], size: int, processes: int
) -> list[Stack]:
    """Clients that remember alike, at most `size` at a time, the same number for each process."""
    found: list[Stack] = []
    for kind in sorted(set(held)):
        alike = [j for j, h in enumerate(held) if h == kind]
        count = -(-len(alike) // size)
        count = min(len(alike), -(-count // processes) * processes)
        for n in range(count):
            part = alike[n * len(alike) // count : (n + 1) * len(alike) // count]
            found.append(([members[j] for j in part], [settled[j] for j in part], kind))
    return found


__all__ = ["Population", "Stacked", "Tickets"]
