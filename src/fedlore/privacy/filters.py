"""What stands between a site's answer and the coordinator.

A filter has two halves. The one at the site changes what leaves it, and answers tasks of the
filter's own. The one at the server is a transport around a transport: it asks for what the filter
needs, and gives out what the loop may see, for example one reply that stands for the whole cohort.
Algorithms and the loop know of neither.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Protocol

from ..wire import Reply, Task, Transport

#: Tasks whose uploads are differences or sums, which filters change; others carry no tensors.
SUMMED = ("train", "moments")


class Half(Protocol):
    """A filter at one site. Its randomness comes from the operating system, never from a seed."""

    kinds: ClassVar[frozenset[str]]  # tasks that are the filter's alone; clients never see them

    def answer(self, task: Task) -> Reply:
        """Answer a task of one of `kinds`."""
        ...

    def outbound(self, task: Task, reply: Reply) -> Reply:
        """What leaves the site in place of the client's own reply to one of `SUMMED`."""
        ...


class Filter(Protocol):
    """One defence: made once for a federation, with a half for every site."""

    name: ClassVar[str]
    hides: ClassVar[bool]  # the server no longer sees single uploads

    def site(self, name: str) -> Half: ...

    def over(self, transport: Transport) -> Transport:
        """The server half, around the transport that reaches the sites."""
        ...


class Filtered:
    """A transport in this process whose clients answer through the halves of their filters."""

    def __init__(self, transport: Transport, halves: Mapping[str, Sequence[Half]]) -> None:
        self._transport, self._halves = transport, halves

    def clients(self) -> Sequence[str]:
        return self._transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        for name in to:
            for half in self._halves[name]:
                if task.kind in half.kinds:
                    yield half.answer(task)
                    break
        if any(task.kind in half.kinds for half in self._halves[to[0]]):
            return
        for reply in self._transport.exchange(task, to):
            yield through(self._halves[reply.client], task, reply)


def through(halves: Sequence[Half], task: Task, reply: Reply) -> Reply:
    """A reply after all halves of its site, in the order of the filters."""
    if task.kind in SUMMED:
        for half in halves:
            reply = half.outbound(task, reply)
    return reply


def guarded(transport: Transport, filters: Sequence[Filter], *, local: bool = True) -> Transport:
    """The transport that the loop gets: server halves outside, sites' halves inside.

    What a site does last is undone first. Without `local` the sites apply their halves themselves.
    """
    if local:
        halves = {name: [f.site(name) for f in filters] for name in transport.clients()}
        transport = Filtered(transport, halves)
    for one in reversed(filters):
        transport = one.over(transport)
    return transport
