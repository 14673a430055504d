"""A transport to sites that may be slow, absent or wrong, and a site's loop at its other end."""

import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from ..core.wire import TASK_KINDS, Reply, Task
from ..errors import FedloreError
from ..privacy.filters import WITHHELD, SumWithheld


class Refusal(FedloreError):
    """A site will not do what it was asked; the reason may leave the site."""

    kind = "site-refused"


class QuorumLost(FedloreError):
    """Too few sites answered in time."""

    kind = "quorum"


class LinkLost(FedloreError):
    """The coordinator's server does not answer, or has given up the run."""

    kind = "connection"


class NotTrusted(FedloreError):
    """Who answers in the coordinator's place cannot show that it is the coordinator."""

    kind = "not-trusted"


MOST_TEXT = 500  # characters of what others say


def plain_text(text: str) -> str:
    """What somebody else said, in one line that does nothing to a screen."""
    cut = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


@dataclass(frozen=True)
class Notice:
    """What happened between the coordinator and one site in one exchange."""

    what: str  # reply, rejected, refused, failed, late or silent
    site: str
    round: int
    kind: str
    detail: str = ""
    seconds: float = 0.0
    size: int = 0  # bytes of tensors and settings


OnNotice = Callable[[Notice], None]


@dataclass(frozen=True)
class Letter:
    """What came back for one message: a reply, or what went wrong in place of it."""

    about: str  # the message that it answers
    reply: Reply | None = None
    wrong: str = ""  # refused, failed, malformed; or lost: it will never be answered
    detail: str = ""
    size: int = 0


class Post(Protocol):
    """How letters travel. It knows sites by their keys, whatever they call themselves."""

    def online(self) -> Mapping[str, str]:
        """The enrolled sites that are here now, and since when."""

    def push(self, task: Task, to: Sequence[str], ttl: float) -> Sequence[str]:
        """Send a task; one name of a message per site, empty where it could not be sent."""

    def pull(self, about: Sequence[str]) -> Iterable[Letter]:
        """What has arrived in answer to these messages; of others nothing is kept in half.

        Letters may be fetched a few at a time, as they are asked for.
        """

    def wait(self, seconds: float) -> None:
        """Until something may have arrived; about so long where that cannot be known."""


@dataclass(frozen=True)
class Remote:
    """Sites behind a post. Each reply is checked before anyone sees it, and handed on at once.

    An exchange ends when everybody has answered; when those who are online have, and they are a
    quorum; or at the deadline. A site that comes back in between is asked again.
    """

    post: Post
    sites: Sequence[str]
    quorum: int = 1
    deadline: float = 60.0  # seconds
    grace: float = 2.0  # how long a site that is away, or has just gone, is waited for
    check: Callable[[Task, Reply], str | None] = lambda task, reply: None  # what is wrong with one
    watch: OnNotice = lambda notice: None
    asking: Callable[[Sequence[str], Task], None] = lambda to, task: None  # who is asked what
    needed: int | None = None  # answers to a task of a filter's own; None: a quorum
    poll: float = 0.1  # seconds between looks for replies
    look: float = 2.0  # and for sites that come and go
    _asked: dict[str, tuple[str, Task, float]] = field(default_factory=dict)  # by message
    _withheld: list[str] = field(default_factory=list)  # why the sum that runs is not opened
    _stalls: dict[str, list[str]] = field(default_factory=dict)  # site -> since when it was here
    _stage: list[str] = field(default_factory=list)  # the training that these are of

    def clients(self) -> Sequence[str]:
        return sorted(self.sites)

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        began = looked = time.monotonic()
        patience, (quorum, least) = self._patience(task), self._least(task, to)
        good: set[str] = set()
        done: set[str] = set()
        sent: dict[str, str] = {}  # site -> since when it was online as it was asked
        self._withheld.clear()
        online = self.post.online()
        gone: dict[str, float] = {}  # sites that are away, and since when they were seen to be
        to = self._without_stalled(task, to, least, online)
        while True:
            absent = [s for s in to if s in online and s not in done and sent.get(s) != online[s]]
            self._push(task, absent)
            sent |= {site: online[site] for site in absent}
            for site, reply in self._pull(task):
                done.add(site)
                if reply is not None:
                    good.add(site)
                    yield reply
            now = time.monotonic()
            if now > looked + self.look:
                looked, online = now, self.post.online()
            # a connection that broke is made again: a site that hung up a moment ago may be back
            gone = {s: gone.get(s, now) for s in to if s not in online}
            waiting = [s for s in to if s not in done]
            away = all(s in gone and now > gone[s] + self.grace for s in waiting)
            enough = len(good) >= quorum
            hopeless = not enough and len(good) + len(waiting) < least
            if not waiting or hopeless or now > began + patience or (away and enough):
                break
            self.post.wait(self.poll)
            time.sleep(PAUSE * len(self._asked))  # some more come together meanwhile
        list(self.post.pull([]))  # what has come in half is not kept
        for site in waiting:
            self.watch(self._silent(site, task, now - began, online.get(site)))
        if len(good) < least and self._withheld:
            raise SumWithheld(self._withheld[0])
        if len(good) < least:
            raise QuorumLost(
                f"round {task.round}: {len(good)} of {len(to)} sites gave a usable answer to "
                f"'{task.kind}' within {now - began:.0f} s, the quorum is {least}"
            )

    def _least(self, task: Task, to: Sequence[str]) -> tuple[int, int]:
        """How many answers are waited for, and how many must be there in the end."""
        kind = TASK_KINDS.get(task.kind)  # None: a filter's own
        if kind is not None or self.needed is None:
            quorum = 0 if kind is not None and kind.alone else self.quorum
            return quorum, quorum
        others = len(self.sites) - len(to)  # a filter may need something of some sites alone
        return max(0, self.quorum - others), max(0, self.needed - others)

    def _without_stalled(
        self, task: Task, to: Sequence[str], least: int, online: Mapping[str, str]
    ) -> Sequence[str]:
        """Without those that let everybody wait before in this training, where enough are left."""
        if task.kind in TASK_KINDS and [task.trial] != self._stage:  # filters' own have no trial
            self._stage[:] = [task.trial]
            self._stalls.clear()
        left = [site for site in to if not self._is_out(site, online.get(site))]
        return left if len(left) >= least else to

    def _is_out(self, site: str, since: str | None) -> bool:
        """One that was started again has another chance, though not for ever."""
        stalls = self._stalls.get(site, [])
        return stalls.count(since or "") >= MOST_STALLS or len(stalls) >= 2 * MOST_STALLS

    def _silent(self, site: str, task: Task, seconds: float, since: str | None) -> Notice:
        """Take note of a site that has not answered; one that is here and says nothing stalls."""
        kind, detail = TASK_KINDS.get(task.kind), ""
        if since is not None and seconds > self._patience(task) and not (kind and kind.alone):
            self._stalls.setdefault(site, []).append(since)
            if self._is_out(site, since):
                detail = (
                    f"it is here and let the others wait {MOST_STALLS} times: until it is started "
                    "again, or another training begins, it is left out where there is a quorum"
                )
        return Notice("silent", site, task.round, task.kind, detail, seconds)

    def _patience(self, task: Task) -> float:
        """Seconds for which sites that are online are waited for."""
        kind = TASK_KINDS.get(task.kind)
        return self.deadline * (1 if kind is None else kind.patience)

    def _push(self, task: Task, to: Sequence[str]) -> None:
        names = self.post.push(task, to, 2 * self._patience(task) + 60.0) if to else []
        for name, (site, about, _) in list(self._asked.items()):
            if about is task and site in to:  # it comes back: what it began before is not kept
                del self._asked[name]
        for site, name in zip(to, names, strict=True):
            if name:
                self._asked[name] = (site, task, time.monotonic())
        if to:
            self.asking(to, task)

    def _pull(self, task: Task) -> Iterator[tuple[str, Reply | None]]:
        """Sites that have answered this task, with the reply where it can be used."""
        for letter in self.post.pull(list(self._asked)) if self._asked else ():
            asked = self._asked.pop(letter.about, None)
            if asked is None or letter.wrong == "lost":  # the site may come back and be asked anew
                continue
            site, about, since = asked
            took = time.monotonic() - since
            notice = Notice(
                "reply", site, about.round, about.kind, letter.detail, took, letter.size
            )
            if about is not task:
                self.watch(replace(notice, what="late", detail="answer to an earlier exchange"))
                continue
            flaw = letter.wrong or self._flaw(task, letter.reply)
            if letter.wrong == "refused" and letter.detail.startswith(WITHHELD):
                self._withheld.append(letter.detail.removeprefix(WITHHELD))
            if letter.wrong in ("refused", "failed"):
                self.watch(replace(notice, what=letter.wrong))
            elif flaw:
                self.watch(replace(notice, what="rejected", detail=flaw))
            else:
                self.watch(notice)
            yield site, None if flaw else letter.reply

    def _flaw(self, task: Task, reply: Reply | None) -> str | None:
        if reply is None:
            return "an empty reply"
        if reply.round != task.round:
            return f"an answer to round {reply.round} was given to round {task.round}"
        return self.check(task, reply)


PAUSE = 0.003  # seconds between two looks for each answer that is out: a look is a question for all
MOST_STALLS = 2  # deadlines that a site may let pass in one training

AHEAD, BEHIND = 5.0, 300.0  # seconds that a site's clock may be off, as Flower has it
BEAT = 10.0  # seconds between signs of life; after two without one a site counts as gone


class ShutOut(FedloreError):
    """The coordinator does not let this site in."""

    kind = "not-enrolled"


class Door(Protocol):
    """One site's way in to the coordinator."""

    def enter(self) -> int:
        """Say that the site is here; the number by which the coordinator knows it."""

    def beat(self) -> None: ...

    def turn(self) -> bool:
        """Pull one message and answer it; whether there was one."""

    def leave(self) -> None: ...


def attend(
    door: Door,
    stop: threading.Event,
    *,
    on_enter: Callable[[int], None] = lambda number: None,
    poll: float = 0.2,
    patience: float = 15.0,
    on_lost: Callable[[str], None] = lambda reason: None,
) -> None:
    """Serve until told to stop; a coordinator that is away is waited for, and said once.

    One that has just started may need some seconds to know the keys of its sites.
    """
    refused, lost = 0.0, ""
    while not stop.is_set():
        try:
            on_enter(door.enter())
            refused, lost = 0.0, ""
            with beating(door.beat, BEAT / 2):
                while not stop.is_set():
                    asked = time.monotonic()
                    if not door.turn():  # a server that waited for a task has done the waiting
                        stop.wait(max(0.0, poll - (time.monotonic() - asked)))
        except ShutOut:
            refused = refused or time.monotonic()
            if time.monotonic() - refused > patience:
                raise
            stop.wait(1.0)
        except LinkLost as error:  # nothing is lost: what was answered is on disk
            if str(error) != lost:
                lost = str(error)
                on_lost(lost)
            stop.wait(1.0)
    with suppress(LinkLost):
        door.leave()


def fetch_page(
    address: str, path: str, ca: bytes | None, *, timeout: float = 5.0
) -> tuple[bytes, Mapping[str, str]]:
    """What a gate says to anybody, with the headers; OSError where it cannot be believed."""
    # not urlopen, which keeps the proxies of its first call
    context = None if ca is None else ssl.create_default_context(cadata=ca.decode())
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
    url = f"{'http' if ca is None else 'https'}://{address}{path}"
    with opener.open(url, timeout=timeout) as answer:
        return answer.read(1_000_000), answer.headers


@contextmanager
def beating(beat: Callable[[], object], every: float) -> Iterator[None]:
    """Signs of life from a thread of their own; one that fails is left to the next."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every):
            with suppress(Exception):  # the main thread meets the same trouble and names it
                beat()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(1.0)
