"""Rows in, a report out: one HTML page, Markdown tables, plots as files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.history import Row, mean_of
from ..look.page import Section, colour, page, save_page
from ..look.plots import Plot, draw
from ..look.tables import TextTable, literal, markdown
from ..words import say
from . import words
from .panels import Case, Score, by_approach, cases, plain_text, read_scores
from .plots import confusion_matrix, panel_plots, rounds_curve, share_curve, trust_curve
from .reliability import (
    TERMS,
    coverage_table,
    coverages_of,
    diagrams_of,
    probability_table,
    reliability_plot,
)
from .tables import (
    MARKED,
    ScoreColumn,
    case_tables,
    class_tables,
    marks_table,
    mean_scores,
    score_table,
    shown_clients,
)
from .verdict import scores_of, verdict
from .words import caveats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_report(
    rows: Iterable[Row],
    out_dir: str | Path,
    *,
    title: str,
    facts: Mapping[str, str],
    confusion: Iterable[Row] = (),
    history: Iterable[Row] = (),
    classes: Sequence[str] = (),
    unit: str = "",
) -> Path:
    """Write report.html, tables.md and plots/ into a folder; returns the page's path.

    `facts` says what was run; of classes, seeds, settings and versions found in the rows are added
    to it. `classes` are the names of classes that rows have by number, `unit` is that of a number.
    """
    rows, title = list(rows), plain_text(title)
    more: dict[str, str] = {}
    if any("rmse" in row for row in rows):
        sections, reading = [number_section(rows, unit)], list(NUMBER_READING)
        terms = _terms({str(r["approach"]) for r in rows}, {str(r.get("model")) for r in rows})
    else:
        scores = read_scores(rows)
        side = (rows, list(confusion), list(history), classes)
        sections = [_section(case, *side) for case in cases(scores)]
        seeds = len({score.seed for score in scores})
        reading = [words.METRICS, words.ONE_SEED]
        if seeds > 1:
            reading = [words.METRICS, say(words.INTERVALS, seeds=seeds)]
        more = _find(rows, scores)
        terms = _terms({s.approach for s in scores}, {s.model for s in scores})
        terms |= TERMS if diagrams_of(rows) else {}
    shown = {plain_text(k): plain_text(v) for k, v in (*facts.items(), *more.items())}
    headline = sections[0].headline if len(sections) == 1 else ""
    if headline:  # one answer: the page begins with it
        sections = [replace(sections[0], headline="")]
    headline = plain_text(shown.pop("in short", headline))
    html = page(
        title,
        facts={},
        made=shown,
        headline=headline,
        reading=reading,
        terms=terms,
        sections=sections,
    )
    files = {"tables.md": _as_markdown(title, sections), "report.html": html}
    save_page(Path(out_dir), files, [one for section in sections for one in section.plots])
    return Path(out_dir) / "report.html"


def plots(
    case: Case,
    *,
    confusion: Iterable[Row] = (),
    history: Iterable[Row] = (),
    classes: Sequence[str] = (),
) -> list[Plot]:
    """Every plot that a case has something to show in."""
    name = _slug(case.title)
    made: list[Plot] = []
    for panel in case.panels():
        own = name if panel.share is None else f"{name}-{words.percent(panel.share)}"
        made += panel_plots(panel, own)
    made += trust_curve(case, f"{name}-trust")
    made += share_curve(case, f"{name}-share")
    made += rounds_curve(case, history, f"{name}-rounds")
    made += confusion_matrix(case, confusion, f"{name}-confusion", classes)
    return made


def _section(
    case: Case,
    rows: Sequence[Row],
    confusion: Sequence[Row],
    history: Sequence[Row],
    classes: Sequence[str],
) -> Section:
    own, mistakes = ([row for row in some if _belongs(row, case)] for some in (rows, confusion))
    made = plots(case, confusion=confusion, history=history, classes=classes)
    name = f"{_slug(case.title)}-reliability"
    made += reliability_plot(diagrams_of(own), name, case.title, number=False)
    tables = (*case_tables(case), *marks_table(own), *probability_table(own))
    one = len(case.panels()) == 1 and not case.swept("trust")  # one comparison was made
    said = verdict(own) if one else None
    return Section(
        case.title or "Results",
        tuple(words.caveats(case.dataset, case.range)),
        (*tables, *class_tables(mistakes, classes)),
        tuple(draw(plot) for plot in made),
        "" if said is None else said.sentence,
    )


def _belongs(row: Row, case: Case) -> bool:
    own = (case.dataset, case.protocol, case.range)
    return tuple(plain_text(row.get(key)) for key in ("dataset", "protocol", "range")) == own


def _as_markdown(title: str, sections: Sequence[Section]) -> str:
    parts = [f"# {literal(title)}\n"]
    for section in sections:
        parts.append(f"## {literal(section.title)}\n")
        parts += [f"> {literal(text)}\n" for text in section.warnings]
        parts.append(markdown(section.tables))
    return "\n".join(parts)


def _find(rows: Sequence[Row], scores: Sequence[Score]) -> dict[str, str]:
    """What the rows themselves say about how they were made."""
    seeds = sorted({score.seed for score in scores})
    run = seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 2
    found = {
        "seeds": say("{low} to {high}", low=seeds[0], high=seeds[-1])
        if run
        else ", ".join(map(str, seeds))
    }
    for key, name in (("config", "settings (hash)"), ("versions", "versions")):
        values = list(dict.fromkeys(plain_text(row[key]) for row in rows if row.get(key)))
        if values:
            more = f" (+ {len(values) - 6})" if len(values) > 6 else ""
            found[name] = ", ".join(values[:6]) + more
    return found


def _terms(approaches: set[str], models: set[str]) -> dict[str, str]:
    found = {name: text for name, text in words.MEANINGS.items() if name in approaches}
    return found | {f"{n} (model)": text for n, text in words.WHOSE_WEIGHTS.items() if n in models}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "results"


NUMBER_READING = (
    "RMSE is the root of the mean squared error on a client's own test rows, MAE the mean absolute "
    "error, R² the share of the variance that is explained. Outside is the share of "
    "predictions that leave the set of the client's knowledge, without tolerance. Coverage and "
    "width are those of the 90 % prediction intervals. CRPS is the mean distance of the whole "
    "predictive distribution from the number, in its units. Means count every client the same.",
)
#: Column of rows -> its name on the page, and whether less is better.
_SCORES = {
    "rmse": ("RMSE", True),
    "mae": ("MAE", True),
    "r2": ("R²", False),
    "pov": ("outside, %", None),
    "coverage": ("coverage, %", None),
    "width": ("width", None),
    "crps": ("CRPS", True),
}


def number_section(rows: Sequence[Row], unit: str) -> Section:
    """Tables and plots of all rows."""
    kinds = {(str(row.get("dataset")), str(row.get("range"))) for row in rows}
    warnings = tuple(dict.fromkeys(text for kind in sorted(kinds) for text in caveats(*kind)))
    held = reliability_plot(coverages_of(rows), "coverage", "", number=True)
    drawings = tuple(draw(plot) for plot in (_errors(rows, unit), *held))
    tables, said = (*_tables(rows, unit), *coverage_table(rows)), verdict(rows, unit)
    return Section("Results", warnings, tables, drawings, "" if said is None else said.sentence)


def _tables(rows: Sequence[Row], unit: str) -> list[TextTable]:
    """RMSE at every site, and every score on average."""
    clients = shown_clients(list(dict.fromkeys(plain_text(row["client"]) for row in rows)))
    mine = by_approach(rows)
    groups = [
        (c, {name: [r for r in own if r["client"] == c] for name, own in mine.items()})
        for c in clients
    ]
    sites = [_column("mean" if own is mine else c, own, "rmse", less=True)
             for c, own in (*groups, ("", mine))]  # fmt: skip
    scores = [
        _column(head, mine, key, 100.0 if "%" in head else 1.0, less=less)
        for key, (head, less) in _SCORES.items()
    ]
    title = "All scores, mean over clients"
    return [
        score_table(f"RMSE{f' in {unit}' if unit else ''}", mine, sites, _silence(rows)),
        score_table(title, mine, scores),
    ]


def _column(
    head: str, mine: Mapping[str, Sequence[Row]], key: str, scale: float = 1.0, *, less: bool | None
) -> ScoreColumn:
    scores = [scores_of(own, key) for own in mine.values()]
    return ScoreColumn(head, mean_scores(mine, key, scale), less=less, scores=scores)


def _silence(rows: Sequence[Row]) -> list[str]:
    silent = {name: mean_of(mine, "abstained") for name, mine in by_approach(rows).items()}
    return [say(MARKED)] + [
        say(
            "{name} names no number on {share} % of rows; they do not count.",
            name=name,
            share=f"{100 * share:.1f}",
        )
        for name, share in silent.items()
        if share
    ]


def _errors(rows: Sequence[Row], unit: str) -> Plot:
    names = by_approach(rows)

    def paint(axes: "Axes") -> None:
        for i, (name, own) in enumerate(names.items()):
            mine = [float(r["rmse"] or 0.0) for r in own]
            axes.scatter(mine, [i] * len(mine), s=14, color=colour(name), alpha=0.5)
            axes.scatter([sum(mine) / len(mine)], [i], s=60, color=colour(name))
        axes.set_yticks(range(len(names)), list(names))
        axes.invert_yaxis()
        axes.set_xlabel(f"RMSE{f', {unit}' if unit else ''}")

    caption = "Large: the mean over clients; small: each client. Less is better."
    return Plot("errors", "Errors of the approaches", "", caption, 1.2 + 0.3 * len(names), paint)
