"""Which sites are here, as the gate sees it: who dies hangs up, who is slow goes on beating.

Each second the gate writes it to a small file, from which `fedlore status` and the page read it.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...core.store import write_whole
from ..node import BEAT

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
