"""A site at work: policy first, then the same `answer` as in every engine, then the books."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from ...algorithms import FlatParams
from ...answers.measured import Measured
from ...core.examples import Examples
from ...core.tree import Payload
from ...core.wire import SUMMED, TASK_KINDS, TRAININGS, Reply, Task, digest, find_flaw
from ...engine import Client, Recipe, Site, answer, ready
from ...engine.client import check_shapes
from ...engine.loop import own_params, recall
from ...errors import FedloreError
from ...models.tasks import Classification
from ...privacy.settings import read_marks
from ..journal import write_state
from ..kits.certificates import raw_key, read_public_key, read_site_key
from ..kits.receipts import SiteBooks
from ..processes import cut_after
from ..remote import Refusal, plain_text
from ..terms import Terms, describe_difference, fedlore_version, read_terms, version_of_terms
from .audit import AuditLog, HeldReceipts, Questions, describe_payload
from .consent import keep_offer, refuse_breach, refuse_other_terms
from .folder import Kit, Store
from .guard import DataVersion, Guard, SumLedger
from .lore import PERSONAL, LoreSite

_log = logging.getLogger("fedlore.site")
_VAIN = 1000  # refusals in a row after which a site takes its time


class Part(Protocol):
    """A site's rows made ready for terms: for their one recipe, or for a choice."""

    def setup(self, trial: str) -> tuple[Site, Recipe, FlatParams]:
        """What trains and scores in one of the trainings."""

    def answer(self, task: Task) -> Reply | None:
        """The reply to a task about the choice, None for those that every engine answers."""

    def done(self, task: Task, memory: Payload) -> None:
        """A task was answered that left this behind."""


class PlainSite:
    """A site under terms with one recipe; it keeps the weights that it was last scored with."""

    def __init__(self, kit: Kit, terms: Terms, text: str, client: Client, recipe: Recipe) -> None:
        self._kit, self._run, self._text, self._recipe = kit, terms.run, text, recipe
        self._setup = (ready(client, recipe.model, recipe.scaler), recipe, FlatParams(recipe.model))

    def setup(self, trial: str) -> tuple[Site, Recipe, FlatParams]:
        return self._setup

    def answer(self, task: Task) -> Reply | None:
        return None

    def done(self, task: Task, memory: Payload) -> None:
        if task.kind != "evaluate":
            return
        remembered = recall(self._recipe, task.sent, memory)
        own = own_params(self._recipe.algorithm, task.sent, remembered)
        about = {"run": self._run, "round": task.round, "terms": self._text}
        write_state(self._kit.path(PERSONAL), about, {"model": own}, private=True)


class Worker:
    """Answers tasks in this process, with everything that is ready kept ready.

    On a grid that is not fedlore's own a process ends after each answer, and what the next one has
    to know stands in `memory`. There nobody has a site's key, so there are no receipts, and terms
    are compared where site.toml says which were agreed to.
    """

    def __init__(
        self,
        kit: Kit,
        say: Callable[[str], None] = lambda line: None,
        *,
        memory: dict[str, bytes] | None = None,
    ) -> None:
        self._kit, self._tell, self._memory = kit, say, memory
        kit.state.mkdir(parents=True, exist_ok=True)
        self._audit = AuditLog(kit.folder / "audit.jsonl")
        self._asked = AuditLog(kit.state / "asked")
        self._held: HeldReceipts | None = None
        if memory is None:
            self._held = HeldReceipts(kit.folder, raw_key(read_public_key(kit.path("site.pub"))))
            self._key = read_site_key(kit.path("site.key"))
        self._vain = 0  # refusals since the last answer
        self._ready: tuple[str, Part, Guard, Questions] | None = None
        self._changed = ""  # what is said where rows are not those that the training began with

    def __call__(self, asked: Task, text: str) -> Reply:
        task = asked.question() if asked.kind in TASK_KINDS else asked
        where: dict[str, Any] = {
            "kind": task.kind,
            "round": task.round,
            "site": self._kit.file.name,
        }
        where |= {"coordinator": self._kit.file.address, "model": digest(task.sent)}
        where |= {"trial": task.trial} if task.trial else {}
        try:
            self._compare(asked.receipt)
            terms = self._read(text)
            where |= {"run": terms.run, "federation": terms.federation}
            where |= {"noised": terms.privacy.spends} if task.kind in SUMMED else {}
            with cut_after(self._kit.file.policy.max_seconds), self._remembering():
                reply = self._answer(task, asked, terms, text, where)
        except Exception as error:
            reason = str(error) if isinstance(error, FedloreError | OSError) else repr(error)
            self._say(f"round {task.round}: {task.kind} refused: {reason}")
            self._note(event="refused", reason=reason, **where)
            self._vain += 1
            if self._vain > _VAIN:  # who only asks in vain shall not fill the disk with it
                time.sleep(1.0)
            _log.exception("round %s: %s refused", task.round, plain_text(task.kind))
            raise
        self._vain = 0
        sent = {"sent": describe_payload(reply.upload), "metrics": sorted(reply.metrics)}
        sent["upload"] = digest(reply.upload)  # the very bytes, hidden or not
        self._note(event="answered", **sent, **where)
        self._say(f"round {task.round}: {task.kind} answered")
        if self._held is None:
            return reply
        return replace(reply, books=SiteBooks.of(self._books()).signed(self._key).text())

    def _say(self, line: str) -> None:
        """Tell the owner; a part of it may be the coordinator's words."""
        self._tell(plain_text(line))

    def _compare(self, roll: str) -> None:
        """Refuse where there is a receipt of more than the books of this site hold."""
        if self._held is None:
            return
        try:
            behind = self._held.take(roll, self._kit.path("ca.crt").read_bytes())
        except FedloreError as error:
            raise Refusal(str(error)) from None
        for line in behind:
            self._say(f"the coordinator's receipts: {line}")
            self._note(event="noticed", kind="receipts", reason=line)
        missing = self._held.missing(self._books())
        if missing:
            raise Refusal(
                f"the {missing}, of which the coordinator has a receipt: it was cut, rewritten or "
                "put back; with the file of then, or a new kit (federation renew), it goes on"
            )

    def _books(self) -> dict[str, list[str]]:
        """The hashes of all lines of each."""
        spent = read_marks(self._kit.path("ledger.json"))
        return {"audit": self._audit.hashes, "ledger": spent, "asked": self._asked.hashes}

    def _note(self, **facts: Any) -> None:
        """A line of the audit log, before anything leaves."""
        try:
            self._audit.write(**facts)
        except OSError as error:  # site.log may lie on the same full disk: say it on the screen
            self._say(
                f"cannot write '{self._audit.path}': {error.strerror}; nothing leaves this site"
            )
            raise Refusal("this site cannot write its audit log, so nothing leaves it") from None

    def _read(self, text: str) -> Terms:
        try:
            return read_terms(text)
        except FedloreError as error:
            own, theirs = fedlore_version(), version_of_terms(text)
            if theirs is not None and theirs != own:  # no wonder that they cannot be read
                raise Refusal(describe_difference(site=own, coordinator=theirs)) from None
            raise Refusal(f"the terms do not fit fedlore {own} at this site: {error}") from None

    def _answer(
        self, task: Task, asked: Task, terms: Terms, text: str, where: dict[str, Any]
    ) -> Reply:
        policy, name = self._kit.file.policy, self._kit.file.name
        pinned = self._held is not None or self._kit.file.agreed is not None
        if pinned:
            keep_offer(self._kit, terms, text)
        policy.refuse(terms, task)  # first: another version may have other tasks
        if pinned:
            refuse_other_terms(self._kit, terms)
        refuse_breach(terms, task)
        part, guard, questions = self._prepared(terms, text)
        if task.kind == "ensemble" and self._changed:
            raise Refusal(self._changed)
        if task.kind in TASK_KINDS:
            questions.allow(task, text, most=policy.max_questions)
        read = guard.summed(task)
        if read is not None:
            where["survivors"] = sorted(read)  # the audit log tells whose sum was read
        own = guard.answer(task)
        if own is not None:
            return own
        chosen = part.answer(task)
        if chosen is not None:
            return guard.hidden(asked, self._checked(task, terms, chosen, (), guard))
        site, recipe, buffer = part.setup(task.trial)
        policy.refuse_work(recipe.plan, len(site.lesson), buffer.flat.numel())
        store = Store(self._kit.state, terms.run, task.trial)
        accepted = task.accepted.get(name, 0)
        if task.kind in TRAININGS:
            known = store.again(name, task)
            if known is not None:
                return guard.hidden(asked, known)
        settled = store.settle(accepted)
        reply, memory = answer(site, recipe, task, settled, buffer)
        reply = self._checked(task, terms, reply, recipe.algorithm.uploads, guard)
        if task.kind in TRAININGS:
            store.commit(task, accepted, memory, reply)
        part.done(task, memory)
        return guard.hidden(asked, reply)

    @contextmanager
    def _remembering(self) -> Iterator[None]:
        """Leave to the next process what it has to know, also where this task was refused."""
        try:
            yield
        finally:
            if self._memory is not None and self._ready is not None:
                self._memory.update(self._ready[2].remember())

    def _checked(
        self, task: Task, terms: Terms, reply: Reply, uploads: Sequence[str], guard: Guard
    ) -> Reply:
        """A reply that can be used, with its noise, and with no number that may not leave."""
        wrong = find_flaw(reply.upload, terms.wanted(task, uploads))
        if wrong is not None:  # where numbers are not finite, training has diverged
            raise Refusal(f"this site's own upload cannot be used: {wrong}")
        reply = guard.kept(task, reply)
        allowed = {"steps"} if task.kind == "train" else self._kit.file.policy.scores(terms)
        metrics = {k: v for k, v in reply.metrics.items() if k in allowed}
        finite = {k: v for k, v in metrics.items() if math.isfinite(v)}
        if len(finite) < len(metrics):
            self._say(
                f"not reported: {', '.join(sorted(metrics.keys() - finite.keys()))} is not finite "
                "(nll where a test row has a label that this site's knowledge rules out)"
            )
        return replace(reply, metrics=finite)

    def _sums(self, terms: Terms, data: Examples | Measured) -> SumLedger:
        """What was summed of these rows before, in whichever run."""
        summed = {line["rows"] for line in self._asked.lines() if "sum" in line}
        version = DataVersion.of(self._kit.state / "rows.json", data.x, data.y, summed)
        self._changed = ""
        if not version.began(self._kit.state / "run.json", terms.run):
            self._changed = (
                "this site's rows have changed since this training began, so its folds say nothing "
                "of them: train anew, or put the rows of then back"
            )
            self._say(self._changed)
            self._note(event="noticed", kind="data", reason=self._changed)
        noised, steady = terms.privacy.spends, self._kit.file.policy.steady_cohort
        return SumLedger(self._asked, terms.run, version, noised=noised, steady=steady)

    def _prepared(self, terms: Terms, text: str) -> tuple[Part, Guard, Questions]:
        """Rows, knowledge and model made ready once for the same terms."""
        if self._ready is None or self._ready[0] != text:
            try:
                recipe = terms.recipe()
            except FedloreError as error:  # what else is installed here is nobody's business
                self._say(f"cannot take part: {error}")
                raise Refusal(
                    f"this site cannot make model '{terms.model.kind}' or algorithm "
                    f"'{terms.algorithm.name}': its own log says why (is the package installed?)"
                ) from error
            try:
                client = self._kit.client(terms.schema, terms.bins)
                part: Part
                if terms.search_space is not None:
                    part = LoreSite(self._kit, terms, text, client)
                else:
                    task = terms.task() or Classification()
                    check_shapes(client, noisy=recipe.records is not None)
                    part = PlainSite(self._kit, terms, text, task.enter(client), recipe)
            except FedloreError as error:
                _log.error("%s", error)
                self._say(f"cannot take part: {error}")
                raise Refusal(
                    "this site's data or knowledge does not fit the federation's schema: its own "
                    "log says what to mend (fedlore doctor)"
                ) from error
            questions, sums = Questions(self._asked, terms.run), self._sums(terms, client.data)
            guard = Guard(self._kit, terms, recipe, sums)
            if self._memory:
                guard.recall(self._memory)
            self._ready = (text, part, guard, questions)
        return self._ready[1:]
