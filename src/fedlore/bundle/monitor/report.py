"""Judgements as values, metrics, tables, sentences and a page."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.store import write_whole
from ...look.page import Section, page
from ...look.plots import DrawnPlot, Plot, draw, short_text
from ...look.tables import Cell, TextTable
from .judge import Judgement, MonitorReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_HEAD = ("question", "rows", "claim", "evidence", "alarm at")
_SAID = ("rows", "claim", "seen", "since", "evidence", "needed", "alarm", "advice")
_SHOWN = 5  # courses in the plot


def report_values(report: MonitorReport) -> dict[str, Any]:
    """Everything as plain values."""
    return {
        "rows": report.rows,
        "new": report.new,
        "lots": report.lots,
        "late": report.late,
        "alarm_rate": report.alarm_rate,
        "alarms": [judgement.question.name for judgement in report.alarms],
        "questions": [
            asdict(v.question) | {name: getattr(v, name) for name in _SAID}
            for v in report.judgements
        ],
    }


def report_metrics(report: MonitorReport, client: str) -> str:
    """The text format of Prometheus."""
    site = _quote(client)
    lines = [
        "# HELP fedlore_monitor_rows Measured rows seen so far.",
        "# TYPE fedlore_monitor_rows gauge",
        f'fedlore_monitor_rows{{site="{site}"}} {report.rows}',
    ]
    for name, text, of in (
        ("evidence", "What a stake of 1 against the claim ever became.", lambda v: v.evidence),
        ("needed", "What the evidence must come to for an alarm.", lambda v: v.needed),
        ("alarm", "1 where the claim is no longer believed.", lambda v: float(v.alarm)),
    ):
        lines += [f"# HELP fedlore_monitor_{name} {text}", f"# TYPE fedlore_monitor_{name} gauge"]
        for v in report.judgements:
            labels = f'site="{site}",question="{_quote(v.question.name)}",kind="{v.question.kind}"'
            lines.append(f"fedlore_monitor_{name}{{{labels}}} {of(v):.6g}")
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def list_judgements(report: MonitorReport, *, most: int | None = None) -> TextTable:
    """The questions, those with most evidence first; `most` leaves out the quiet ones behind."""
    order = sorted(report.judgements, key=lambda v: v.evidence / v.needed, reverse=True)
    shown = order[:most] if most is not None else order
    head = (_HEAD[0], "rows" if report.lots is None else "lots", *_HEAD[2:])
    body = tuple(tuple(Cell(text) for text in _line(v)) for v in shown)
    left = len(order) - len(shown)
    notes = (f"{left} more questions have less evidence.",) if left else ()
    return TextTable("What is monitored, the least certain first", head, body, notes, (0, 2))


def _line(j: Judgement) -> tuple[str, ...]:
    return (j.question.name, str(j.rows), j.claim, f"{j.evidence:.3g}", f"{j.needed:.0f}")


def say_alarms(report: MonitorReport) -> list[str]:
    """One sentence for each alarm, or that there is none, and what is not judged."""
    said = []
    for v in report.alarms:
        seen = f": {v.seen}" if v.seen else ""
        said.append(f"{v.question.name}: no longer {v.claim}, since {v.since}{seen}; {v.advice}")
    if not report.alarms:
        said.append(f"no alarm after {_count(report)}; {say_promise(report)}")
    if report.late:
        said.append(f"{report.late} rows came when their lot was over and are not judged")
    return said


def _count(report: MonitorReport) -> str:
    return f"{report.rows} rows" + ("" if report.lots is None else f" in {report.lots} lots")


def say_promise(report: MonitorReport) -> str:
    """What is promised, and for which rows."""
    units = "the rows come in random order, as independent draws do"
    if report.lots is not None:
        units = "the lots come in random order, however alike the rows of a lot are"
    return (
        f"the chance of ever raising a false one is at most {report.alarm_rate:.0%} over all these "
        f"claims, however often you look, if {units}"
    )


def write_monitor_page(report: MonitorReport, client: str, path: Path) -> None:
    """One HTML page with the courses over time."""
    facts = {
        "site": client,
        "rows": f"{_count(report)}, {report.new} rows of them new",
        "false alarms": say_promise(report),
        "alarms": str(len(report.alarms)),
    }
    reading = (
        "Evidence is what a stake of 1 became that was bet, row by row or lot by lot, against the "
        "claim. While "
        "the claim is true it cannot be expected to grow, so it may be looked at every day.",
        "The line at 1 in the plot is where a question raises its alarm.",
    )
    section = Section(
        "Is it still true?",
        tuple(say_alarms(report)) if report.alarms else (),
        (list_judgements(report),),
        (_draw_courses(report),),
    )
    title = f"Monitor: {client}"
    write_whole(path, page(title, facts=facts, reading=reading, terms={}, sections=[section]))


def _draw_courses(report: MonitorReport) -> DrawnPlot:
    loud = sorted(report.judgements, key=lambda v: v.evidence / v.needed, reverse=True)[:_SHOWN]

    def paint(axes: "Axes") -> None:
        for v in loud:
            line = np.concatenate([[0.0], v.course.capital]) / np.log(v.needed)
            axes.plot(np.arange(len(line)), line, lw=2.2 if v.alarm else 1.1)
            axes.lines[-1].set_label(short_text(v.question.name))
        axes.axhline(1.0, lw=1, ls="--", color="#888888")
        axes.set_ylim(bottom=-0.6)
        units = "rows" if report.lots is None else "lots"
        axes.set_xlabel(f"{units} that say something about the question")
        axes.set_ylabel("evidence, as a share of an alarm")

    caption = "Logarithm of the evidence over that of an alarm, for the questions with most of it."
    return draw(Plot("monitor", "Evidence against each claim", "", caption, 5.0, paint))
