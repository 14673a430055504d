"""Which questions a site has answered, and whose sums it has helped to read; on its own disk.

A coordinator that asks for the same round with ever other weights learns more than was agreed to.
One that reads the sum of some sites and then, in the same round, the sum of all but one of them has
that one's upload: so what was opened once is opened again for the same sites alone.
"""

import hashlib
import time
from collections.abc import Callable, Sequence

from ...core.wire import Task, digest
from ..remote import Refusal
from .audit import AuditLog

REPEATS = 3  # other weights for one round: a coordinator that lost its last journal entries asks so
DAY = 86_400.0  # seconds over which questions are counted, whatever the runs are called


class Questions:
    """Chained lines; what is older than a day and of other runs is left out when it is read."""

    def __init__(self, log: AuditLog, run: str, clock: Callable[[], float] = time.time) -> None:
        self._log, self._clock = log, clock
        self._run = hashlib.sha256(run.encode()).hexdigest()[:16]
        self._asked: dict[str, set[str]] = {}  # place -> questions of this run
        self._opened: dict[str, tuple[str, ...]] = {}  # place -> whose sum was read
        self._times: list[float] = []
        self._read()

    def allow(self, task: Task, terms: str, *, most: int) -> None:
        """Write a question down, or refuse it; the very same one again is none.

        Under other terms it is another one: of them the scaling is not agreed to beforehand.
        """
        place = f"{task.trial} {task.kind} {task.round}"
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

    def open_sum(self, summed: str, survivors: Sequence[str]) -> None:
        """Write down whose sum is read of an answer; another sum of the same one is refused."""
        those = tuple(sorted(survivors))
        before = self._opened.get(summed)
        if before is None:
            self._log.write(at=self._clock(), run=self._run, sum=summed, of=those)
            self._opened[summed] = those
        elif before != those:
            raise Refusal(
                f"a sum over {len(before)} sites was opened in this round already: beside one over "
                f"{len(those)} others it would tell single uploads"
            )

    def _read(self) -> None:
        now = self._clock()
        for line in self._log.lines():
            if "place" in line and line["at"] > now - DAY:
                self._times.append(line["at"])
            if line["run"] != self._run:
                continue
            if "place" in line:
                self._asked.setdefault(line["place"], set()).add(line["question"])
            else:
                self._opened[line["sum"]] = tuple(line["of"])


def name_sum(task: Task) -> str:
    """The round of a training whose answers are summed, whatever the weights.

    They are no part of it: next to the same weights give next to the same uploads, and two sums
    over different sites would tell next to single ones.
    """
    return f"{task.trial} {task.kind} {task.round}"
