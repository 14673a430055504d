"""How much anybody may take of the gate, and what is noticed of who takes more."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class GateLimits:
    """How much anybody may take of the gate."""

    head: int = 16_384  # bytes of a request's head
    body: int = 16 << 20  # bytes of a part of an answer: Flower cuts tensors into pieces of 5 MB
    ask: int = 1 << 20  # bytes of any other request
    lines: int = 32  # connections of one site; the oldest makes room
    reply: int = 64 << 20  # bytes that a site may send for each task that it was given
    pause: float = 60.0  # seconds for which one that sent more may send nothing
    strangers: int = 128  # connections that nobody has signed on yet; the oldest makes room
    address: int = 64  # of them from one address
    patience: float = 10.0  # seconds for a handshake and the head of a first request
    slowest: float = 20_000.0  # bytes a second, of a body
    idle: float = 120.0  # seconds between two requests of a site
    rate: float = 200.0  # requests a second of one site
    burst: float = 1000.0  # requests at once
    answer: float = 30.0  # seconds that the server may take
    hold: float = 2.0  # seconds for which a site that asks for tasks is kept waiting for one
    hold_each: float = 0.05  # at least so many for each site: the server has a word with all
    hold_most: float = 10.0  # a site takes a server for stopped after 15

    @classmethod
    def for_sites(cls, count: int, **more: int) -> "GateLimits":
        """With room for so many sites that come in at once from one address."""
        room = {"strangers": max(cls.strangers, 2 * count), "address": max(cls.address, count)}
        return cls(**room, **more)


class Lines:
    """Connections of addresses or sites, oldest first.

    Where there are too many, one of whoever has the most of them goes: who floods the gate shuts
    out himself.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most, self._each = most, each  # in all, and of one
        self._here: dict[str, dict[int, Callable[[], object]]] = {}  # by whose they are

    def add(self, number: int, who: str, close: Callable[[], object]) -> str:
        """Let one in; whose oldest had to go for it, empty where none had to."""
        crowd = ""
        if len(self._here.get(who, ())) >= self._each:
            crowd = who
        elif sum(map(len, self._here.values())) >= self._most:
            crowd = max(self._here, key=lambda one: len(self._here[one]))
        if crowd:
            oldest, close_it = next(iter(self._here[crowd].items()))
            self.drop(oldest, crowd)
            close_it()
        self._here.setdefault(who, {})[number] = close
        return crowd

    def drop(self, number: int, who: str) -> None:
        known = self._here.get(who, {})
        known.pop(number, None)
        if not known:
            self._here.pop(who, None)


@dataclass
class Bucket:
    """A rate with a burst."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _left: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._left, self._at = self.burst, self.clock()

    def take(self) -> bool:
        """Whether one more is within the rate."""
        now = self.clock()
        self._left = min(self.burst, self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class RefusalLog:
    """A line for every kind of refusal and from whom; the same again is counted, not repeated."""

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        every: float = 10.0,
        most: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._every, self._most, self._clock = write, every, most, clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def note(self, who: str, why: str) -> None:
        now = self._clock()
        since, more = self._seen.get((who, why), (-self._every, 0))
        if now - since < self._every:
            self._seen[who, why] = (since, more + 1)
            return
        self._write(f"refused {who}: {why}" + (f" ({more} more of it before)" if more else ""))
        self._seen[who, why] = (now, 0)
        if len(self._seen) > self._most:  # a stranger with many addresses must not fill memory
            self.flush()

    def flush(self) -> None:
        """Write what was only counted so far."""
        for (who, why), (_, more) in self._seen.items():
            if more:
                self._write(f"refused {who}: {why} ({more} more of it)")
        self._seen.clear()


class Twins:
    """Notices a site that speaks from two places: somebody has a copy of its kit."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._now: dict[str, tuple[str, str]] = {}  # site -> its visit and from where
        self._before: dict[str, dict[str, str]] = {}  # visits that another took the place of
        self._named: set[str] = set()

    def seen(self, site: str, visit: str, who: str) -> bool:
        """Whether there are two: a start that another took the place of speaks again."""
        current, place = self._now.get(site, (visit, who))
        twice = False
        if visit != current:
            before = self._before.setdefault(site, {})
            twice = visit in before
            if twice and site not in self._named:
                self._named.add(site)
                self._write(
                    f"site '{site}' speaks from two places ({place} and {who}): somebody has a "
                    f"copy of its kit; fedlore federation renew {site} makes a new key"
                )
            while len(before) > 100:
                before.pop(next(iter(before)))
            before[current] = place
        self._now[site] = (visit, who)
        return twice
