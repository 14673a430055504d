"""What a site's owner can see: questions, uploads, refusals, budget; his page and its metrics."""

import json
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, Metric

from ...core.wire import SUMMED
from ...look.page import show_pairs
from ...look.tables import Cell
from ...privacy.settings import Spending, read_spending
from ..site.audit import DAY
from ..site.consent import OFFERED
from ..site.folder import Kit, read_kit
from .coordinator import Brief, head_line, rows_table, say_ago, say_needs
from .overview import gauge, write_measures

_KEPT = 50  # events that a page shows; all are in audit.jsonl


@dataclass(frozen=True)
class AuditEvent:
    """One line of the audit log, in words."""

    time: str
    event: str  # answered or refused
    kind: str
    round: int
    run: str
    left: str  # what left the site
    reason: str  # why it was refused


@dataclass(frozen=True)
class SiteOverview:
    """A site at one moment, as its owner sees it."""

    name: str
    time: float
    coordinator: str
    joined: bool  # whether it is in now
    agreed: str  # the hash of the terms
    offered: bool  # other terms were asked for, and refused
    policy: Mapping[str, str]
    counts: Mapping[str, Mapping[str, int]]  # kind -> event -> how often
    values: int  # numbers that have left, over all time
    questions: int  # of the last day
    most: int  # that the policy allows a day
    budget: Spending | None
    last: float | None  # seconds since it was last asked anything
    events: tuple[AuditEvent, ...]  # the newest first


class SiteWatcher:
    """Looks at a site's folder; of a log that only grows, what is new is read."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._read, self._counts = 0, dict[str, Counter[str]]()
        self._events: deque[AuditEvent] = deque(maxlen=_KEPT)
        self._values = 0
        self._bare = ""  # when an answer last left without noise
        self._budget: tuple[tuple[float, str], Spending | None] | None = None

    def look(self) -> SiteOverview:
        """The site now."""
        now, kit = self._clock(), read_kit(self._folder)
        audit = kit.path("audit.jsonl")
        self._go_on(audit)
        last = now - audit.stat().st_mtime if audit.exists() else None
        return SiteOverview(
            kit.file.name,
            now,
            kit.file.address,
            (kit.state / "node").exists(),
            kit.file.agreed or "",
            kit.path(OFFERED).exists(),
            _policy(kit),
            {kind: dict(count) for kind, count in sorted(self._counts.items())},
            self._values,
            _questions(kit.state / "asked", now),
            kit.file.policy.max_questions,
            self._spent(kit),
            last,
            tuple(reversed(self._events)),
        )

    def _go_on(self, path: Path) -> None:
        """Take in the lines that were added; a line that is not whole yet is left for next time."""
        size = path.stat().st_size if path.exists() else 0
        if size < self._read:  # it was mended after a crash: counted anew
            self._read, self._values = 0, 0
            self._counts.clear()
            self._events.clear()
        if size == self._read:
            return
        with open(path, "rb") as file:
            file.seek(self._read)
            new = file.read(size - self._read)
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue  # doctor and join speak of it: here what can be read is shown
            self._take(found)

    def _take(self, line: Mapping[str, Any]) -> None:
        if "kind" not in line:
            return
        kind, event = str(line["kind"]), str(line.get("event", ""))
        if event != "noticed":  # of nothing that was asked
            self._counts.setdefault(kind, Counter())[event] += 1
        if event == "answered" and kind in SUMMED and not line.get("noised"):
            self._bare = str(line.get("time", ""))
        values, left = _left(line)
        self._values += values
        reason = str(line.get("reason", "")).partition("\n")[0]
        self._events.append(
            AuditEvent(
                str(line.get("time", "")),
                event,
                kind,
                int(line.get("round", 0)),
                str(line.get("run", "")),
                left,
                reason,
            )
        )

    def _spent(self, kit: Kit) -> Spending | None:
        """The ledger in ε; worked out anew only when it has changed."""
        path = kit.path("ledger.json")
        seen = (path.stat().st_mtime if path.exists() else 0.0, kit.file.agreed or "")
        if self._budget is None or self._budget[0] != seen:
            policy, agreed = kit.file.policy, kit.terms().privacy if kit.file.agreed else None
            most, delta = policy.max_epsilon, policy.max_delta
            self._budget = (seen, read_spending(path, agreed, most=most, delta=delta))
        found = self._budget[1]
        return None if found is None else replace(found, bare=self._bare)


def _left(line: Mapping[str, Any]) -> tuple[int, str]:
    """How many numbers left with an answer, and what they were."""
    parts, total = [], 0
    for name, about in line.get("sent", {}).items():
        shapes = about.get("tensors", {}).values()
        count = sum(math.prod(shape) for shape in shapes)
        total += count
        parts.append(f"{name}: {count} numbers in {len(shapes)} tensors, norm {about['norm']:.3g}")
    scores = [str(name) for name in line.get("metrics", ())]
    if scores:
        total += len(scores)
        parts.append(f"scores {', '.join(scores)}")
    return total, "; ".join(parts)


def _questions(path: Path, now: float) -> int:
    """How many questions were answered within a day."""
    count = 0
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        count += "place" in line and line["at"] > now - DAY
    return count


def _policy(kit: Kit) -> dict[str, str]:
    """What the policy demands, as far as it differs from demanding nothing."""
    policy = kit.file.policy
    demands = {
        "participants": f"at least {policy.min_participants}",
        "rounds": f"at most {policy.max_rounds}",
        "sums alone": "demanded" if policy.secure_aggregation else "not demanded",
        "privacy budget": "not demanded"
        if policy.max_epsilon is None
        else f"at most ε = {policy.max_epsilon:g}",
        "models": ", ".join(policy.models) or "any of fedlore's own",
        "algorithms": ", ".join(policy.algorithms) or "any of fedlore's own",
        "scores that may leave": ", ".join(policy.metrics) or "none",
        "sums of features": "may leave" if policy.moments else "may not leave",
    }
    return demands


def show_site(seen: SiteOverview) -> str:
    """All that the page shows, as HTML; every text is escaped."""
    line = f"{'Connected' if seen.joined else 'Not connected'} to {seen.coordinator}."
    parts = [head_line(f"Site {seen.name}", line), say_needs(list(_warnings(seen)))]
    parts.append(show_pairs(describe_site(seen)))
    rows = [
        [kind, str(count.get("answered", 0)), str(count.get("refused", 0))]
        for kind, count in seen.counts.items()
    ]
    kinds = rows_table("Tasks by kind", ["kind", "answered", "refused"], rows)
    parts.append(f"<h2>Tasks</h2>\n{kinds}")
    parts.append("<h2>Latest events</h2>\n" + _events(seen))
    parts.append(f"<h2>Policy of this site</h2>\n{show_pairs(seen.policy)}")
    return "\n".join(parts)


def brief_site(seen: SiteOverview) -> Brief:
    """What a command shows of it."""
    where = "in" if seen.joined else "not in"
    lines = [f"site '{seen.name}' is {where}, at {seen.coordinator}"]
    lines += [f"{name}: {value}" for name, value in describe_site(seen).items()]
    rows = [
        [e.time[:19].replace("T", " "), str(e.round), e.kind, e.event, e.reason or e.left]
        for e in reversed(seen.events[:10])
    ]
    return Brief(lines, ("time", "round", "kind", "event", "what left, or why not"), rows)


def site_changes(before: SiteOverview, now: SiteOverview) -> list[str]:
    """What is different, one line for each thing."""
    lines = [] if before.joined == now.joined else ["in" if now.joined else "not in"]
    news = len(now.events) if not before.events else 0
    news = next((i for i, e in enumerate(now.events) if before.events[:1] == (e,)), news)
    for event in reversed(now.events[:news]):
        about = event.reason or event.left
        lines.append(f"round {event.round}: {event.kind} {event.event}: {about}")
    return lines


def describe_site(seen: SiteOverview) -> dict[str, str]:
    """How it stands, in a few lines."""
    facts = {"accepted terms": seen.agreed[:12] or "none"}
    facts["last task"] = say_ago(seen.last) or "never"
    facts["tasks in the last 24 h"] = f"{seen.questions} of at most {seen.most}"
    facts["numbers sent"] = f"{seen.values:,}"
    facts["privacy budget"] = "no noise agreed" if seen.budget is None else say_budget(seen.budget)
    facts["updated"] = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seen.time))
    return facts


def say_budget(budget: Spending) -> str:
    """What was spent, in words."""
    if budget.trouble:
        return budget.trouble
    of = f" of {budget.allowed:g}" if math.isfinite(budget.allowed) else ""
    return (
        f"ε = {budget.spent:.3g}{of} at δ = {budget.delta:g}, {budget.level} level, "
        f"{budget.answers} answers"
        + (f"; unbounded before {budget.bare[:16]}: answers left without noise" * bool(budget.bare))
    )


def _warnings(seen: SiteOverview) -> Iterator[str]:
    if not seen.agreed:
        yield "This site has not accepted any terms yet: fedlore accept shows them."
    if seen.offered:
        yield "Other terms than the accepted ones were offered and refused: see fedlore accept."
    yield from (f"Noticed: {one.reason}" for one in seen.events if one.event == "noticed")
    budget = seen.budget
    if budget is not None and (budget.trouble or budget.spent >= budget.allowed * 0.9):
        yield f"The privacy budget is spent, or nearly so: {say_budget(budget)}"


def _events(seen: SiteOverview) -> str:
    head = ["time", "event", "kind", "round", "what left", "why"]
    rows = [_event(event) for event in seen.events]
    notes = ["All events are in audit.jsonl, each line chained to the one before."]
    return rows_table("Newest first", head, rows, words=(0, 1, 2, 4, 5), notes=notes)


def _event(event: AuditEvent) -> list[str | Cell]:
    mark = Cell(event.event, mark="plain" if event.event == "answered" else "bad")
    when = event.time[5:19].replace("T", " ")  # the year is in the log
    return [when, mark, event.kind, str(event.round), event.left, event.reason]


def measure_site(seen: SiteOverview) -> bytes:
    """The same for Prometheus."""
    return write_measures(_families(seen))


def _families(seen: SiteOverview) -> Iterator[Metric]:
    yield gauge("joined", "Whether the site is in", float(seen.joined))
    tasks = CounterMetricFamily(
        "fedlore_tasks", "Tasks by kind and by what came of them", labels=["kind", "event"]
    )
    for kind, count in seen.counts.items():
        for event in ("answered", "refused"):
            tasks.add_metric([kind, event], count.get(event, 0))
    yield tasks
    yield CounterMetricFamily("fedlore_values_left", "Numbers that have left", value=seen.values)
    yield gauge("questions_day", "Questions of the last day", seen.questions)
    yield gauge("questions_day_allowed", "Questions a day that the policy allows", seen.most)
    yield gauge("terms_offered", "Whether other terms wait to be accepted", float(seen.offered))
    if seen.budget is not None:
        yield gauge("privacy_epsilon_spent", "ε that was spent", seen.budget.spent)
        yield gauge("privacy_epsilon_allowed", "ε that may be spent", seen.budget.allowed)
