"""Where a training stands, in small files that can be read at any time."""

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...core.history import Row
from ...core.store import write_whole
from ...core.wire import Task
from ...engine import Run
from ...errors import FedloreError
from ..remote import Notice

COUNTED = ("reply", "rejected", "refused", "failed", "late", "silent")
ROUNDS_FILE = "rounds.jsonl"  # a line for each round that was merged


class Status:
    """status.json of a coordinator's folder, written whole each time."""

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

    def ask(self, sites: Sequence[str], task: Task) -> None:
        """Take note of whom a task was sent to."""
        asked = {"kind": task.kind, "round": task.round, "at": time.time()}
        for name in sites:
            self._sites[name] |= {"last": "asked", "asked": asked}
        self.write()

    def notice(self, notice: Notice) -> None:
        """Take note of what came back, or did not."""
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
        self._facts |= facts | {"time": time.time()}
        text = json.dumps(self._facts | {"sites": self._sites}, indent=1)
        with suppress(OSError):  # a full disk is the journal's to report
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
