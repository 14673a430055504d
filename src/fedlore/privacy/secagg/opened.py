"""Over whom the sum of each round was asked for: sites open no other one beside it.

A site that has given its shares for one list of survivors gives none for another in that round.
Were half of the sites asked for one list and the others for the next, neither could ever be opened.
So the coordinator writes down whom it asks, before it does, and asks for no other after a crash.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...core.store import write_whole
from ...core.wire import Task


class OpenedSums:
    """One small file at the coordinator, about one training."""

    def __init__(self, path: Path, run: str) -> None:
        self._path, self._run = path, run
        self._of: dict[str, list[str]] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_text(encoding="utf-8"))
            self._of = dict(found["of"]) if found["run"] == run else {}

    def before(self, task: Task) -> Sequence[str]:
        """The survivors that were asked for already, nobody where none were."""
        return self._of.get(_place(task), ())

    def note(self, task: Task, survivors: Sequence[str]) -> None:
        """Write down whose sum is asked for now."""
        self._of[_place(task)] = sorted(survivors)
        write_whole(self._path, json.dumps({"run": self._run, "of": self._of}))


def _place(task: Task) -> str:
    return f"{task.trial} {task.kind} {task.round}"
