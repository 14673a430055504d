"""A training whose recipe the sites choose: steps and rounds are journalled as they are done."""

import time
from typing import Any, Protocol

from ...core.history import Row
from ...core.tree import Payload
from ...core.wire import Task, Transport
from ...engine import Run
from ...engine.lore import MAIN, DoneStep, Outcome, Progress, Trial, conduct
from ..journal import Journal, JournalEntry
from ..settings import Federation
from ..terms import Terms
from .status import Status


class Underway(Protocol):
    """A session of the coordinator, as far as it is needed here."""

    federation: Federation
    keys: dict[str, bytes]
    journal: Journal
    status: Status
    reports: Any
    entry: JournalEntry | None
    steps: dict[int, DoneStep]
    main: str
    settled: set[str]

    def save(self, run: Run, common: Payload, *, trial: str = "") -> None: ...

    def privacy_lines(self, rounds: int) -> list[str]: ...


def conduct_session(session: Underway, remote: Transport, terms: Terms) -> Run:
    """Go on after the last step and round of the journal, to the scores of the sites' mixtures."""
    common, search_space = terms.common(), terms.common().search_space
    began = [time.monotonic()]

    def stepped(step: DoneStep) -> None:
        missing = sorted(set(session.keys) - session.settled)
        if step.name == "ensemble" and missing:  # not done: resuming asks them again
            session.reports.line(
                f"{', '.join(missing)} did not settle and has no model of its own yet: fedlore "
                "train --resume asks again"
            )
            return
        number = max(session.steps, default=-1) + 1
        session.journal.add(step, number)
        session.steps[number] = step
        session.reports.line(_line(step, terms))

    def rounded(name: str, run: Run) -> None:
        assert session.entry is not None
        session.save(run, session.entry.common, trial=name)
        main = Trial.read(name).fold == MAIN
        at = {"round": run.round} if main else {}
        took = time.monotonic() - began[0]
        session.status.add_round(run, took, trial=name)
        session.status.write(
            trial=name, privacy=session.privacy_lines(run.round if main else 0), **at
        )
        if main:
            session.reports.round(run, took)
        began[0] = time.monotonic()

    progress = Progress(_order(session), _running(session), stepped, rounded)
    found = conduct(
        remote,
        common,
        progress=progress,
        evaluate=session.federation.evaluate,
        private=session.federation.privacy.spends,
    )
    session.main = str(found.trial)
    rows = _rows(session, found)
    rows += _scores(remote, found, seed=common.seed)
    rows += [{"round": found.run.round, "trial": n, "loss": x} for n, x in found.losses.items()]
    rows.append(
        {"round": found.run.round, "recipe": str(search_space.candidates[found.trial.candidate])}
    )
    return Run(found.run.state, found.run.round, dict(found.run.accepted), rows)


def _order(session: Underway) -> list[DoneStep]:
    return [session.steps[number] for number in sorted(session.steps)]


def _running(session: Underway) -> tuple[str, Run] | None:
    """The training that was cut short, unless a step before it has to be done again.

    Sites forget a training when another begins.
    """
    entry = session.entry
    if entry is None or not entry.trial:
        return None
    before = [number for number in session.steps if number < int(entry.about["steps"])]
    whole = len(before) == int(entry.about["steps"])
    return (entry.trial, entry.run) if whole else None


def _rows(session: Underway, found: Outcome) -> list[Row]:
    """Who took part in each round of the main training, also where it ended before a crash."""
    entry = session.entry
    if not found.run.rows and entry is not None and entry.trial == str(found.trial):
        return list(entry.run.rows)
    return list(found.run.rows)


def _scores(remote: Transport, found: Outcome, *, seed: int) -> list[Row]:
    """What each site's own mixture does on its test rows, as far as its policy lets it say so."""
    task = Task(
        "evaluate",
        found.trial.rounds + 1,
        seed=seed,
        accepted=found.run.accepted,
        trial=str(found.trial),
    )
    replies = sorted(remote.exchange(task, sorted(remote.clients())), key=lambda r: r.client)
    return [
        {"round": found.run.round, "client": r.client, **r.metrics} for r in replies if r.metrics
    ]


def _line(step: DoneStep, terms: Terms) -> str:
    if "vote" in step.payload:
        candidate = terms.common().candidate(Trial.read(step.name))
        return f"trial {step.name} ({candidate}): loss {step.loss:.4f} on rows held back"
    words = {
        "gram": "the one-shot model is made",
        "start": "the sites have voted where the weights of ensembles begin",
        "ensemble": "every site has its own model",
    }
    return words.get(step.name, f"training {step.name} is done")
