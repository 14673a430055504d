"""The fast engine: many clients in lockstep, one set of tensor operations for a whole stack."""

from collections.abc import Iterator, MutableMapping, Sequence

import torch
from torch import nn

from ...core.wire import Reply, Task
from ...errors import ConfigError
from ...models.client import Client
from ..client import Memory
from ..loop import ROW_SUMS, Recipe, own_params, sum_up
from .clients import ClientSource, Population, StackedRows
from .memory import FINISHED, STARTED, InMemory, MemoryBank, OnDisk, Shape
from .params import Graphs, StackedParams
from .runner import Stack, StackRunner, spread_stacks
from .score import TestRows, own_logits, score_tests, shared_logits, stack_tests
from .workers import Tickets, WorkerPool, can_fork, cores, one_thread, share_tensor, tickets_of

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
        self._source = ClientSource(clients, recipe, where)
        lazy = self._source.lazy
        self._recipe = recipe
        self._at = {name: i for i, name in enumerate(self._source.ids)}
        initial = {name: p.detach() for name, p in recipe.model.named_parameters()}
        sample, _ = self._source.rows_of([0])
        self._classes, self._rows = sample.classes, max(sample.counts)  # of a client, about
        rows = min(recipe.plan.batch or self._rows, self._rows)
        size = 2 * sum(p.numel() * p.element_size() for p in initial.values())
        if stack is None:
            each = size + 4 * rows * sample.row_bytes
            stack = stack_size(recipe.model, sample, each, rows)
        self._size = min(stack, len(self._at))
        params = StackedParams(recipe.model, sample.x[:1], self._size)
        bank = self._bank(initial, folder, lazy)
        card = where.type == "cuda"
        graphs = Graphs() if card and params.by_hand else None
        room = CARD_ROOM if card else _ROOM
        self._runner = StackRunner(recipe, self._source, params, bank, initial, room, graphs)
        if (workers or 1) > 1 and not can_fork():
            raise ConfigError(
                f"workers = {workers} needs Linux, where processes can be forked: leave it out"
            )
        usable = where.type == "cpu" and can_fork() and params.by_hand
        self._processes = (cores() if workers is None else workers) if usable else 1
        self._eager = workers is not None
        self._pool: WorkerPool | None = None
        self._tests: dict[tuple[int, ...], TestRows | None] | None = None if lazy else {}

    @property
    def memories(self) -> MutableMapping[str, Memory]:
        """What each client remembers."""
        return self._runner.bank

    def clients(self) -> Sequence[str]:
        return self._source.ids

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        members = [self._at[name] for name in to]
        if task.kind in ROW_SUMS:
            for client in (self._source.clients([i])[0] for i in members):
                upload = sum_up(client, self._recipe, task, self._classes)
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
        ids, runner = self._source.ids, self._runner
        members = self._source.order(members)
        accepted = [task.accepted.get(ids[i], 0) for i in members]
        settled, held = runner.bank.settle(members, accepted)
        processes = self._processes if task.sums and self._worth(task, len(members)) else 1
        stacks = _stacks(members, settled, held, self._size, processes)
        replies = []
        if not task.sums:
            for member, upload, rows, steps in runner.singles(task, stacks):
                metrics = runner.metrics(steps)
                replies.append(Reply(ids[member], task.round, upload, rows, metrics))
        else:
            tickets = tickets_of(stacks)
            pool = self._workers(task) if processes > 1 and len(tickets) > 1 else None
            if pool is not None:
                shares = pool.shares(task, tickets)
            else:
                shares = [runner.share(task, ticket) for ticket in tickets]
            for share in shares:
                names = tuple(ids[i] for i in share.members)
                if names:
                    metrics = runner.metrics(share.steps)
                    mean = share.mean()
                    replies.append(
                        Reply(names[0], task.round, mean, share.rows, metrics, members=names)
                    )
        if runner.bank.width:
            kind = FINISHED if task.kind == "finish" else STARTED
            runner.bank.turn(settled, task.round, kind)
        return replies

    def _worth(self, task: Task, clients: int) -> bool:
        """Whether the round is long enough for a second process."""
        if self._processes == 1 or self._eager:
            return self._processes > 1
        plan, runner = self._recipe.plan, self._runner
        steps = plan.finish if task.kind == "finish" else plan.local_steps(self._rows)
        batch = min(plan.batch or self._rows, self._rows)
        work = 6 * runner.params.width * batch * steps * clients
        return work >= WORTH

    def _workers(self, task: Task) -> WorkerPool | None:
        if self._pool is None:
            self._pool = WorkerPool(self._processes, self._runner, task.sent, len(self._at))
        return self._pool if self._pool.fits(task) else None

    def _evaluate(self, task: Task, members: list[int]) -> Iterator[Reply]:
        ids, runner = self._source.ids, self._runner
        accepted = [task.accepted.get(ids[i], 0) for i in members]
        settled, held = runner.bank.settle(members, accepted)
        for some, rows, kind in _stacks(members, settled, held, 512, 1):
            tests = self._test_rows(tuple(some))
            if tests is None:
                scores: list[dict[str, float]] = [{} for _ in some]
            else:
                sent = spread_stacks(task.sent, len(some))
                memory = runner.recall(task, rows, kind)
                params = own_params(self._recipe.algorithm, sent, memory)
                if all(t.stride(0) == 0 for t in params.values()):  # one network for them all
                    common = {name: t[0] for name, t in params.items()}
                    logits = shared_logits(tests, self._recipe.model, common)
                else:
                    logits = own_logits(tests, runner.params, params)
                scores = score_tests(tests, logits)
            for i, metrics in zip(some, scores, strict=True):
                yield Reply(ids[i], task.round, metrics=metrics)

    def _test_rows(self, members: tuple[int, ...]) -> TestRows | None:
        if self._tests is not None and members in self._tests:
            return self._tests[members]
        recipe, clients = self._recipe, self._source.clients(members)
        tests = stack_tests(clients, recipe.model, recipe.scaler, self._classes)
        if self._tests is not None:
            self._tests[members] = tests
        return tests

    def _bank(self, initial: dict[str, torch.Tensor], folder: str | None, lazy: bool) -> MemoryBank:
        algorithm = self._recipe.algorithm
        like = algorithm.start(algorithm.send(algorithm.init(initial)), initial)
        if self._recipe.plan.finish:
            like = like | {"finished": initial}
        shape, some, clients = Shape(like), next(iter(initial.values())), len(self._at)
        ledger = share_tensor(torch.empty(0, dtype=torch.int64), 4, clients)
        if lazy:
            return MemoryBank(self._at, shape, OnDisk(folder, some, shape.width), ledger)
        if some.device.type == "cpu":
            table = InMemory(share_tensor(some, 2 * clients, shape.width))
        else:
            table = InMemory(some.new_empty(2 * clients, shape.width))
        return MemoryBank(self._at, shape, table, ledger)


def stack_size(model: nn.Module, sample: StackedRows, each: int, rows: int) -> int:
    """How many clients train at once: those that fit into the cache, or onto the card."""
    params = StackedParams(model, sample.x[:1], 1)
    where = sample.x.device
    if where.type != "cuda":
        # unfolded images fill the cache by themselves
        return 1 if params.images else max(1, CACHE // each)
    one = sample.x[:rows][None]
    heard = None if sample.heard is None else sample.heard[:rows][None]
    with torch.no_grad():
        params.program(1, rows).logits(one, heard)
    free, _ = torch.cuda.mem_get_info(where)
    # parameters, velocity, start, end, upload and their like; buffers of the layers
    return max(1, int(0.5 * free) // (5 * each + 2 * params.scratch.bytes))


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
