"""What stands between a site's answer and the coordinator.

A filter has two halves. The one at the site changes what leaves it, and answers tasks of the
filter's own. The one at the server is a transport around a transport: it asks for what the filter
needs, and gives out what the loop may see, for example one reply that stands for the whole cohort.
Algorithms and the loop know of neither.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from ..core.tree import Payload
from ..core.wire import TASK_KINDS, Reply, Task, Transport

#: Tasks whose uploads are differences or sums, which filters change; others carry no tensors.
SUMMED = ("train", "moments", "evidence", "gram", "vote", "curve", "scores")


class Half(Protocol):
    """A filter at one site. Its randomness comes from the operating system, never from a seed."""

    kinds: ClassVar[frozenset[str]]  # tasks that are the filter's alone; clients never see them

    def answer(self, task: Task) -> Reply:
        """Answer a task of one of `kinds`."""
        ...

    def outbound(self, task: Task, reply: Reply) -> Reply:
        """What leaves the site in place of the client's own reply to one of `SUMMED`."""
        ...

    def summed(self, task: Task) -> Sequence[str] | None:
        """Whose sum the server reads with the answer to this task, None where it reads none."""
        ...


class Filter(Protocol):
    """One defence: made once for a federation, with a half for every site."""

    name: ClassVar[str]
    #: The server no longer sees single uploads. Such a half comes last at a site, after what may
    #: have to be sent again was put by. Row counts are hidden by any filter, in every reply.
    hides: ClassVar[bool]

    def site(self, name: str) -> Half: ...

    def over(self, transport: Transport) -> Transport:
        """The server half, around the transport that reaches the sites."""
        ...

    def flaw(self, task: Task, reply: Reply, like: Payload) -> str | None:
        """Why what one site sent cannot be used, as far as that can be seen of a single reply.

        Asked of what hides, for the tasks in `SUMMED` and its own; `like` is an upload as it was
        before the filter: its names, shapes and kinds.
        """
        ...

    def lines(self, *, rounds: int, sample: float, bare: bool) -> Sequence[str]:
        """What a report says; `bare` where the server sees single uploads."""
        ...


class Filtered:
    """A transport in this process whose clients answer through the halves of their filters."""

    def __init__(
        self, transport: Transport, halves: Mapping[str, Sequence[Half]], *, hides: bool = False
    ) -> None:
        self._transport, self._halves, self._hides = transport, halves, hides

    def clients(self) -> Sequence[str]:
        return self._transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        own = {name: half_for(self._halves[name], task) for name in to}
        for name, half in own.items():
            if half is not None:
                yield half.answer(task.told_to(name))
        rest = [name for name, half in own.items() if half is None]
        for reply in self._transport.exchange(task.question(), rest) if rest else ():
            yield through(self._halves[reply.client], task, reply, hides=self._hides)


def is_hidden(task: Task) -> bool:
    """Whether a filter that hides has changed the replies to this task, or they are all its own."""
    return task.kind in SUMMED or task.kind not in TASK_KINDS


def half_for(halves: Sequence[Half], task: Task) -> Half | None:
    """The half whose own task this is, None for tasks of the client."""
    return next((half for half in halves if task.kind in half.kinds), None)


def through(halves: Sequence[Half], task: Task, reply: Reply, *, hides: bool = False) -> Reply:
    """A reply after all halves of its site, in the order of the filters."""
    if task.kind not in SUMMED:
        return replace(reply, rows=0) if hides else reply
    for half in halves:  # the last may be one that hides, and has a part of the task to itself
        reply = half.outbound(task if half is halves[-1] else task.question(), reply)
    return reply


def guard_transport(
    transport: Transport, filters: Sequence[Filter], *, local: bool = True
) -> Transport:
    """The transport that the loop gets: server halves outside, sites' halves inside.

    What a site does last is undone first. Without `local` the sites apply their halves themselves.
    """
    if local:
        halves = {name: [f.site(name) for f in filters] for name in transport.clients()}
        transport = Filtered(transport, halves, hides=bool(filters))
    for one in reversed(filters):
        transport = one.over(transport)
    return transport
