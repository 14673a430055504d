"""Where a training stands, in one small file that can be read at any time."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...core.store import write_whole
from ...errors import FedloreError
from ..remote import Notice

COUNTED = ("reply", "rejected", "refused", "failed", "late", "silent")


class Status:
    """status.json of a coordinator's folder, written whole each time."""

    def __init__(self, path: Path, sites: list[str], *, run: str, rounds: int) -> None:
        self._path = path
        zero = dict.fromkeys(COUNTED, 0)
        self._sites: dict[str, dict[str, Any]] = {
            name: {"counts": dict(zero), "round": 0, "bytes": 0, "note": ""} for name in sites
        }
        self._facts: dict[str, Any] = {"run": run, "rounds": rounds, "round": 0, "state": "running"}

    def notice(self, notice: Notice) -> None:
        site = self._sites[notice.site]
        site["counts"][notice.what] += 1
        site["bytes"] += notice.size
        if notice.what == "reply":
            site |= {"round": notice.round, "seconds": round(notice.seconds, 3)}
        elif notice.detail:
            site["note"] = f"round {notice.round}: {notice.what}: {notice.detail}"
        self.write()

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
        found: Mapping[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise FedloreError(f"nothing has been trained in '{folder}' yet") from None
    return found
