"""Which questions a site has answered, and whose sums it has helped to read; on its own disk.

A coordinator that asks for the same round with ever other weights learns more than was agreed to.
One that reads the sum of some sites and then, for the same weights, the sum of all but one of them
has that one's upload: so what was opened once is opened again for the same sites alone.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ...core.wire import Task, digest
from ..remote import Refusal

REPEATS = 3  # other weights for one round: a coordinator that lost its last journal entries asks so
DAY = 86_400.0  # seconds over which questions are counted, whatever the runs are called


class Questions:
    """Lines on a file; what is older than a day and of other runs is left out when it is read."""

    def __init__(self, path: Path, run: str, clock: Callable[[], float] = time.time) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._clock = path, clock
        self._run = hashlib.sha256(run.encode()).hexdigest()[:16]
        self._asked: dict[str, set[str]] = {}  # place -> questions of this run
        self._opened: dict[str, tuple[str, ...]] = {}  # weights -> whose sum was read
        self._times: list[float] = []
        self._read()

    def allow(self, task: Task, *, most: int) -> None:
        """Write a question down, or refuse it; the very same one again is none."""
        place = f"{task.trial} {task.kind} {task.round}"
        name = digest(task)[:32]
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
        self._write({"at": now, "run": self._run, "place": place, "question": name})
        known.add(name)
        self._times.append(now)

    def open_sum(self, summed: str, survivors: Sequence[str]) -> None:
        """Write down whose sum is read of an answer; another sum of the same one is refused."""
        those = tuple(sorted(survivors))
        before = self._opened.get(summed)
        if before is None:
            self._write({"at": self._clock(), "run": self._run, "sum": summed, "of": those})
            self._opened[summed] = those
        elif before != those:
            raise Refusal(
                f"a sum over {len(before)} sites was opened for this question already: beside one "
                f"over {len(those)} others it would tell single uploads"
            )

    def _read(self) -> None:
        now = self._clock()
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        for text in lines:
            try:
                line = json.loads(text)
            except ValueError:  # a crash cut it off: what it was about never left
                continue
            if "place" in line and line["at"] > now - DAY:
                self._times.append(line["at"])
            if line["run"] != self._run:
                continue
            if "place" in line:
                self._asked.setdefault(line["place"], set()).add(line["question"])
            else:
                self._opened[line["sum"]] = tuple(line["of"])

    def _write(self, line: dict[str, object]) -> None:
        """On the disk before anything leaves that it is about."""
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(handle, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def name_sum(task: Task) -> str:
    """The question whose answers are summed: the same weights in the same round of a training."""
    return f"{task.trial} {task.kind} {task.round} {digest(task.sent)[:32]}"
