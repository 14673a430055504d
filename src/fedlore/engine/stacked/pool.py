"""The stacks of a round, spread over worker processes; what is summed never depends on them."""

from collections.abc import Sequence

import torch

from ...core.tree import Payload
from ...core.wire import Task
from .memory import Shape
from .stint import Share, Stack, Stint
from .workers import Message, Workers, share_tensor

TICKETS = 64  # most pieces of a round: the sum of each is kept apart

Tickets = Sequence[Sequence[Stack]]


def tickets_of(stacks: Sequence[Stack]) -> Tickets:
    """Stacks that are summed together, in order."""
    each = max(1, -(-len(stacks) // TICKETS))
    return [stacks[s : s + each] for s in range(0, len(stacks), each)]


class WorkerPool:
    """Worker processes for the stacks of a round; this process works along."""

    def __init__(self, processes: int, stint: Stint, sent: Payload, clients: int) -> None:
        some = next(iter(stint.initial.values()))
        self._stint = stint
        self._sent = Shape(sent)
        uploads = stint.recipe.algorithm.uploads
        self._upload = Shape({key: sent[key] for key in uploads})
        self._given = share_tensor(some, 1, self._sent.width)
        self._sums = share_tensor(some, TICKETS, self._upload.width)
        self._notes = share_tensor(torch.empty(0, dtype=torch.float64), TICKETS, 3)
        self._good = share_tensor(torch.empty(0, dtype=torch.uint8), clients)
        self._read: tuple[Message, Task] | None = None
        self._workers = Workers(processes - 1, self._job)

    def fits(self, task: Task) -> bool:
        """Whether the task has the bundles that the shared memory was made for."""
        return Shape(task.sent) == self._sent

    def shares(self, task: Task, tickets: Tickets) -> list[Share]:
        """What each ticket comes to."""
        self._sent.paste(
            {k: {n: t[None] for n, t in b.items()} for k, b in task.sent.items()}, self._given
        )
        self._good.zero_()
        message = {
            "kind": task.kind,
            "round": task.round,
            "seed": task.seed,
            "rate": task.rate,
            "tickets": tickets,
        }
        self._workers.run(message, len(tickets))
        found = []
        for number, stacks in enumerate(tickets):
            members = [i for asked, _, _ in stacks for i in asked]
            good = self._good[torch.tensor(members)].tolist()
            weight, rows, steps = self._notes[number].tolist()
            total = self._cut(self._upload, self._sums[number : number + 1].clone())
            kept = [i for i, fine in zip(members, good, strict=True) if fine]
            found.append(Share(kept, total, weight, int(rows), int(steps)))
        return found

    def close(self) -> None:
        self._workers.close()

    def _job(self, message: Message, number: int) -> None:
        """One ticket, in whichever process took it."""
        if self._read is None or self._read[0] is not message:
            sent = self._cut(self._sent, self._given)
            task = Task(message["kind"], message["round"], sent, message["seed"], message["rate"])
            self._read = (message, task)
        share = self._stint.share(self._read[1], message["tickets"][number])
        if share.members:
            total = {k: {n: t[None] for n, t in b.items()} for k, b in share.total.items()}
            self._upload.paste(total, self._sums[number : number + 1])
        self._good[torch.tensor(share.members, dtype=torch.int64)] = 1
        self._notes[number] = torch.tensor([share.weight, share.rows, share.steps])

    @staticmethod
    def _cut(shape: Shape, row: torch.Tensor) -> Payload:
        cut = shape.cut(row, shape.bundles)
        return {key: {n: t[0] for n, t in bundle.items()} for key, bundle in cut.items()}
