"""What a coordinator can know of its federation at one moment, from the files in its folder.

For Prometheus too: everything that can be alarmed on is there from the start.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...core.history import Row, read_rows
from ...errors import FedloreError
from ..coordinator.status import COUNTED, Sighting, read_presence, read_rounds, read_status
from ..journal import Journal
from ..kits.kit import enrolled_keys
from ..settings import read_deployed

_NO_SCORE = ("round", "client", "asked", "merged")


@dataclass(frozen=True)
class SiteView:
    """One site at one moment."""

    name: str
    state: str  # a word of STATES
    task: str = ""  # what it was asked last
    since: float | None = None  # seconds since then, while there is no answer
    heard: float | None = None  # seconds since its last sign of life
    round: int = 0  # that it answered last
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""  # the first line of what it let out about its last trouble
    seconds: float | None = None  # that its last answer took
    requests: int = 0  # since the server started
    received: int = 0  # bytes from it, likewise
    sent: int = 0  # bytes to it
    scores: Mapping[str, float] = field(default_factory=dict)  # the last it reported


@dataclass(frozen=True)
class Overview:
    """A federation at one moment."""

    name: str
    time: float
    server: str  # up, starting or down
    state: str  # of the training: none, running, finished, stopped, or died
    run: str
    round: int
    rounds: int
    trial: str
    reason: str
    privacy: tuple[str, ...]
    refused: int  # requests that the gate turned away since it started
    sites: tuple[SiteView, ...]
    history: tuple[Mapping[str, Any], ...]  # rounds: seconds, bytes, asked, merged
    scores: tuple[Row, ...]  # of sites, by round

    def count(self, state: str) -> int:
        """How many sites stand so."""
        return sum(site.state == state for site in self.sites)


class Watcher:
    """Looks at a coordinator's folder; what has not changed is not read again."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._name = read_deployed(folder).name
        self._seen: tuple[str, float] = ("", 0.0)
        self._scores: tuple[Row, ...] = ()

    def look(self) -> Overview:
        """The federation now."""
        now = self._clock()
        server, here, gate = read_presence(self._folder, now)
        try:
            status = read_status(self._folder)
        except FedloreError:
            status = {}
        state = _training(status)
        records: Mapping[str, Any] = status.get("sites", {})
        scores = self._read_scores(status)
        last = {str(row["client"]): _numbers(row) for row in scores}
        asking = any(record.get("last") == "asked" for record in records.values())
        sites = []
        for name in sorted({*enrolled_keys(self._folder), *records}):
            record, seen = records.get(name, {}), here.get(name, Sighting())
            word = "unknown" if server == "down" else seen.here(now)
            word = tell_state(record, word, underway=state == "running", asking=asking)
            sites.append(_view(name, word, record, seen, now, last.get(name, {})))
        return Overview(
            self._name,
            now,
            server,
            state,
            str(status.get("run", "")),
            int(status.get("round", 0)),
            int(status.get("rounds", 0)),
            str(status.get("trial", "")),
            str(status.get("reason", "")).partition("\n")[0],
            tuple(status.get("privacy", ())),
            int(gate.get("refused", 0)),
            tuple(sites),
            tuple(r for r in read_rounds(self._folder) if r.get("run") == status.get("run")),
            scores,
        )

    def _read_scores(self, status: Mapping[str, Any]) -> tuple[Row, ...]:
        """Scores of the sites by round: of the journal while it runs, of the results at its end."""
        finished = self._folder / "scores.jsonl"
        files = Journal(self._folder / "journal").files()[:1]
        path = finished if status.get("state") == "finished" else files[0] if files else None
        try:
            seen = ("", 0.0) if path is None else (str(path), path.stat().st_mtime)
            if path is None or seen == self._seen:
                return self._scores if path is not None else ()
            if path == finished:
                rows: Sequence[Row] = read_rows(path)
            else:
                entry, _ = Journal(path.parent).last()
                rows = [] if entry is None else entry.run.rows
        except (OSError, FedloreError):  # the next round has just taken its place
            return self._scores
        self._seen, self._scores = seen, tuple(row for row in rows if "client" in row)
        return self._scores


def _training(status: Mapping[str, Any]) -> str:
    """The state of a training; one that was killed could not write that it is over."""
    state = str(status.get("state", "none"))
    if state != "running" or status.get("host") != socket.gethostname():
        return state
    try:
        os.kill(int(status["pid"]), 0)
    except ProcessLookupError:
        return "died"
    except (PermissionError, KeyError, ValueError):
        pass  # somebody else's, and there
    return state


def _view(
    name: str,
    state: str,
    record: Mapping[str, Any],
    seen: Sighting,
    now: float,
    scores: Mapping[str, float],
) -> SiteView:
    assert state in STATES, state
    asked = record.get("asked")
    waiting = state in ("training", "late", "lost") and record.get("last") in ("asked", "silent")
    return SiteView(
        name,
        state,
        "" if asked is None else f"{asked['kind']}, round {asked['round']}",
        max(0.0, now - asked["at"]) if asked is not None and waiting else None,
        max(0.0, now - seen.heard) if seen.heard else None,
        int(record.get("round", 0)),
        {key: int(record.get("counts", {}).get(key, 0)) for key in COUNTED},
        str(record.get("note", "")),
        record.get("seconds"),
        seen.requests,
        seen.received,
        seen.sent,
        scores,
    )


def _numbers(row: Row) -> dict[str, float]:
    return {
        key: float(value)
        for key, value in row.items()
        if key not in _NO_SCORE and isinstance(value, int | float)
    }


#: Each word, and what it means; in the order in which a page explains them.
STATES = {
    "waiting": "connected, with no task",
    "training": "working on a task and sending heartbeats, however long it takes",
    "sent": "has answered; others have not yet",
    "late": "sends heartbeats, but missed the deadline",
    "copied": "connected from two places: somebody has a copy of its kit (federation renew)",
    "lost": "connection closed, or no heartbeat for ten seconds",
    "refused": "its policy refused the last task",
    "spent": "its privacy budget is spent",
    "failed": "failed to answer: see the site's own log",
    "rejected": "sent an answer that cannot be used",
    "left": "has left in good order",
    "absent": "has not connected since the server was started",
    "unknown": "the server is down, so its state is unknown",
}
TROUBLE = ("copied", "late", "lost", "refused", "spent", "failed", "rejected")
SPENT = "the privacy budget is spent"  # how a site's ledger begins its refusal


def tell_state(record: Mapping[str, Any], here: str, *, underway: bool, asking: bool) -> str:
    """The word for a site: its record in status.json, and what the gate sees of it.

    `underway`: a training runs; `asking`: somebody has not answered yet.
    """
    if here != "here":  # before all else: an answer that never comes is not waited for
        return here
    last = str(record.get("last", ""))
    if last == "refused":
        return "spent" if SPENT in str(record.get("note", "")) else "refused"
    if last in ("failed", "rejected"):
        return last
    if not underway:
        return "waiting"
    if last == "reply":
        return "sent" if asking else "waiting"
    return {"asked": "training", "silent": "late"}.get(last, "waiting")


TRAINING = ("none", "running", "finished", "stopped", "died")


def measure(overview: Overview) -> bytes:
    """The overview in Prometheus' text format."""
    return write_measures([*_federation(overview), *_sites(overview)])


def write_measures(families: Iterable[Metric]) -> bytes:
    """Families of numbers in Prometheus' text format."""
    found = list(families)  # a registry looks at them more than once

    class Once:
        def collect(self) -> Iterable[Metric]:
            return found

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once())
    return generate_latest(registry)


def gauge(name: str, about: str, value: float) -> Metric:
    """A number that goes up and down."""
    return GaugeMetricFamily(f"fedlore_{name}", about, value=value)


def _federation(seen: Overview) -> Iterator[Metric]:
    yield gauge("server_up", "Whether the server answers sites", float(seen.server == "up"))
    training = GaugeMetricFamily(
        "fedlore_training", "1 for the state that the training is in", labels=["state"]
    )
    for state in TRAINING:
        training.add_metric([state], float(seen.state == state))
    yield training
    yield gauge("round", "The last round that was merged", seen.round)
    yield gauge("rounds", "Rounds of the training", seen.rounds)
    yield gauge("sites_enrolled", "Sites that may take part", len(seen.sites))
    last = seen.history[-1] if seen.history else {}
    yield gauge("round_seconds", "Seconds of the last round", float(last.get("seconds", 0.0)))
    yield gauge("round_bytes", "Bytes of answers in the last round", float(last.get("bytes", 0)))
    yield gauge("round_merged", "Sites merged in the last round", float(last.get("merged", 0)))
    yield CounterMetricFamily(
        "fedlore_gate_refused", "Requests that the gate turned away", value=seen.refused
    )


def _sites(seen: Overview) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "fedlore_site_state", "1 for the state that a site is in", labels=["site", "state"]
    )
    answers = CounterMetricFamily(
        "fedlore_site_answers", "What came of the tasks of this training", labels=["site", "result"]
    )
    scores = GaugeMetricFamily(
        "fedlore_site_score", "The last score that a site reported", labels=["site", "score"]
    )
    for site in seen.sites:
        for word in STATES:
            state.add_metric([site.name, word], float(site.state == word))
        for result, count in site.counts.items():
            answers.add_metric([site.name, result], count)
        for score, value in site.scores.items():
            scores.add_metric([site.name, score], value)
    yield from (state, answers, scores)
    for name, about, values in (
        (
            "site_last_heard_timestamp_seconds",
            "When a site last gave a sign of life",
            {s.name: seen.time - s.heard for s in seen.sites if s.heard is not None},
        ),
        (
            "site_round",
            "The last round that a site answered",
            {s.name: s.round for s in seen.sites},
        ),
        (
            "site_answer_seconds",
            "How long a site took for its last answer",
            {s.name: s.seconds for s in seen.sites if s.seconds is not None},
        ),
    ):
        family = GaugeMetricFamily(f"fedlore_{name}", about, labels=["site"])
        for one, value in values.items():
            family.add_metric([one], value)
        yield family
    for name, about, counts in (
        ("requests", "Requests of a site", {s.name: s.requests for s in seen.sites}),
        ("received_bytes", "Bytes from a site", {s.name: s.received for s in seen.sites}),
        ("sent_bytes", "Bytes to a site", {s.name: s.sent for s in seen.sites}),
    ):
        counter = CounterMetricFamily(f"fedlore_site_{name}", about, labels=["site"])
        for one, count in counts.items():
            counter.add_metric([one], count)
        yield counter
