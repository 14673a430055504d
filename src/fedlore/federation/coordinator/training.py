"""A training: the one loop over Flower, with a journal after every round."""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ...core.history import Row, write_rows
from ...core.scaler import Scaler
from ...core.store import hold_lock, owner_only
from ...core.tree import Payload
from ...core.wire import TOLD, WORTH, Reply, Task, Transport
from ...engine import Run, federate
from ...engine.loop import scale_together, start_run
from ...engine.lore import MAIN, DoneStep, Outcome, Progress, Trial, conduct, untried_candidates
from ...errors import FedloreError
from ...knowledge.scope import scaler_of_scope
from ...privacy.filters import Filter, Placement, SumWithheld, guard_transport, is_hidden
from ...privacy.settings import privacy_lines
from ..flower.transport import Link, Mail
from ..journal import Journal, JournalEntry, read_state, write_state
from ..kits.certificates import raw_key
from ..kits.kit import enrolled_keys
from ..kits.receipts import Receipts
from ..norms import UsualNorm
from ..remote import LinkLost, Notice, QuorumLost, Remote
from ..settings import Federation, read_deployed
from ..terms import Terms, terms_of
from .server import bell_of, healthy, link_of
from .status import Reports, Status, last_scores
from .uploads import Judged, flaw

JOURNALS = "journals"  # of the trainings before, by the names of their runs
SCALER = "scaler.weights"  # of the last training, for one whose sums are withheld
RESTARTS = 10  # of a training that gets no further because sums of it are withheld
PATIENCE = 120.0  # seconds to wait for a server that went away
_GRACE = 2.0  # seconds to wait for sites that are not online, where a quorum is
ATTEMPTS = 2  # a round without a quorum is void and is tried again so many times in all


def train_federation(folder: Path, *, resume: bool = False, reports: Reports | None = None) -> Run:
    """Start a training, or go on after the last round in the journal."""
    reports = reports or Reports()
    federation = read_deployed(folder)
    keys = {name: raw_key(key) for name, key in enrolled_keys(folder).items()}
    if not keys:
        raise FedloreError(
            f"no site is enrolled: fedlore federation add-site NAME --dir '{folder}', and then, "
            f"with the key that is made there, fedlore federation enrol NAME site.pub"
        )
    return train_over(own_server(folder, federation, keys, reports), resume=resume)


def train_over(way: "Way", *, resume: bool = False) -> Run:
    """The same over any way to the sites."""
    folder = way.folder
    with owner_only(), hold_lock(folder / "train.lock", "a training of this federation"):
        session = _session(way, resume)
        try:
            run = session.to_the_end()
        except BaseException as error:
            session.status.write(state="stopped", reason=str(error) or type(error).__name__)
            raise
        session.finish(run)
    return run


def _session(way: "Way", resume: bool) -> "Session":
    folder, federation, keys, reports = way.folder, way.federation, way.keys, way.reports
    journal = Journal(folder / "journal")
    terms = terms_of(federation, run=secrets.token_hex(8), participants=len(keys))
    coordinator_filters(terms)  # refused before anything is moved
    entry: JournalEntry | None = None
    salt: str | None = None
    steps: dict[int, DoneStep] = {}
    if resume:
        entry, wrong = journal.last()
        if wrong and entry is None:
            raise FedloreError(
                f"{wrong[0]}, and there is no round before: train without --resume starts anew"
            )
        for text in wrong:
            reports.line(f"{text}; falling back to the round before")
        steps, wrong = journal.steps()
        for text in wrong:
            reports.line(f"{text}; that step is done again")
        about = journal.begun() if entry is None else entry.about
        done = 0 if entry is None else entry.run.round
        if about is None:  # it was ended before anybody was asked anything
            reports.line("nothing is journalled yet: the training begins")
        elif str(about["version"]) != terms.version:
            version = about["version"]
            raise FedloreError(
                f"round {done} was trained with fedlore {version}, this is "
                f"{terms.version}: finish the run with fedlore {version} on all sides, or start "
                "anew with fedlore train, without --resume"
            )
        elif about["agreement"] != _fingerprint(federation):
            raise FedloreError(
                f"federation.toml has changed since round {done}: resuming needs the "
                "same one, train without --resume starts anew"
            )
        else:
            terms, salt = replace(terms, run=str(about["run"])), str(about["salt"])
            of = f" of trial {entry.trial}" if entry is not None and entry.trial else ""
            reports.line(f"resuming run {terms.run} after round {done}{of}")
    filters = coordinator_filters(terms, folder)
    if salt is None:
        before = journal.put_aside(folder / JOURNALS)
        salt = terms.run if before and any(one.hides for one in filters) else ""
    status = Status(folder / "status.json", sorted(keys), run=terms.run, rounds=federation.rounds)
    parts, usual = (status, entry, filters, steps), UsualNorm(federation.excess)
    session = Session(way, terms, journal, *parts, usual, salt=salt)
    if entry is None:
        journal.begin(session.about())
    return session


@dataclass(frozen=True)
class Way:
    """How a training reaches its sites, and where it keeps what it must not forget."""

    folder: Path
    federation: Federation
    keys: dict[str, bytes]  # by which the sites are known
    reports: Reports
    open: Callable[[], AbstractContextManager[Mail]]  # where it is lost another is asked for
    all_here: Callable[[], bool]  # whether every site can be asked now


def own_server(
    folder: Path, federation: Federation, keys: dict[str, bytes], reports: Reports
) -> Way:
    """The way over `fedlore server`."""

    @contextmanager
    def open() -> Iterator[Mail]:
        link, secret = _reach(folder, reports), (folder / "runner.secret").read_bytes()
        with link.run(secret) as grid, closing(bell_of(folder)) as bell:
            grid.most = federation.largest_answer << 20
            kept = Receipts(folder, keys, reports.line)
            yield Mail(grid, keys, bell=bell, receipts=kept, stop=reports.stop)

    def all_here() -> bool:
        here = link_of(folder).online()
        return all(here.get(key) for key in keys.values())

    return Way(folder, federation, keys, reports, open, all_here)


def _reach(folder: Path, reports: Reports) -> Link:
    """The way to the server, once it answers; one that was started anew is elsewhere."""
    began, said = time.monotonic(), False
    while (trouble := healthy((link := link_of(folder)).address, link.ca)) is not None:
        if time.monotonic() - began > PATIENCE:
            raise FedloreError(
                f"the server at {link.address} does not answer ({trouble}): is fedlore server "
                "running? Nothing is lost, --resume continues"
            )
        if not said and time.monotonic() - began > 1.0:  # not of one that is just starting
            said = True
            reports.line(
                f"waiting for the server at {link.address}, {PATIENCE:g} s at most: is fedlore "
                "server running?"
            )
        time.sleep(0.5)
    return link


@dataclass
class Session:
    """One training, over as many connections to the server as it takes."""

    way: Way
    terms: Terms
    journal: Journal
    status: Status
    entry: JournalEntry | None
    filters: list[Filter]
    steps: dict[int, DoneStep]  # what is done of a recipe that is chosen
    usual: UsualNorm  # of uploads so far
    main: str = ""  # its main training, once it is known
    settled: set[str] = field(default_factory=set)  # sites that made their own model of it
    began: float = 0.0  # when the round that runs did
    salt: str = ""  # makes other starts of those that sums were told of in an earlier training

    def __post_init__(self) -> None:
        way = self.way
        self.folder, self.federation = way.folder, way.federation
        self.keys, self.reports = way.keys, way.reports

    def to_the_end(self) -> Run:
        void, at, anew, furthest = 0, (-1, 0), 0, (-1, 0)
        while True:
            try:
                with self.way.open() as mail:
                    return self._rounds(mail)
            except LinkLost as error:
                self.reports.line(f"{error}; waiting for it")
            except (QuorumLost, SumWithheld) as error:
                done = 0 if self.entry is None else self.entry.run.round
                here = (-1 if self.entry is None else self.entry.number, len(self.steps))
                void, at = (void + 1, here) if here == at else (1, here)  # of this very round
                anew, furthest = (0, here) if here > furthest else (anew, furthest)
                withheld = isinstance(error, SumWithheld)
                if void >= ATTEMPTS and withheld and anew < RESTARTS:
                    anew += 1
                    self._begin_anew(str(error))
                elif void >= ATTEMPTS:
                    after = f"The journal holds round {done}: mend the sites, then go on with "
                    after += "fedlore train --resume"
                    raise QuorumLost(f"{error}. {after}") from None
                else:
                    self.reports.line(f"{error}: the round is void and is tried again")
                    if withheld:
                        self._await_sites()

    def _await_sites(self) -> None:
        """Until all sites are here, or a deadline: the same sum over them is opened again."""
        end = time.monotonic() + self.federation.deadline
        with suppress(LinkLost):
            while time.monotonic() < end and not self.way.all_here():
                time.sleep(0.5)

    def _begin_anew(self, reason: str) -> None:
        """The training again, from another start: what was summed of the old one stays told."""
        self.reports.line(f"{reason}: the training begins anew, from another start")
        self.journal.put_aside(self.folder / JOURNALS)
        self.terms = replace(self.terms, run=secrets.token_hex(8))
        self.entry, self.salt, self.main = None, self.terms.run, ""
        self.journal.begin(self.about())
        self.steps.clear()
        self.settled.clear()
        self.filters = coordinator_filters(self.terms, self.folder)
        self.usual = UsualNorm(self.federation.excess)
        self.status.write(run=self.terms.run)

    def _rounds(self, mail: Mail) -> Run:
        remote = self._remote(mail)
        if self.entry is None:
            terms = self.terms
            common = {}
            if self.federation.scale:
                # exact sums of features would be outside any privacy budget
                exact = not self.federation.privacy.spends
                scaler = self._scale(remote) if exact else scaler_of_scope(terms.schema)
                common = {"scaler": scaler.tensors()}
                terms = terms.scaled(scaler)
            recipe = terms.recipe()
            chosen = terms.search_space is not None  # then every trial starts by itself
            self.save(Run({}) if chosen else start_run(recipe, self.salt), common)
        assert self.entry is not None
        terms, run, self.began = self.scaled(), self.entry.run, time.monotonic()
        remote = self._remote(replace(mail, terms=terms.text()))
        if terms.search_space is not None:
            return self._search(remote, terms)
        a = self.federation
        return federate(
            remote,
            terms.recipe(),
            a.rounds,
            sample=a.sample,
            evaluate=a.evaluate or a.rounds,
            start=run,
            on_round=self.done,
        )

    def _scale(self, remote: Transport) -> Scaler:
        """The common scaling, the last one where the sites withhold the sums for another."""
        path = self.folder / SCALER
        try:
            found = scale_together(remote, self.terms.inputs)
        except SumWithheld as error:
            if not path.exists():
                raise FedloreError(
                    f"{error}. There is no earlier scaling to go on with: give features low and "
                    "high in the schema, or set scale = false"
                ) from None
            self.reports.line(f"no new sums for scaling ({error}): the last scaling stays")
            return Scaler.read(read_state(path)[1]["scaler"], self.terms.inputs)
        write_state(path, {}, {"scaler": found.tensors()})
        return found

    def _search(self, remote: Transport, terms: Terms) -> Run:
        """Let the sites choose; go on after the last step and round of the journal."""
        common = terms.common()
        untried = untried_candidates(common.search_space.candidates, common.rounds)
        if untried and not self.steps and not self.federation.privacy.spends:
            self.reports.line(
                f"{common.rounds} rounds are too few for all candidates: never tried are "
                + "; ".join(map(str, untried))
            )
        found = conduct(
            remote,
            common,
            progress=Progress(
                [self.steps[number] for number in sorted(self.steps)],
                self._cut_short(),
                partial(self._stepped, terms),
                lambda name, run: self.done(run, name),
            ),
            evaluate=self.federation.evaluate,
            private=self.federation.privacy.spends,
            salt=self.salt if any(one.hides for one in self.filters) else None,
        )
        self.main, entry = str(found.trial), self.entry
        rows, last = list(found.run.rows), found.run.round
        if not rows and entry is not None and entry.trial == self.main:
            rows = list(entry.run.rows)  # the main training had ended before a crash
        scores = _final_scores(remote, found, seed=common.seed, names=terms.schema.names)
        for row in scores:
            if "column" in row:
                self.reports.line(
                    "{site} tells that '{column}' is worth {worth:.3g} to it ({low:.3g} to "
                    "{high:.3g})".format_map(row)
                )
        rows += scores
        rows += [{"round": last, "trial": n, "loss": x} for n, x in found.losses.items()]
        chosen = common.search_space.candidates[found.trial.candidate]
        rows.append({"round": last, "recipe": str(chosen)})
        return Run(found.run.state, last, dict(found.run.accepted), rows)

    def _cut_short(self) -> tuple[str, Run] | None:
        """The training that was cut short, unless a step before it has to be done again.

        Sites forget a training when another begins.
        """
        entry = self.entry
        if entry is None or not entry.trial:
            return None
        before = [number for number in self.steps if number < int(entry.about["steps"])]
        return (entry.trial, entry.run) if len(before) == int(entry.about["steps"]) else None

    def _stepped(self, terms: Terms, step: DoneStep) -> None:
        missing = sorted(set(self.keys) - self.settled)
        if step.name == "ensemble" and missing:  # not done: resuming asks them again
            self.reports.line(
                f"{', '.join(missing)} did not settle and has no model of its own yet: fedlore "
                "train --resume asks again"
            )
            return
        number = max(self.steps, default=-1) + 1
        self.journal.add(step, number)
        self.steps[number] = step
        self.reports.line(_describe_step(step, terms))

    def done(self, run: Run, trial: str = "") -> None:
        """Write down a round, and tell of it where it is the main training's."""
        assert self.entry is not None
        self.save(run, self.entry.common, trial=trial)
        took, self.began = time.monotonic() - self.began, time.monotonic()
        self.status.add_round(run, took, trial=trial)
        main = not trial or Trial.read(trial).fold == MAIN
        at: dict[str, Any] = {"trial": trial} if trial else {}
        at |= {"round": run.round} if main else {}
        self.status.write(privacy=self.privacy_lines(run.round if main else 0), **at)
        if main:
            self.reports.round(run, took)

    def _remote(self, mail: Mail) -> Transport:
        a, search_space = self.federation, self.terms.search_space
        common = None if search_space is None else self.terms.common()
        usual = self.terms.algorithm.make()

        def wanted(task: Task) -> Payload:
            algorithm = usual
            if common is not None and task.trial:
                algorithm = common.candidate(Trial.read(task.trial)).algorithm(usual)
            return self.terms.wanted(task, algorithm.uploads)

        def check(task: Task, reply: Reply) -> str | None:
            return flaw(task, reply, wanted(task), largest=a.largest, noised=a.privacy.spends)

        hiding = next((one for one in self.filters if one.hides), None)

        def first(task: Task, reply: Reply) -> str | None:
            if hiding is None or not is_hidden(task):
                return check(task, reply)
            return hiding.flaw(task, reply, wanted(task))

        def take_note(notice: Notice) -> None:
            if (notice.what, notice.kind) == ("reply", "ensemble"):
                self.settled.add(notice.site)
            self.status.notice(notice)
            self.reports.notice(notice)

        mail = replace(mail, terms=mail.terms or self.terms.text())
        sites, n = sorted(self.keys), len(self.keys)
        parts, needed = (first, take_note, self.status.ask), a.privacy.needs(n) or None
        remote = Remote(mail, sites, a.least(n), a.deadline, _GRACE, *parts, needed)
        transport = guard_transport(remote, self.filters, local=False)
        of_sums = check if self.filters else None  # single uploads were checked as they came
        return Judged(transport, of_sums, self.usual, a.least(n), take_note)

    def scaled(self) -> Terms:
        """The terms with the scaling, once there is one."""
        if self.entry is None or not self.entry.common:
            return self.terms
        return self.terms.scaled(Scaler.read(self.entry.common["scaler"], self.terms.inputs))

    def about(self) -> dict[str, Any]:
        """What a training that goes on must have in common with the one that began."""
        about = {"run": self.terms.run, "version": self.terms.version, "salt": self.salt}
        return about | {"agreement": _fingerprint(self.federation)}

    def save(
        self, run: Run, common: dict[str, dict[str, torch.Tensor]], *, trial: str = ""
    ) -> None:
        about = self.about()
        if self.terms.search_space is not None:  # rounds of several trainings, in one order
            number = 0 if self.entry is None else self.entry.number + 1
            about |= {"trial": trial, "number": number, "steps": len(self.steps)}
        self.journal.save(run, about, common)
        self.entry = JournalEntry(run, about, common)

    def privacy_lines(self, rounds: int) -> list[str]:
        """What privacy cost so far, as far as a coordinator can know."""
        return privacy_lines(self.filters, rounds=rounds, sample=self.federation.sample)

    def finish(self, run: Run) -> None:
        """The shared weights and the scores, where the coordinator finds them."""
        terms = self.scaled()
        about = {"run": terms.run, "round": run.round, "terms": terms.text()}
        about |= {"trial": self.main} if self.main else {}
        weights = terms.recipe(self.main).algorithm.send(run.state)
        write_state(self.folder / "shared.weights", about, weights)
        write_rows(run.rows, self.folder / "scores.jsonl")
        self.status.write(
            state="finished",
            round=run.round,
            privacy=self.privacy_lines(run.round),
            scores=[dict(row) for row in last_scores(run.rows)],
        )


def _final_scores(
    remote: Transport, found: Outcome, *, seed: int, names: Sequence[str]
) -> list[Row]:
    """What each site's own mixture does on its test rows, as far as its policy lets it say so.

    What its columns are worth to it, where it tells that, goes to all sites, without its name.
    """
    task = Task(
        "evaluate",
        found.trial.rounds + 1,
        seed=seed,
        accepted=found.run.accepted,
        trial=str(found.trial),
    )
    replies = sorted(remote.exchange(task, sorted(remote.clients())), key=lambda r: r.client)
    found_rows: list[Row] = []
    told: dict[str, list[list[float]]] = {}
    for reply in replies:
        scores = dict(reply.metrics)
        for place, name in enumerate(names):
            worth = [scores.pop(one.format(place)) for one in WORTH if one.format(place) in scores]
            if len(worth) == len(WORTH):
                told.setdefault(name, []).append(worth)
                value, low, high = worth
                row: Row = {"round": found.run.round, "site": reply.client, "column": name}
                found_rows.append({**row, "worth": value, "low": low, "high": high})
        if scores:
            found_rows.append({"round": found.run.round, "client": reply.client, **scores})
    if told:
        sent = {name: torch.tensor(sorted(x), dtype=torch.float64) for name, x in told.items()}
        for _ in remote.exchange(replace(task, sent={TOLD: sent}), sorted(remote.clients())):
            pass
    return found_rows


def _describe_step(step: DoneStep, terms: Terms) -> str:
    if "vote" in step.payload:
        candidate = terms.common().candidate(Trial.read(step.name))
        return f"trial {step.name} ({candidate}): loss {step.loss:.4f} on rows held back"
    if step.withheld:
        return f"without the one-shot model ({step.withheld})"
    words = {
        "gram": "the one-shot model is made",
        "start": "the sites have voted where the weights of ensembles begin",
        "ensemble": "every site has its own model",
    }
    return words.get(step.name, f"training {step.name} is done")


def _fingerprint(federation: Federation) -> str:
    f, text = federation, terms_of(federation, run="", participants=0).text()
    text += f"{f.sample} {f.scale} {f.evaluate}"
    return hashlib.sha256(text.encode()).hexdigest()


def coordinator_filters(terms: Terms, folder: Path | None = None) -> list[Filter]:
    """The filters, or why there cannot be any; none of the candidates may be unfit for them."""
    search_space, trials = terms.search_space, [""]
    if search_space is not None:
        count = len(search_space.candidates)
        trials = [str(Trial(c, MAIN, terms.rounds)) for c in range(count)]
    place = Placement("coordinator", folder, run=terms.run)
    return [terms.filters(recipe, place) for recipe in map(terms.recipe, trials)][0]
