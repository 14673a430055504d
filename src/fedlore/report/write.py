"""Rows in, a report out: one HTML page, Markdown tables, plots as files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..core.history import Row
from ..look.page import Section, page, save_page
from ..look.plots import Plot, draw
from ..look.tables import literal, markdown
from . import words
from .numbers import NUMBER_READING, number_section
from .panels import Case, Score, cases, plain_text, read_scores
from .plots import confusion_matrix, panel_plots, rounds_curve, share_curve, trust_curve
from .reliability import TERMS, diagrams_of, probability_table, reliability_plot
from .tables import case_tables, class_tables, marks_table


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
        reading, more = _how_to_read(scores), _find(rows, scores)
        terms = _terms({s.approach for s in scores}, {s.model for s in scores})
        terms |= TERMS if diagrams_of(rows) else {}
    shown = {plain_text(k): plain_text(v) for k, v in (*facts.items(), *more.items())}
    html = page(title, facts=shown, reading=reading, terms=terms, sections=sections)
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
    return Section(
        case.title or "Results",
        tuple(words.caveats(case.dataset, case.range)),
        (*tables, *class_tables(mistakes, classes)),
        tuple(draw(plot) for plot in made),
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
    found = {"seeds": f"{seeds[0]} to {seeds[-1]}" if run else ", ".join(map(str, seeds))}
    for key, name in (("config", "settings (hash)"), ("versions", "versions")):
        values = list(dict.fromkeys(plain_text(row[key]) for row in rows if row.get(key)))
        if values:
            more = f" and {len(values) - 6} more" if len(values) > 6 else ""
            found[name] = ", ".join(values[:6]) + more
    return found


def _how_to_read(scores: Sequence[Score]) -> list[str]:
    seeds = len({score.seed for score in scores})
    chance = words.INTERVALS.format(seeds=seeds) if seeds > 1 else words.ONE_SEED
    return [words.METRICS + chance]


def _terms(approaches: set[str], models: set[str]) -> dict[str, str]:
    found = {name: text for name, text in words.MEANINGS.items() if name in approaches}
    return found | {f"{n} (model)": text for n, text in words.WHOSE_WEIGHTS.items() if n in models}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "results"
