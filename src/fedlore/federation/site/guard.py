"""A site's halves of the filters that the terms ask for."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from ...core.store import pack_payload, unpack_payload
from ...core.wire import SUMMED, TASK_KINDS, Reply, Task, longest
from ...engine import Recipe
from ...errors import FedloreError
from ...privacy.filters import Remembers, apply_halves, half_for
from ...privacy.settings import ADDED
from ..norms import UsualNorm
from ..remote import Refusal
from ..terms import Terms
from .folder import Kit
from .sums import SumLedger


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
