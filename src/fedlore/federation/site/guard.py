"""A site's halves of the filters that the terms ask for, and over whom it was summed.

What `SumLedger` keeps holds for as long as the site's rows last.

Who reads a quantity summed over some sites and then, of the same quantity, the sum over all but one
of them, has that one's. So a quantity is known by what was sent to compute it (`name_quantity`), in
whichever run, trial or round that was, and one that was opened is opened again for the same sites
alone. Each site that keeps to this helps to open one sum of a quantity at most, so that no
combination of them tells of fewer sites than open one: it need not hear of sums that it took no
part in (docs/explain/privacy.md has the proof). Nothing weaker will do: neither a nor c sees
anything in a + b + c + e beside the one of a + b + d and c + d + e that it was in, and all three
tell d.

Rounds that follow each other are different quantities that are nearly the same. Whoever drops out
between two of them is told roughly, unless the sites have it that a training sums over one cohort.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ...core.store import pack_payload, unpack_payload, write_whole
from ...core.wire import NOISED, SUMMED, TASK_KINDS, Reply, Task, longest, name_quantity
from ...engine import Recipe
from ...errors import FedloreError
from ...privacy.filters import WITHHELD, Remembers, apply_halves, half_for
from ...privacy.settings import ADDED
from ..norms import UsualNorm
from ..remote import Refusal
from ..terms import Terms
from .audit import AuditLog, name_run, place_of
from .folder import Kit

RENEWED, FEWEST = 1 / 3, 10  # rows that must be others before they count as other data
REMEDY = "ask the same sites again, go on without it, or train from another start"


@dataclass(frozen=True)
class DataVersion:
    """A site's rows as sums are counted: some changed rows make no other data of them.

    They are compared with those of every sum, not with those that some version began with: two data
    that lie on either side of a border may differ by a single row.
    """

    rows: str  # a hash of them
    far: frozenset[str] = frozenset()  # hashes of rows summed before that are other data

    @staticmethod
    def of(path: Path, x: Tensor, y: Tensor | None, summed: Collection[str] = ()) -> "DataVersion":
        """These rows beside those that were summed; what is known of none of them counts as near.

        So a site that has lost the list refuses more, not less.
        """
        now = sorted(_row_hashes(x, y))
        exact = hashlib.sha256(json.dumps(now).encode()).hexdigest()[:32]
        known: dict[str, list[str]] = {}
        with suppress(OSError, ValueError):
            known = dict(json.loads(path.read_text(encoding="utf-8")))
        if exact not in known:
            known = {name: rows for name, rows in known.items() if name in summed} | {exact: now}
            write_whole(path, json.dumps(known), private=True)
        return DataVersion(exact, frozenset(n for n, rows in known.items() if _differ(rows, now)))

    def began(self, path: Path, run: str) -> bool:
        """Whether a run began with these very rows; the first that it meets are written down."""
        with suppress(OSError, ValueError):
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["run"] == run:
                return bool(found["rows"] == self.rows)
        write_whole(path, json.dumps({"run": run, "rows": self.rows}), private=True)
        return True


def _differ(before: Sequence[str], now: Sequence[str]) -> bool:
    """Whether so many rows are others that a difference of sums is about no few of them."""
    most = max(len(before), len(now))
    changed = most - (Counter(before) & Counter(now)).total()
    return changed >= max(RENEWED * most, FEWEST)


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
    of: frozenset[str]  # nobody: it left this site, and whose sum was read is not known


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
            if "sum" in line and line["rows"] not in data.far
        ]

    def begin(self, task: Task) -> None:
        """Refuse to put into a sum what other rows gave before, but for a few.

        Before anything leaves: the others could open that sum without this site. Of what the rows
        alone decide it is written down at once, since whose sum was read may never be heard here.
        """
        alike, sent = self._alike(task), self._sum(task, ())
        if any(s.rows != sent.rows for s in alike):
            raise Refusal(
                f"{WITHHELD}this site's rows have changed since '{task.kind}' was summed, by too "
                f"few to hide them ({REMEDY})"
            )
        if not alike and not _is_trained(sent.place):
            self._write(sent)

    def open(self, task: Task, survivors: Collection[str]) -> None:
        """Write down whose sum of an answer is read, or refuse it."""
        found = self._sum(task, survivors)
        if found in self._sums:
            return
        self._refuse_other_sites([s.of for s in self._alike(task) if s.of], found.of)
        self._write(found)

    def _sum(self, task: Task, survivors: Collection[str]) -> _Sum:
        content, place = name_quantity(task), place_of(task)
        return _Sum(self._run, place, content, self._data.rows, frozenset(survivors))

    def _write(self, found: _Sum) -> None:
        self._log.write(
            at=self._clock(),
            run=found.run,
            sum=found.place,
            what=found.content,
            of=sorted(found.of),
            rows=found.rows,
        )
        self._sums.append(found)

    def _alike(self, task: Task) -> list[_Sum]:
        """The sums of the same, or of next to the same."""
        content, place = name_quantity(task), place_of(task)
        fresh = self._noised and task.kind in NOISED
        same = [s for s in self._sums if s.content == content and not fresh]
        # next to the same weights give next to the same uploads, so a round counts as well
        same += [s for s in self._sums if (s.run, s.place) == (self._run, place)]
        if self._steady and _is_trained(place):
            same += [s for s in self._sums if s.run == self._run and _is_trained(s.place)]
        return same

    def _refuse_other_sites(self, before: Sequence[frozenset[str]], now: frozenset[str]) -> None:
        others = [of for of in before if of != now]
        if not others:
            return
        raise Refusal(
            f"{WITHHELD}the same was summed over {len(others[0])} other sites already, and beside "
            f"a sum over these {len(now)} it would tell single uploads ({REMEDY})"
        )


class Guard:
    """What stands between this site's answers and the coordinator.

    Noise is drawn once for an answer and kept with it. What hides the answer comes afterwards, anew
    each time it is sent.
    """

    def __init__(self, kit: Kit, terms: Terms, recipe: Recipe, sums: SumLedger) -> None:
        name = kit.file.name
        self._sums, self._summing = sums, Task("", 0)
        self._usual = UsualNorm(terms.excess)
        self._terms, self._policy = terms, kit.file.policy
        with refusing():
            filters = terms.filters(recipe, kit.place(terms.run))
            self._noising = [f.site(name) for f in filters if not f.hides]
            self._hiding = [f.site(name) for f in filters if f.hides]

    def remember(self) -> dict[str, bytes]:
        """What must be known when the next task comes, where this process ends before."""
        summing = {k: getattr(self._summing, k) for k in ("kind", "round", "trial")}
        found = {"summing": pack_payload(self._summing.sent, summing)}
        return found | {name: half.remember() for name, half in self._remembering().items()}

    def recall(self, kept: Mapping[str, bytes]) -> None:
        """Go on with what `remember` gave."""
        about, sent = unpack_payload(kept["summing"])
        self._summing = Task(about["kind"], about["round"], sent, trial=about["trial"])
        for name, half in self._remembering().items():
            if name in kept:
                half.recall(kept[name])

    def _remembering(self) -> dict[str, Remembers]:
        halves = enumerate([*self._noising, *self._hiding])
        return {str(number): half for number, half in halves if isinstance(half, Remembers)}

    def answer(self, task: Task) -> Reply | None:
        """The answer to a task of a filter's own, None for those of the client."""
        half = half_for([*self._noising, *self._hiding], task)
        if half is None:
            if task.kind in ADDED:
                raise Refusal(f"'{task.kind}' belongs to a defence that these terms do not have")
            if task.kind not in TASK_KINDS:
                raise Refusal(f"unknown task '{task.kind}'")
            return None
        with refusing():
            read = half.summed(task)
            if read is not None:
                left, own = len(set(read)), self._policy.min_participants
                if left < own:
                    raise Refusal(f"policy: at least {own} participants, {left} are left")
                if left < self._terms.least:  # this site's share of the noise counts on so many
                    raise Refusal(
                        f"the terms need {self._terms.least} answers in a round, {left} are left"
                    )
            reply = half.answer(task)
            if read is not None:  # on the disk before this site's share of the sum leaves it
                self._sums.open(self._summing, read)
            return reply

    def summed(self, task: Task) -> Sequence[str] | None:
        """Whose sum the coordinator reads with the answer to this task, None where it reads none.

        A task that does not say it is refused when it is answered.
        """
        half = half_for([*self._noising, *self._hiding], task)
        with suppress(FedloreError):
            return None if half is None else half.summed(task)
        return None

    def kept(self, task: Task, reply: Reply) -> Reply:
        """The answer as it is written down: with its noise, within the agreed bound."""
        with refusing():
            reply = apply_halves(self._noising, task, reply)
        if self._hiding and task.kind == "train":
            self._bound(task, longest(reply.upload))
        return reply

    def _bound(self, task: Task, norm: float) -> None:
        """Refuse what the coordinator could not see: an upload beyond what was agreed on."""
        largest, limit = self._terms.largest, self._usual.limit(task.trial)
        if norm > largest:
            raise Refusal(f"this site's upload is longer than the agreed {largest:g} (largest)")
        if norm > limit:
            raise Refusal(f"this site's upload: {self._usual.describe(norm, limit)}")
        self._usual.add(task.trial, [norm])

    def hidden(self, task: Task, reply: Reply) -> Reply:
        """The answer as it leaves; the task is as it came, with what the filters add to it."""
        with refusing():
            filtered = bool(self._noising or self._hiding)
            if self._hiding and task.kind in SUMMED:
                self._sums.begin(task)
            hidden = apply_halves(self._hiding, task, reply, hides=filtered)
        if task.kind in SUMMED:  # only now: what is refused does not take the place of a sum
            self._summing = task.question()
        return hidden


@contextmanager
def refusing() -> Iterator[None]:
    """What the filters say names nothing that is private, so it may leave the site."""
    try:
        yield
    except Refusal:
        raise
    except FedloreError as error:
        raise Refusal(str(error)) from error
