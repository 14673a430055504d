"""Where a training stands and which sites are here, in small files that can be read at any time.

The gate writes once a second which sites have a connection: a site that dies hangs up, a slow one
keeps beating.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...core.history import Row
from ...core.store import write_whole
from ...core.wire import Task
from ...engine import Run
from ...errors import FedloreError
from ..remote import BEAT, Notice

COUNTED = ("reply", "rejected", "refused", "failed", "late", "silent")
FEW = 20  # sites of which every answer is written down at once
PAUSE = 0.002  # seconds for each site, if there are more, until what has come is written together
ROUNDS_FILE = "rounds.jsonl"  # a line for each round that was merged


class Status:
    """status.json of a coordinator's folder, written whole each time.

    With many sites what each answers is written together with what comes shortly after.
    """

    def __init__(self, path: Path, sites: list[str], *, run: str, rounds: int) -> None:
        self._path, self._bytes = path, 0
        zero = dict.fromkeys(COUNTED, 0)
        self._sites: dict[str, dict[str, Any]] = {
            name: {"counts": dict(zero), "round": 0, "bytes": 0, "note": "", "last": ""}
            for name in sites
        }
        self._facts: dict[str, Any] = {"run": run, "rounds": rounds, "round": 0, "state": "running"}
        # whoever reads this can tell a training that was killed from one that goes on
        self._facts |= {"pid": os.getpid(), "host": socket.gethostname()}
        self._lock = threading.RLock()
        self._pause = PAUSE * len(sites) if len(sites) > FEW else 0.0
        self._later: threading.Timer | None = None  # writes what has not been written yet

    def ask(self, sites: Sequence[str], task: Task) -> None:
        """Take note of whom a task was sent to."""
        asked = {"kind": task.kind, "round": task.round, "at": time.time()}
        with self._lock:
            for name in sites:
                self._sites[name] |= {"last": "asked", "asked": asked}
        self.write()

    def notice(self, notice: Notice) -> None:
        """Take note of what came back, or did not."""
        with self._lock:
            site = self._sites[notice.site]
            site["counts"][notice.what] += 1
            site["bytes"] += notice.size
            self._bytes += notice.size
            if notice.what != "late":  # such an answer is about what was asked before
                site |= {"last": notice.what, "at": time.time()}
            if notice.what == "reply":
                site |= {"round": notice.round, "seconds": round(notice.seconds, 3)}
            elif notice.detail:
                detail = notice.detail.partition("\n")[0]
                site["note"] = f"round {notice.round}: {notice.what}: {detail}"
            if self._pause and self._later is None:
                self._later = threading.Timer(self._pause, self.write)
                self._later.daemon = True
                self._later.start()
        if not self._pause:
            self.write()

    def add_round(self, run: Run, seconds: float, *, trial: str = "") -> None:
        """Take note of a round: who took part, how long it took, how much came in."""
        row = next((dict(r) for r in reversed(run.rows) if "merged" in r), {})
        row |= {"round": run.round, "seconds": round(seconds, 3), "bytes": self._bytes}
        row |= {"at": time.time(), "run": self._facts["run"]} | ({"trial": trial} if trial else {})
        self._bytes, path = 0, self._path.with_name(ROUNDS_FILE)
        with suppress(OSError):  # as below
            same = any(before["run"] == row["run"] for before in read_rounds(path.parent, most=1))
            with open(path, "a" if same else "w", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def write(self, **facts: Any) -> None:
        with self._lock, suppress(OSError):  # a full disk is the journal's to report
            self._later = None  # one that was to come finds nothing new
            self._facts |= facts | {"time": time.time()}
            text = json.dumps(self._facts | {"sites": self._sites}, indent=1)
            # without sync: written at every answer, and the journal is what must last
            write_whole(self._path, text, sync=False)


def read_status(folder: Path) -> Mapping[str, Any]:
    """What the last training in a folder said."""
    path = folder / "status.json"
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FedloreError(f"nothing has been trained in '{folder}' yet") from None
    return found


def read_rounds(folder: Path, most: int = 1000) -> list[dict[str, Any]]:
    """The last rounds of the last training; a line that a crash cut off is left out."""
    path, found = folder / ROUNDS_FILE, []
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines[-most:]:
        with suppress(ValueError):
            found.append(dict(json.loads(line)))
    return found


def last_scores(rows: list[Row]) -> list[Row]:
    """The last score of each site."""
    found = {str(row["client"]): row for row in rows if "client" in row}
    return [found[name] for name in sorted(found)]


EVERY = 1.0  # seconds between two writings
STALE = 5.0  # seconds after which nobody writes any more
GONE = 2.0  # seconds without any connection: one that is replaced is so at once
COPIED = 600.0  # seconds for which a site that spoke from two places is shown as such
PRESENCE_FILE = "presence.json"


@dataclass
class Sighting:
    """One site at the gate, since the server started."""

    heard: float = 0.0  # when it last signed a request, 0: never
    lines: int = 0  # connections on which it has signed
    alone: float = 0.0  # since when there is none
    left: bool = False  # it has said goodbye
    requests: int = 0
    received: int = 0  # bytes of bodies
    sent: int = 0
    copied: float = 0.0  # when two starts of it last spoke in turn, 0: never

    def here(self, now: float) -> str:
        """here, copied, left, lost, or absent where it has not come yet."""
        if not self.heard:
            return "absent"
        if self.left:
            return "left"
        gone = not self.lines and now - self.alone > GONE
        # signs of life come twice within a beat, from a thread that no training holds up
        if gone or now - self.heard > BEAT:
            return "lost"
        return "copied" if self.copied and now - self.copied < COPIED else "here"


@dataclass
class Presence:
    """All sites at the gate."""

    clock: Callable[[], float] = time.time
    sites: dict[str, Sighting] = field(default_factory=dict)
    refused: int = 0  # requests that went no further
    _lines: dict[int, str] = field(default_factory=dict)  # connection -> site

    def connect(self, number: int, site: str) -> None:
        """A site has signed on a connection."""
        self._lines[number] = site
        self.sites.setdefault(site, Sighting()).lines += 1

    def disconnect(self, number: int) -> None:
        """A connection is over."""
        site = self._lines.pop(number, None)
        if site is not None:
            seen = self.sites[site]
            seen.lines, seen.alone = seen.lines - 1, self.clock()

    def hear(self, site: str, *, leaving: bool = False, twice: bool = False) -> None:
        """A site has signed a request; `twice` where another of its name does so in turn."""
        seen = self.sites.setdefault(site, Sighting())
        seen.heard, seen.left = self.clock(), leaving
        seen.copied = self.clock() if twice else seen.copied
        seen.requests += 1

    def carry(self, site: str, received: int, sent: int) -> None:
        """A request was answered."""
        seen = self.sites.setdefault(site, Sighting())
        seen.received += received
        seen.sent += sent

    def write(self, path: Path, *, ready: bool) -> None:
        """For other processes of this machine; `ready` where the server behind the gate is up."""
        told = {"time": self.clock(), "ready": ready, "refused": self.refused}
        text = json.dumps(told | {"sites": {name: asdict(one) for name, one in self.sites.items()}})
        with suppress(OSError):  # a full disk is the journal's to report
            write_whole(path, text, sync=False)


def read_presence(folder: Path, now: float) -> tuple[str, dict[str, Sighting], dict[str, Any]]:
    """What the server is (up, starting or down), whom it sees, and the numbers of its gate."""
    try:
        told = json.loads((folder / PRESENCE_FILE).read_text(encoding="utf-8"))
        sites = {str(name): Sighting(**values) for name, values in told.pop("sites").items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "down", {}, {}
    if abs(now - told["time"]) > STALE:  # of another time, whichever way the clock was set
        return "down", sites, told
    return "up" if told["ready"] else "starting", sites, told


@dataclass(frozen=True)
class Reports:
    """Whom to tell what happens."""

    line: Callable[[str], None] = lambda text: None
    notice: Callable[[Notice], None] = lambda notice: None
    round: Callable[[Run, float], None] = lambda run, seconds: None
    stop: threading.Event | None = None  # looked at while waiting: an interrupt may be lost


def line_reports(
    rounds: int,
    say: Callable[[str], None],
    *,
    times: bool = True,  # whether a round's line has the last answer's time of each site
    stop: threading.Event | None = None,
) -> Reports:
    """A line for each round, and for every site in trouble."""
    answers: dict[str, float] = {}  # the last of each site: lore has many trainings to a line

    def notice(found: Notice) -> None:
        if found.what != "reply":
            reason = f": {found.detail}" if found.detail else ""
            say(f"  {found.site}: {found.kind} of round {found.round} {found.what}{reason}")
        elif found.kind == "train" and times:
            answers[found.site] = found.seconds

    def round(run: Run, seconds: float) -> None:
        row = next(r for r in reversed(run.rows) if "merged" in r)
        each = ", ".join(f"{site} {took:.1f} s" for site, took in sorted(answers.items()))
        answers.clear()
        merged = f"{row['merged']} of {row['asked']} sites merged in {seconds:.1f} s"
        say(f"round {run.round}/{rounds}: {merged}{f' ({each})' if each else ''}")

    return Reports(say, notice, round, stop)


def score_text(value: object) -> str:
    """A score with four digits; what is none as it stands."""
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)
