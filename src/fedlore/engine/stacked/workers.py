"""Worker processes that share tensors with this one and take numbered pieces of its work.

They are forked, as torch's own data loaders are on Linux: they start in milliseconds with
everything in place, nothing is copied or pickled, and what they write to shared tensors is seen
here. They use no autograd and one thread, which is what fork leaves usable.
"""

import json
import math
import mmap
import os
import signal
import struct
import sys
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from ...core import tree
from ...core.tree import Payload
from ...core.wire import Task
from ...errors import FedloreError
from .memory import Shape
from .runner import Stack, StackRunner, StackSum

_TICKET = struct.Struct("<i")
_PATIENCE = 2.0  # seconds between looks at whether the parent is still there

Message = dict[str, Any]  # plain values
Job = Callable[[Message, int], None]  # does one numbered piece of what the message asks


def share_tensor(like: Tensor, *shape: int) -> Tensor:
    """An empty tensor that forked processes see as one; unused pages take no memory."""
    count = math.prod(shape)
    if count == 0:
        return like.new_empty(shape)
    memory = mmap.mmap(-1, count * like.element_size())
    return torch.frombuffer(memory, dtype=like.dtype, count=count).view(shape)


def cores() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def can_fork() -> bool:
    """Whether workers are to be had: system libraries elsewhere do not bear a fork."""
    return sys.platform == "linux"


@contextmanager
def one_thread() -> Iterator[None]:
    """A second torch thread slows small matrices down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Workers:
    """Some forked processes beside this one; all take tickets from one queue until it is empty."""

    def __init__(self, count: int, job: Job) -> None:
        self._tickets = os.pipe()  # reads of one ticket are atomic: a queue that needs no lock
        os.set_blocking(self._tickets[0], False)
        self._job = job
        self._links: list[Connection] = []  # to each worker: orders there, problems back
        pids = [self._fork() for _ in range(count)]
        self._close = weakref.finalize(self, _stop, os.getpid(), pids, self._tickets, self._links)

    def run(self, message: Message, tickets: int) -> None:
        """Do all pieces of the work, here and in the workers, and wait for the last."""
        try:
            os.write(self._tickets[1], b"".join(map(_TICKET.pack, range(tickets))))
            text = json.dumps(message).encode()
            for link in self._links:
                link.send_bytes(text)
            self._take(message)
            for link in self._links:
                try:
                    problem = link.recv_bytes()
                except (EOFError, OSError):
                    raise FedloreError("a worker process ended before its work was done") from None
                if problem:
                    raise FedloreError(f"a worker process failed: {problem.decode()}")
        except BaseException:  # Ctrl-C too: the queue may be half empty, nobody goes on with it
            self.close()
            raise

    def close(self) -> None:
        """End the workers, after the piece they are at."""
        self._close()

    def _take(self, message: Message) -> None:
        parent = os.getppid()
        while os.getppid() == parent:  # an orphan stops
            try:
                ticket = os.read(self._tickets[0], _TICKET.size)
            except BlockingIOError:
                return
            self._job(message, _TICKET.unpack(ticket)[0])

    def _fork(self) -> int:
        ours, theirs = Pipe()
        with warnings.catch_warnings():
            # other threads (a progress bar) stay behind; a worker takes no lock of theirs
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for link in (ours, *self._links):
                    link.close()
                self._serve(theirs)
                code = 0
            finally:
                os._exit(code)  # never the parent's way out: its handlers are not ours to run
        theirs.close()
        self._links.append(ours)
        return pid

    def _serve(self, link: Connection) -> None:
        """A worker's life: until the parent says stop, or is no more."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
        torch.set_num_threads(1)
        parent = os.getppid()
        while True:
            while not link.poll(_PATIENCE):
                if os.getppid() != parent:
                    return
            text = link.recv_bytes()
            if not text:
                return
            try:
                self._take(json.loads(text))
                problem = b""
            except BaseException as error:
                traceback.print_exc()
                problem = f"{type(error).__name__}: {error}".encode()
            link.send_bytes(problem)


def _stop(owner: int, pids: list[int], tickets: tuple[int, int], links: list[Connection]) -> None:
    """Tell workers to end and wait for them; a process forked from the owner leaves them be."""
    if os.getpid() != owner:
        return
    with suppress(BlockingIOError):
        while os.read(tickets[0], 1 << 16):  # after Ctrl-C there may be tickets left
            pass
    for link in links:
        with suppress(OSError):  # it has ended already
            link.send_bytes(b"")
        link.close()
    for end in tickets:
        os.close(end)
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


TICKETS = 64  # most pieces of a round: the sum of each is kept apart

Tickets = Sequence[Sequence[Stack]]


def tickets_of(stacks: Sequence[Stack]) -> Tickets:
    """Stacks that are summed together, in order."""
    each = max(1, -(-len(stacks) // TICKETS))
    return [stacks[s : s + each] for s in range(0, len(stacks), each)]


class WorkerPool:
    """Worker processes for the stacks of a round; this process works along."""

    def __init__(self, processes: int, runner: StackRunner, sent: Payload, clients: int) -> None:
        some = next(iter(runner.initial.values()))
        self._runner = runner
        self._sent = Shape(sent)
        uploads = runner.recipe.algorithm.uploads
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

    def shares(self, task: Task, tickets: Tickets) -> list[StackSum]:
        """What each ticket comes to."""
        self._sent.paste(tree.each(task.sent, lambda t: t[None]), self._given)
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
            found.append(StackSum(kept, total, weight, int(rows), int(steps)))
        return found

    def close(self) -> None:
        self._workers.close()

    def _job(self, message: Message, number: int) -> None:
        """One ticket, in whichever process took it."""
        if self._read is None or self._read[0] is not message:
            sent = self._cut(self._sent, self._given)
            task = Task(message["kind"], message["round"], sent, message["seed"], message["rate"])
            self._read = (message, task)
        share = self._runner.share(self._read[1], message["tickets"][number])
        if share.members:
            total = tree.each(share.total, lambda t: t[None])
            self._upload.paste(total, self._sums[number : number + 1])
        self._good[torch.tensor(share.members, dtype=torch.int64)] = 1
        self._notes[number] = torch.tensor([share.weight, share.rows, share.steps])

    @staticmethod
    def _cut(shape: Shape, row: Tensor) -> Payload:
        return tree.each(shape.cut(row, shape.bundles), lambda t: t[0])
