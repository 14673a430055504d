"""Over whom this site's quantities were summed, for as long as its rows last.

Who reads a quantity summed over some sites and then, of the same quantity, the sum over all but one
of them, has that one's. So a quantity is known by what was sent to compute it (`name_quantity`), in
whichever run, trial or round that was, and one that was opened is opened again for the same sites
alone. Each site that keeps to this is in one sum of a quantity at most, so that no two such sums
have a site in common, and no combination of them tells of fewer sites than one of them. Nothing
weaker will do, since a site knows no sums that it took no part in: neither a nor c sees anything in
a + b + c + e beside the one of a + b + d and c + d + e that it was in, and all three tell d.

Rounds that follow each other are different quantities that are nearly the same. Whoever drops out
between two of them is told roughly, unless the sites have it that a training sums over one cohort.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ...core.store import write_whole
from ...core.wire import NOISED, Task, name_quantity
from ...privacy.filters import WITHHELD
from ..remote import Refusal
from .audit import AuditLog, name_run, place_of

RENEWED = 1 / 3  # share of its rows that must be others before they count as other data
REMEDY = "ask the same sites again, go on without it, or train from another start"


@dataclass(frozen=True)
class DataVersion:
    """A site's rows as sums are counted: some changed rows make no other data of them."""

    name: str  # of the rows that the version began with
    rows: str  # of those that there are now

    @staticmethod
    def of(path: Path, x: Tensor, y: Tensor | None) -> "DataVersion":
        """The version that rows belong to, from the list of those that there were."""
        now = sorted(_row_hashes(x, y))
        exact = hashlib.sha256(json.dumps(now).encode()).hexdigest()[:32]
        known: dict[str, list[str]] = {}
        with suppress(OSError, ValueError):
            known = dict(json.loads(path.read_text(encoding="utf-8")))
        for name, before in known.items():
            shared = (Counter(before) & Counter(now)).total()
            if shared > (1 - RENEWED) * max(len(before), len(now)):
                return DataVersion(name, exact)
        write_whole(path, json.dumps(known | {exact: now}), private=True)
        return DataVersion(exact, exact)

    def began(self, path: Path, run: str) -> bool:
        """Whether a run began with these very rows; the first that it meets are written down."""
        with suppress(OSError, ValueError):
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["run"] == run:
                return bool(found["rows"] == self.rows)
        write_whole(path, json.dumps({"run": run, "rows": self.rows}), private=True)
        return True


def _row_hashes(x: Tensor, y: Tensor | None) -> Iterator[str]:
    labels: Sequence[object] = [None] * len(x) if y is None else y.tolist()
    for row, label in zip(x.flatten(1).double().cpu().numpy(), labels, strict=True):
        yield hashlib.sha256(row.tobytes() + repr(label).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Sum:
    run: str
    place: str
    content: str
    rows: str
    of: frozenset[str]


def _is_trained(place: str) -> bool:
    """Whether a sum is of models in training, not of rows alone: a trial's, or the only one's."""
    trial, kind, _ = place.split(" ")
    return bool(trial) or kind == "train"


class SumLedger:
    """The sums that this site's answers were read in: chained lines, of the data that it has."""

    def __init__(
        self,
        log: AuditLog,
        run: str,
        data: DataVersion,
        *,
        noised: bool = False,  # a budget is spent on each answer anew, whoever is in its sum
        steady: bool = False,  # all that one run trains is summed over the same sites
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._log, self._run, self._data = log, name_run(run), data
        self._noised, self._steady, self._clock = noised, steady, clock
        self._sums = [
            _Sum(line["run"], line["sum"], line["what"], line["rows"], frozenset(line["of"]))
            for line in log.lines()
            if "sum" in line and line["data"] == data.name
        ]

    def open(self, task: Task, survivors: Collection[str]) -> None:
        """Write down whose sum of an answer is read, or refuse it."""
        content, place = name_quantity(task), place_of(task)
        found = _Sum(self._run, place, content, self._data.rows, frozenset(survivors))
        if found in self._sums:
            return
        fresh = self._noised and task.kind in NOISED
        same = [s for s in self._sums if s.content == content and not fresh]
        # next to the same weights give next to the same uploads, so a round counts as well
        same += [s for s in self._sums if (s.run, s.place) == (self._run, place)]
        if self._steady and _is_trained(place):
            same += [s for s in self._sums if s.run == self._run and _is_trained(s.place)]
        self._refuse_other_sites([s.of for s in same], found.of)
        if any(s.rows != found.rows for s in same):
            raise Refusal(
                f"{WITHHELD}this site's rows have changed since '{task.kind}' was summed, by too "
                f"few to hide them ({REMEDY})"
            )
        self._log.write(
            at=self._clock(),
            run=self._run,
            sum=place,
            what=content,
            of=sorted(found.of),
            data=self._data.name,
            rows=found.rows,
        )
        self._sums.append(found)

    def _refuse_other_sites(self, before: Sequence[frozenset[str]], now: frozenset[str]) -> None:
        others = [of for of in before if of != now]
        if not others:
            return
        raise Refusal(
            f"{WITHHELD}the same was summed over {len(others[0])} other sites already, and beside "
            f"a sum over these {len(now)} it would tell single uploads ({REMEDY})"
        )
