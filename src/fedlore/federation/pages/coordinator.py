"""The coordinator's page: what stands in it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ...look.charts import Chart, Points, show_chart
from ...look.page import show_pairs, show_table
from ...look.tables import Cell, TextTable
from .overview import STATES, TROUBLE, Overview, SiteView

_SHOWN = 500  # rounds of a curve; older ones are in rounds.jsonl
_BETTER = {"ta": "accuracy", "pov": "violations"}  # the words of rows, as people say them
_TOLD = ("refused", "spent", "failed", "rejected")  # whose last trouble is what they are in
_TRAINING = {
    "none": "nothing has been trained yet",
    "running": "training",
    "finished": "finished",
    "stopped": "stopped",
    "died": "the training process has died: fedlore train --resume continues it",
}


def show_overview(seen: Overview) -> str:
    """All that the page shows, as HTML; every text is escaped."""
    parts = [head_line(seen.name, say_progress(seen)), _bar(seen), say_needs(_warnings(seen))]
    parts.append(_sites(seen))
    charts = [show_chart(chart) for chart in [*_scores(seen), *_costs(seen)]]
    if any(charts):
        parts.append(f'<h2>Rounds</h2>\n<div class="plots">{"".join(charts)}</div>')
    if seen.privacy:
        lines = "".join(f"<p>{escape(line)}</p>" for line in seen.privacy)
        parts.append(f"<h2>Privacy, as far as the coordinator knows</h2>\n{lines}")
    parts.append(f"<h2>States of sites</h2>\n{show_pairs(STATES)}")
    parts.append(f"<h2>Summary</h2>\n{show_pairs(_facts(seen))}")
    return "\n".join(part for part in parts if part)


_LAST = 5  # rounds that the time left is reckoned from


def say_progress(seen: Overview) -> str:
    """How far it is and how long it will take, in one sentence."""
    left = time_left(seen)
    if left is None:
        return f"{sum_up(seen).capitalize()}."
    of = f" of trial {seen.trial}" if seen.trial else ""
    return f"Round {seen.round} of {seen.rounds}{of}, about {say_seconds(left)} left."


def time_left(seen: Overview) -> float | None:
    """Seconds for the rounds that are left, if they take as long as the last ones did."""
    took = [float(row["seconds"]) for row in seen.history[-_LAST:]]
    if seen.state != "running" or seen.rounds <= 0 or not took:
        return None
    return max(seen.rounds - seen.round, 0) * sum(took) / len(took)


def _bar(seen: Overview) -> str:
    if not seen.rounds:
        return ""
    said = f"round {seen.round} of {seen.rounds}"
    return f'<progress max="{seen.rounds}" value="{seen.round}" aria-label="{said}"></progress>'


def say_needs(warnings: Sequence[str]) -> str:
    """What somebody has to do, or that nobody has to."""
    parts = [f'<p class="warn">{escape(text)}</p>' for text in warnings]
    return "\n".join(["<h2>Needs attention</h2>", *(parts or ["<p>Nothing does.</p>"])])


@dataclass(frozen=True)
class Brief:
    """The same for a screen: some lines, and a table below them."""

    lines: Sequence[str]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def brief_overview(seen: Overview) -> Brief:
    """What a command shows of it."""
    counted = ("reply", "rejected", "refused", "silent")
    head = ("site", "state", "last heard", "last round", "answers", *counted[1:])
    rows = [
        [
            *(site.name, site.state, say_ago(site.heard), str(site.round or "")),
            *(str(site.counts[key]) for key in counted),
            *(say_bytes(site.received), say_bytes(site.sent), site.note),
        ]
        for site in seen.sites
    ]
    lines = [line for line in (sum_up(seen), seen.reason, *seen.privacy) if line]
    return Brief(lines, (*head, "from it", "to it", "note"), rows)


def overview_changes(before: Overview, now: Overview) -> list[str]:
    """What is different, one line for each thing."""
    lines = [] if sum_up(before) == sum_up(now) else [sum_up(now)]
    known = {site.name: site for site in before.sites}
    for site in now.sites:
        old = known.get(site.name)
        if old is None or old.state != site.state:
            was = "" if old is None else f"{old.state} -> "
            about = f" ({site.task})" if site.state in ("training", "late", "lost") else ""
            lines.append(f"  {site.name}: {was}{site.state}{about if site.task else ''}")
        if old is not None and site.note != old.note:
            lines.append(f"  {site.name}: {site.note}")
    return lines


def sum_up(seen: Overview) -> str:
    """How it stands, in one line."""
    words = [_TRAINING.get(seen.state, seen.state)]
    if seen.rounds:
        of = f" of trial {seen.trial}" if seen.trial else ""
        words.append(f"round {seen.round} of {seen.rounds}{of}")
    words.append(f"the server is {seen.server}")
    return "; ".join(words)


def _facts(seen: Overview) -> dict[str, str]:
    counted = [f"{seen.count(word)} {word}" for word in STATES if seen.count(word)]
    facts = {"sites": f"{len(seen.sites)}: {', '.join(counted)}" if seen.sites else "none enrolled"}
    if seen.history:
        last = seen.history[-1]
        facts["last round"] = (
            f"{last.get('merged', 0)} of {last.get('asked', 0)} sites in "
            f"{say_seconds(float(last['seconds']))}, {say_bytes(last['bytes'])} of answers"
        )
        total = sum(float(row["seconds"]) for row in seen.history)
        size = sum(int(row["bytes"]) for row in seen.history)
        facts["all rounds"] = f"{say_seconds(total)}, {say_bytes(size)} of answers"
    if seen.run:
        facts["run"] = seen.run
    facts["rejected requests"] = f"{seen.refused} since the server started"
    facts["updated"] = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seen.time))
    return facts


def _warnings(seen: Overview) -> Sequence[str]:
    found = []
    if seen.server == "down":
        found.append("The server is down: sites cannot reach it. fedlore server starts it.")
    if seen.reason:
        found.append(f"The training stopped: {seen.reason}")
    for state in TROUBLE:
        # sites with the same to say share a line
        told: dict[str, list[str]] = {}
        for site in seen.sites:
            if site.state == state:
                about = site.note if state in _TOLD and site.note else STATES[state]
                told.setdefault(about, []).append(site.name)
        found += [f"{state.capitalize()}: {', '.join(who)}: {about}" for about, who in told.items()]
    return found


def _sites(seen: Overview) -> str:
    scores = list(dict.fromkeys(key for site in seen.sites for key in site.scores))[:3]
    head = ["site", "state", "asked", "for", "last heard", "last round", "answers", "last took"]
    head += ["from it", "to it", *(_BETTER.get(s, s) for s in scores)]
    rows = [
        [*_row(site), *(f"{site.scores[s]:.4f}" if s in site.scores else "" for s in scores)]
        for site in seen.sites
    ]
    notes = ["Bytes since the server started."]
    # who is in trouble now is told at the top
    notes += [f"{s.name}, before: {s.note}" for s in seen.sites if s.note and s.state not in _TOLD]
    return "<h2>Sites</h2>\n" + rows_table("Sites now", head, rows, words=(0, 1, 2), notes=notes)


def _row(site: SiteView) -> list[str | Cell]:
    return [
        site.name,
        state_cell(site.state),
        site.task,
        say_seconds(site.since),
        say_ago(site.heard),
        str(site.round or ""),
        str(site.counts.get("reply", 0)),
        say_seconds(site.seconds),
        say_bytes(site.received),
        say_bytes(site.sent),
    ]


def _scores(seen: Overview) -> list[Chart]:
    """A curve of each score: every site faint, the mean in front."""
    names = list(dict.fromkeys(key for site in seen.sites for key in site.scores))
    charts = []
    for name in names[:4]:
        each: dict[str, list[tuple[float, float]]] = {}
        at: dict[float, list[float]] = {}
        for row in seen.scores[-_SHOWN * max(1, len(seen.sites)) :]:
            if row.get(name) is not None:
                value, where = float(row[name] or 0.0), float(row["round"] or 0)
                each.setdefault(str(row["client"]), []).append((where, value))
                at.setdefault(where, []).append(value)
        mean: Points = [(r, sum(at[r]) / len(at[r])) for r in sorted(at)]
        ends = [line[-1][1] for line in each.values()]
        caption = (
            f"After round {mean[-1][0]:g}: mean {mean[-1][1]:.4f}, from {min(ends):.4f} to "
            f"{max(ends):.4f} over {len(each)} sites. Faint: each site; in front: their mean."
        )
        if len(mean) == 1:
            caption += " evaluate in federation.toml sets how often sites are scored."
        charts.append(Chart(_BETTER.get(name, name), caption, "round", each, mean))
    return charts


def _costs(seen: Overview) -> list[Chart]:
    rows = list(enumerate(seen.history[-_SHOWN:], max(1, len(seen.history) - _SHOWN + 1)))
    if not rows:
        return []
    seconds = [(float(i), float(row["seconds"])) for i, row in rows]
    sizes = [(float(i), float(row["bytes"])) for i, row in rows]
    longest = say_seconds(max(y for _, y in seconds))
    largest = say_bytes(max(y for _, y in sizes))
    return [
        Chart(
            "seconds a round",
            f"The last {say_seconds(seconds[-1][1])}, the longest {longest}.",
            "round",
            front=seconds,
            floor=0.0,
        ),
        Chart(
            "bytes of answers a round",
            f"The last {say_bytes(sizes[-1][1])}, the largest {largest}.",
            "round",
            front=sizes,
            floor=0.0,
        ),
    ]


_GOOD = ("training", "sent")


def say_seconds(seconds: float | None) -> str:
    """A span of time as people say it.

    >>> [say_seconds(s) for s in (None, 0.4, 12.3, 95, 7300, 400_000)]
    ['', '0.4 s', '12 s', '1 min 35 s', '2 h 1 min', '4 days 15 h']
    """
    if seconds is None:
        return ""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} days {whole % 86_400 // 3600} h"


def say_ago(seconds: float | None) -> str:
    """How long something is ago, nothing where it never was."""
    return "" if seconds is None else f"{say_seconds(seconds)} ago"


def say_bytes(count: float) -> str:
    """A number of bytes as people say it.

    >>> [say_bytes(n) for n in (0, 999, 30_318, 2_500_000)]
    ['0 B', '999 B', '30.3 kB', '2.5 MB']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f} {letter}B"
    return f"{count:.0f} B"


def state_cell(state: str) -> Cell:
    """A word that says how something stands; its colour says nothing that the word does not."""
    mark = "bad" if state in TROUBLE else "is" if state in _GOOD else "plain"
    return Cell(state, mark=mark)


def rows_table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    words: Sequence[int] = (0,),
    notes: Sequence[str] = (),
) -> str:
    """A table as HTML."""
    return show_table(TextTable.of(title, head, rows, notes, tuple(words)))


def head_line(title: str, line: str) -> str:
    """The top of a page: what it is about, and how it stands in one large sentence."""
    line = f'<p id="line" class="headline" role="status">{escape(line)}</p>'
    return f"<h1>{escape(title)}</h1>\n{line}"
