"""What stands between a site's answer and the coordinator.

A filter has two halves. The one at the site changes what leaves it, and answers tasks of the
filter's own. The one at the server is a transport around a transport: it asks for what the filter
needs, and gives out what the loop may see, for example one reply that stands for the whole cohort.
Algorithms and the loop know of neither.

A defence is what a federation asks for: all that is known of a filter before it is made. A new one
is a frozen dataclass whose fields are its table in [privacy.filters.NAME]. Packages offer theirs
under the entry point `fedlore.filters`; fedlore's own stand in `settings.FILTERS`.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

from ..algorithms import Algorithm, facts_of
from ..core.aggregate import Aggregate, Mean
from ..core.store import write_whole
from ..core.tree import Payload
from ..core.wire import SUMMED, TASK_KINDS, Reply, Task, Transport, name_quantity
from ..errors import FedloreError


class Half(Protocol):
    """A filter at one site. Its randomness comes from the operating system, never from a seed."""

    kinds: ClassVar[frozenset[str]]  # tasks that are the filter's alone; clients never see them

    def answer(self, task: Task) -> Reply:
        """Answer a task of one of `kinds`."""

    def outbound(self, task: Task, reply: Reply) -> Reply:
        """What leaves the site in place of the client's own reply to one of `SUMMED`."""

    def summed(self, task: Task) -> Sequence[str] | None:
        """Whose sum the server reads with the answer to this task, None where it reads none."""


@runtime_checkable
class Remembers(Protocol):
    """A half with a memory beyond one task, for a process that ends after each.

    It holds secrets, and is never written to a disk.
    """

    def remember(self) -> bytes: ...

    def recall(self, data: bytes) -> None: ...


class Filter(Protocol):
    """One defence: made once for a federation, with a half for every site."""

    name: ClassVar[str]
    #: The server no longer sees single uploads. Such a half comes last at a site, after what may
    #: have to be sent again was put by. Row counts are hidden by any filter, in every reply.
    hides: ClassVar[bool]

    def site(self, name: str) -> Half: ...

    def over(self, transport: Transport) -> Transport:
        """The server half, around the transport that reaches the sites."""

    def flaw(self, task: Task, reply: Reply, like: Payload) -> str | None:
        """Why what one site sent cannot be used, as far as that can be seen of a single reply.

        Asked of what hides, for the tasks in `SUMMED` and its own; `like` is an upload as it was
        before the filter: its names, shapes and kinds.
        """

    def lines(self, *, rounds: int, sample: float, bare: bool) -> Sequence[str]:
        """What a report says; `bare` where the server sees single uploads."""


class SiteFilters:
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
                yield half.answer(task.for_client(name))
        rest = [name for name, half in own.items() if half is None]
        for reply in self._transport.exchange(task.question(), rest) if rest else ():
            yield apply_halves(self._halves[reply.client], task, reply, hides=self._hides)


class RoundVoid(FedloreError):
    """A round from which nothing can be learned."""

    kind = "round-void"


class SumWithheld(RoundVoid):
    """A sum that sites will not open: beside others that they opened it would tell too much."""


OPENED = "opened.json"


class OpenedSums:
    """Over whom the sum of each round was asked for: one small file at the coordinator.

    A site that has helped to open a sum over one list of survivors opens none over another in that
    round. Were half of the sites asked for one list and the others for the next, neither could ever
    be opened. So the coordinator writes down whom it asks before it does, and asks for no other
    after a crash. Sums of the rows alone are the same in every training: of them it asks for no
    other ever again. Under encryption one site can open a sum by itself, also one that was gone
    when the others opened theirs, so that this file is what keeps to one cohort.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path, self._run = path, run
        self._of: dict[str, list[str]] = {}  # by place in this run
        self._ever: dict[str, list[str]] = {}  # of rows alone, by content
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_text(encoding="utf-8"))
            self._ever = dict(found["ever"])
            self._of = dict(found["of"]) if found["run"] == run else {}

    @staticmethod
    def of(place: "Placement") -> "OpenedSums | None":
        """That of a coordinator's folder; nobody else keeps one."""
        if place.role != "coordinator" or place.folder is None:
            return None
        return OpenedSums(place.folder / OPENED, place.run)

    def before(self, task: Task, here: Collection[str]) -> Sequence[str]:
        """Whose sum was asked for already, nobody where none was; all of them must be here."""
        known = self._of.get(_place(task), self._ever.get(name_quantity(task), ()))
        missing = ", ".join(sorted({*known} - {*here}))
        if missing:
            raise SumWithheld(
                f"a sum with {missing} was asked for before, and sites open no other one"
            )
        return known

    def note(self, task: Task, survivors: Collection[str]) -> None:
        """Write down whose sum is asked for now, or refuse it."""
        self.before(task, survivors)
        self._of[_place(task)] = sorted(survivors)
        if not TASK_KINDS[task.kind].trains and not task.trial:
            self._ever.setdefault(name_quantity(task), sorted(survivors))
        text = json.dumps({"run": self._run, "of": self._of, "ever": self._ever})
        write_whole(self._path, text)


def _place(task: Task) -> str:
    return f"{task.trial} {task.kind} {task.round}"


#: Begins a site's refusal to open such a sum, by which the coordinator knows it.
WITHHELD = "this sum is withheld: "


def common_steps(replies: Sequence[Reply]) -> dict[str, float]:
    """The number of steps that all took by a public coin, where the algorithm needs one."""
    steps = {r.client: r.metrics["steps"] for r in replies if "steps" in r.metrics}
    if len(set(steps.values())) > 1:
        (a, most), (b, least) = (pick(steps.items(), key=lambda s: s[1]) for pick in (max, min))
        raise FedloreError(
            f"all sites must take the same number of local steps: '{a}' took {most:g}, '{b}' took "
            f"{least:g} (do they share seed and settings?)"
        )
    return {"steps": next(iter(steps.values()))} if steps else {}


def is_hidden(task: Task) -> bool:
    """Whether a filter that hides has changed the replies to this task, or they are all its own."""
    return task.kind in SUMMED or task.kind not in TASK_KINDS


def half_for(halves: Sequence[Half], task: Task) -> Half | None:
    """The half whose own task this is, None for tasks of the client."""
    return next((half for half in halves if task.kind in half.kinds), None)


def apply_halves(halves: Sequence[Half], task: Task, reply: Reply, *, hides: bool = False) -> Reply:
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
        transport = SiteFilters(transport, halves, hides=bool(filters))
    for one in reversed(filters):
        transport = one.over(transport)
    return transport


@dataclass(frozen=True)
class FilterContext:
    """The federation that privacy is wanted in, as far as it matters."""

    sites: int
    rounds: int = 1
    sample: float = 1.0  # share of the sites asked in each round
    weights: str = "equal"
    aggregate: Aggregate = field(default_factory=Mean)
    algorithm: str = "FedAvg"
    exact: bool = False  # the algorithm lives on exact means of uploads
    least: int | None = None  # a round with fewer answers is void anyway
    sums: bool = False  # sums of rows are asked for before the first round
    hidden: bool = False  # whether a filter hides single uploads

    @property
    def cohort(self) -> int:
        return math.ceil(self.sample * self.sites - 1e-9)


def filter_context(
    algorithm: Algorithm,
    *,
    sites: int,
    rounds: int,
    weights: str,
    aggregate: Aggregate,
    sample: float = 1.0,
    least: int | None = None,
    sums: bool = False,
) -> FilterContext:
    """What filters need to know of a federation with this algorithm."""
    name, exact = type(algorithm).__name__, facts_of(algorithm).mean
    return FilterContext(sites, rounds, sample, weights, aggregate, name, exact, least, sums)


@dataclass(frozen=True)
class Placement:
    """Where filters are made: in one process for all sites, at one site, or at the coordinator."""

    role: Literal["process", "site", "coordinator"] = "process"
    folder: Path | None = None  # what must not be forgotten lies here; None: it is forgotten
    site: str = ""  # whose folder it is
    files: Mapping[str, str] = field(default_factory=dict)  # names that the owner gave, by filter
    run: str = ""  # a name for one training

    def path(self, filter: str, usual: str) -> Path:
        """The file in which a site keeps a filter's secret."""
        return (self.folder or Path()) / self.files.get(filter, usual)


class Defence(Protocol):
    """Settings of one filter. Making it refuses what cannot be."""

    name: ClassVar[str]  # as refusals call it
    hides: ClassVar[bool]  # the server no longer sees single uploads
    kinds: ClassVar[Mapping[str, str]]  # tasks that it adds, and what the replies to them hold

    def make(self, around: FilterContext, place: Placement) -> Filter: ...


@runtime_checkable
class NeedsQuorum(Protocol):
    """A defence that loses a round if too many drop out of it."""

    def least(self, cohort: int) -> int:
        """How many of a cohort must last until the end."""


@runtime_checkable
class SharesSecret(Protocol):
    """A defence whose sites share a secret that the coordinator never has."""

    def share(self, place: Placement) -> tuple[Path, str]:
        """Make the secret at one site; its file, and a name by which to compare it."""


@runtime_checkable
class ChecksFolder(Protocol):
    """A defence that has something to say of a site's folder before the site joins."""

    def remark(self, place: Placement) -> str: ...
