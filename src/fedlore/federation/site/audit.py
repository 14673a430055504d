"""A site's own books: what left it, which questions it answered, and what others hold of them.

A coordinator that asks for the same round with ever other weights learns more than was agreed to.
A coordinator
that forgets how far a site's books went, together with that site's owner, is noticed by the others.
"""

import datetime
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...core import tree
from ...core.store import write_whole
from ...core.tree import Payload
from ...core.wire import Task, digest
from ...errors import FedloreError
from ..kits.receipts import RECEIPTS, SiteBooks, name_key, read_roll
from ..remote import AHEAD, BEHIND, Refusal

_START = "0" * 64
_AHEAD = AHEAD + BEHIND  # seconds by which a roll may be of later than now


class AuditLog:
    """Lines of JSON. Every line carries the hash of the one before, so that none can go unseen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hashes = read_audit(path)  # of all lines

    def lines(self) -> Iterator[dict[str, Any]]:
        """All that was written."""
        texts = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        yield from map(json.loads, filter(None, texts))

    def write(self, **facts: Any) -> None:
        """Add a line, and make it last before anything leaves the site."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **facts, "previous": last_of(self.hashes)}, sort_keys=True)
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            if self.path.exists():
                os.truncate(self.path, size)  # half a line would break the chain
            raise
        self.hashes.append(hashlib.sha256(line.encode()).hexdigest())


def last_of(hashes: Sequence[str]) -> str:
    """What the next line has to name."""
    return hashes[-1] if hashes else _START


def read_audit(path: Path) -> list[str]:
    """The hashes of all lines; a broken chain is an error, a line cut off by a crash is not."""
    found: list[str] = []
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            previous = json.loads(line)["previous"]
        except (json.JSONDecodeError, KeyError, TypeError):
            if number == len(lines):  # the crash came in the middle of this line
                write_whole(path, "".join(f"{whole}\n" for whole in lines[:-1]))
                break
            raise FedloreError(f"'{path}' line {number} is not an audit line") from None
        if previous != last_of(found):
            raise FedloreError(f"'{path}' line {number} does not follow from the line before it")
        found.append(hashlib.sha256(line.encode()).hexdigest())
    return found


def describe_payload(payload: Payload) -> Mapping[str, Any]:
    """Names, shapes and norms of what was sent; no values."""
    return {
        key: {
            "tensors": {name: list(t.shape) for name, t in bundle.items()},
            "norm": tree.norm({n: t.double() for n, t in bundle.items()}),
        }
        for key, bundle in payload.items()
    }


def name_run(run: str) -> str:
    """A run as the books call it: its name is the coordinator's, and may be of any length."""
    return hashlib.sha256(run.encode()).hexdigest()[:16]


def place_of(task: Task) -> str:
    """Where in a run a task stands, whatever the weights."""
    return f"{task.trial} {task.kind} {task.round}"


REPEATS = 3  # other weights for one round: a coordinator that lost its last journal entries asks so
DAY = 86_400.0  # seconds over which questions are counted, whatever the runs are called


class Questions:
    """Chained lines; what is older than a day and of other runs is left out when it is read."""

    def __init__(self, log: AuditLog, run: str, clock: Callable[[], float] = time.time) -> None:
        self._log, self._clock = log, clock
        self._run = name_run(run)
        self._asked: dict[str, set[str]] = {}  # place -> questions of this run
        self._times: list[float] = []
        self._read()

    def allow(self, task: Task, terms: str, *, most: int) -> None:
        """Write a question down, or refuse it; the very same one again is none.

        Under other terms it is another one: of them the scaling is not agreed to beforehand.
        """
        place = place_of(task)
        name = hashlib.sha256(f"{digest(task)} {terms}".encode()).hexdigest()[:32]
        known = self._asked.setdefault(place, set())
        if name in known:
            return
        if len(known) >= REPEATS:
            raise Refusal(
                f"'{task.kind}' of round {task.round} was answered for {len(known)} other models "
                "already"
            )
        now = self._clock()
        self._times = [t for t in self._times if t > now - DAY]
        if len(self._times) >= most:
            raise Refusal(f"policy: at most {most} questions a day, that many were answered")
        self._log.write(at=now, run=self._run, place=place, question=name)
        known.add(name)
        self._times.append(now)

    def _read(self) -> None:
        now = self._clock()
        for line in self._log.lines():
            if "place" not in line:  # of `SumLedger`
                continue
            if line["at"] > now - DAY:
                self._times.append(line["at"])
            if line["run"] == self._run:
                self._asked.setdefault(line["place"], set()).add(line["question"])


class HeldReceipts:
    """One small file at the site, by the names of keys.

    Of its own books a site believes what it has signed itself: a coordinator that claims more lines
    than there are could lock it out.
    """

    def __init__(self, folder: Path, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._path, self._own, self._key = folder / RECEIPTS, name_key(key), key
        self._clock = clock
        self._kept: dict[str, str] = {}
        self._at = 0.0  # when the newest roll was signed
        self._last = ""  # what was told last
        self._said: set[str] = set()
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._path.read_text(encoding="utf-8"))
            self._kept, self._at = dict(found["books"]), float(found["at"])
        if self._at > clock() + _AHEAD:  # else none would ever be newer
            self._at = 0.0

    def take(self, told: str, authorities: bytes) -> list[str]:
        """Take over a roll; in words, once each, where it is behind what was held already."""
        if not told or told == self._last:
            return []
        at, roll = read_roll(told, authorities)
        self._last = told
        if not at <= self._clock() + _AHEAD:
            raise FedloreError(
                f"the receipt that came with a task is of {at - self._clock():.0f} s from now: is "
                "the clock of this site or the coordinator's wrong?"
            )
        if at < self._at:  # of a task that was overtaken on its way
            return []
        self._at = at
        behind = {name: "are not in it any more" for name in self._kept.keys() - roll.keys()}
        for name, text in roll.items():
            now, before = SiteBooks.read(text), SiteBooks.read(self._kept.get(name, ""))
            back = "" if now is None or before is None else now.behind(before)
            if now is not None and name == self._own and not now.signed_by(self._key):
                behind[name] = "are not as this site has signed them: not believed"
            elif back:
                behind[name] = f"went back: {back}"
            elif now is not None:
                self._kept[name] = text
        with suppress(OSError):  # on a full disk the audit log cannot be written either
            text = json.dumps({"at": at, "books": self._kept}, indent=0)
            write_whole(self._path, text, sync=False, private=True)
        titles = {self._own: "this site"}
        found = [f"the books of {titles.get(n, f'site {n}')} {why}" for n, why in behind.items()]
        new = [line for line in found if line not in self._said]
        self._said |= set(new)
        return new

    def missing(self, hashes: Mapping[str, Sequence[str]]) -> str:
        """Which of its own books no longer holds what was told of it; empty where all do."""
        held = SiteBooks.read(self._kept.get(self._own, ""))
        believed = held is not None and held.signed_by(self._key)
        return held.missing_in(hashes) if held is not None and believed else ""
