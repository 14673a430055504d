"""A site's own page and its measures: nothing of it leaves the site's machine by itself."""

import math
import time
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from ...look.page import show_pairs
from ...look.tables import Cell
from ...privacy.settings import Spending
from .measures import gauge, write_measures
from .parts import head_line, rows_table, say_seconds
from .sites import AuditEvent, SiteOverview


def show_site(seen: SiteOverview) -> str:
    """All that the page shows, as HTML; every text is escaped."""
    where = "in" if seen.joined else "not in"
    line = f"{where}, at {seen.coordinator}"
    parts = [head_line(f"Site {seen.name}", line, describe_site(seen), list(_warnings(seen)))]
    parts.append("<h2>What was asked</h2>\n" + _asked(seen))
    parts.append("<h2>The last of it</h2>\n" + _events(seen))
    parts.append(f"<h2>What this site demands</h2>\n{show_pairs(seen.policy)}")
    return "\n".join(parts)


def describe_site(seen: SiteOverview) -> dict[str, str]:
    """How it stands, in a few lines."""
    facts = {"agreed to terms": seen.agreed[:12] or "none"}
    facts["asked last"] = f"{say_seconds(seen.last)} ago" if seen.last is not None else "never"
    facts["questions of the last day"] = f"{seen.questions} of at most {seen.most}"
    facts["numbers that have left"] = f"{seen.values:,}"
    facts["privacy budget"] = "no noise agreed" if seen.budget is None else say_budget(seen.budget)
    facts["seen at"] = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seen.time))
    return facts


def say_budget(budget: Spending) -> str:
    """What was spent, in words."""
    if budget.trouble:
        return budget.trouble
    of = f" of {budget.allowed:g}" if math.isfinite(budget.allowed) else ""
    return (
        f"ε = {budget.spent:.3g}{of} at δ = {budget.delta:g}, {budget.level} level, "
        f"{budget.answers} answers"
    )


def _warnings(seen: SiteOverview) -> Iterator[str]:
    if not seen.agreed:
        yield "This site has agreed to no terms yet: fedlore accept shows them."
    if seen.offered:
        yield "Other terms than those agreed to were asked for and refused: fedlore accept."
    yield from (f"Noticed: {one.reason}" for one in seen.events if one.event == "noticed")
    budget = seen.budget
    if budget is not None and (budget.trouble or budget.spent >= budget.allowed * 0.9):
        yield f"The privacy budget is spent, or nearly so: {say_budget(budget)}"


def _asked(seen: SiteOverview) -> str:
    rows = [
        [kind, str(count.get("answered", 0)), str(count.get("refused", 0))]
        for kind, count in seen.counts.items()
    ]
    return rows_table("Tasks by kind", ["kind", "answered", "refused"], rows)


def _events(seen: SiteOverview) -> str:
    head = ["time", "event", "kind", "round", "what left", "why"]
    rows = [_event(event) for event in seen.events]
    notes = ["All of it is in audit.jsonl, each line chained to the one before."]
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
