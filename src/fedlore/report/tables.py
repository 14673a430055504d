"""Tables of plain text, made from scores."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..core.history import Row, mean_of
from ..experiments.intervals import MeanInterval
from ..look.tables import Cell, TextTable
from . import published
from .panels import Case, Line, Metric, Panel, cases, mean_score, panel_margins, read_scores
from .words import caveats, percent

PAPER_DATA, PAPER_PROTOCOLS = ("covtype", "fmnist"), ("paper", "fair")


def tables(rows: Iterable[Row]) -> list[TextTable]:
    """Every table that the rows have something to say in, case after case."""
    found = cases(read_scores(rows))
    made = []
    for case in found:
        own = case_tables(case)
        # a table may travel without its report, and then the warning travels with it
        own[0] = replace(own[0], notes=(*own[0].notes, *caveats(case.dataset, case.range)))
        before = f"{case.title}: " if case.title else ""
        made += [replace(table, title=before + table.title) for table in own]
    return made


def case_tables(case: Case) -> list[TextTable]:
    """The tables of one case: accuracy, violations, differences, the paper's numbers, shares."""
    made: list[TextTable] = []
    for panel in case.panels():
        made.append(accuracy_table(panel))
        made += violations(panel)
        made += differences(panel)
    made += print_tables(case)
    made += by_share(case)
    return made


def percent_text(value: MeanInterval | None, digits: int = 1) -> str:
    """A fraction in percent with its interval; an exact zero is written 0.

    >>> one, two = MeanInterval(0.852, 0.004), MeanInterval(0.5, math.nan)
    >>> percent_text(one), percent_text(two), percent_text(None)
    ('85.2 ± 0.4', '50.0', '–')
    """
    if value is None:
        return "–"
    if value.mean == 0 and not value.half > 0:
        return "0"
    text = f"{100 * value.mean:.{digits}f}"
    return text if math.isnan(value.half) else f"{text} ± {100 * value.half:.{digits}f}"


def overview(name: str, rows: Sequence[Row]) -> TextTable:
    """Score | violations of every approach at every client, and their mean, on one screen."""
    clients = list(dict.fromkeys(str(row["client"]) for row in rows))
    scored = "RMSE" if any("rmse" in row for row in rows) else "test accuracy"
    body = []
    for approach in dict.fromkeys(str(row["approach"]) for row in rows):
        mine = [row for row in rows if row["approach"] == approach]
        cells = [_overview([row for row in mine if row["client"] == one]) for one in clients]
        body.append((Cell(approach), *map(Cell, cells), Cell(_overview(mine), True)))
    title = f"{name}: {scored} | violations, %"
    return TextTable(title, ("approach", *clients, "mean"), tuple(body))


def _overview(rows: Sequence[Row]) -> str:
    error, pov = mean_of(rows, "rmse"), mean_of(rows, "pov")
    shown = f"{100 * (mean_of(rows, 'ta') or 0.0):.1f}" if error is None else f"{error:.4g}"
    if pov is None:
        return shown
    return f"{shown} | {100 * pov:.1f}" if pov else f"{shown} | 0"


def accuracy_table(panel: Panel) -> TextTable:
    """TA of every line at every client and on average, the best of each column marked."""
    paper = [paper_mean(panel, line) for line in panel.lines]
    columns = [_score(panel, "ta", [client]) for client in panel.clients]
    columns.append(_score(panel, "ta", panel.clients))
    texts = [[percent_text(value) for value in column] for column in columns]
    best = [_best(column) for column in columns]
    body = []
    for i, line in enumerate(panel.lines):
        cells = [Cell(line.label), Cell(line.model)]
        cells += [Cell(t[i], i in b) for t, b in zip(texts, best, strict=True)]
        if any(p is not None for p in paper):
            cells.append(Cell("–" if paper[i] is None else f"{paper[i]:.1f}"))
        body.append(tuple(cells))
    head = ["approach", "model", *panel.clients, "mean"]
    if any(p is not None for p in paper):
        head.append(_papers(panel))
    title = f"Test accuracy (TA), %{_at(panel)}"
    return TextTable(title, tuple(head), tuple(body), tuple(_notes(panel)), words=(0, 1))


def violations(panel: Panel) -> list[TextTable]:
    """POV of every line at every client and on average, where there is a range to leave."""
    columns = [_score(panel, "pov", [client]) for client in panel.clients]
    columns.append(_score(panel, "pov", panel.clients))
    if all(value is None for column in columns for value in column):
        return []
    body = [
        tuple([Cell(line.label), *(Cell(percent_text(column[i])) for column in columns)])
        for i, line in enumerate(panel.lines)
    ]
    title = f"Predictions outside the range (POV), %{_at(panel)}"
    note = "0 without a decimal means exactly none, at every seed."
    return [TextTable(title, ("approach", *panel.clients, "mean"), tuple(body), (note,))]


def differences(panel: Panel) -> list[TextTable]:
    """The reference against every other line, paired by seed."""
    gaps = panel_margins(panel)
    if not gaps or panel.reference is None or panel.seeds < 2:
        return []
    name = panel.reference.label
    body = []
    for line, theirs, gap in gaps:
        span = "–" if math.isnan(gap.half) else f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}"
        cells = (line.label, f"{100 * theirs.mean:.1f}", f"{100 * gap.mean:+.1f}", span)
        body.append(tuple(Cell(text) for text in (*cells, meaning(name, gap))))
    head = ("against", "their TA, %", "difference", "95 % interval", "reading")
    title = f"{name} minus the others, points of mean TA{_at(panel)}"
    return [TextTable(title, head, tuple(body), ("Paired by seed.",), words=(0, 4))]


def meaning(name: str, gap: MeanInterval) -> str:
    """A difference in words."""
    if math.isnan(gap.half):
        return "one seed: no interval"
    if gap.low > 0:
        return f"{name} is better"
    if gap.high < 0:
        return f"{name} is worse"
    return "may be chance"


def print_tables(case: Case) -> list[TextTable]:
    """The numbers that the paper prints for the same data and ranges, client by client."""
    if not _is_papers(case) or case.range != "oracle":
        return []
    columns, out = published.TA[case.dataset], published.POV[case.dataset]
    clients = len(columns["FLwKM"])
    body = []
    for name, values in columns.items():
        pov = out.get(name)
        cells = [name, *(f"{v:g}" for v in values), f"{mean_score(values):.1f}"]
        known = name not in ("ML", "FL") or pov is not None
        cells.append(f"{mean_score(pov):.1f}" if pov else ("0" if known else "–"))
        body.append(tuple(Cell(text) for text in cells))
    head = ("approach", *(f"its client {i + 1}" for i in range(clients)), "mean TA", "mean POV")
    notes = [
        "Fan et al. 2022, table 3: 1 % of the training rows, λ = 0.3, oracle ranges, TA in %. "
        "Its clients drew their classes at random, so its client 1 is not ours: compare means."
    ]
    if case.dataset == "fmnist":
        notes.append(
            "The paper prints the FL column again for ML at clients 2 to 5; the TA shown for ML is "
            "from its authors' result file."
        )
    return [TextTable("The paper's own numbers, %", head, tuple(body), tuple(notes))]


def by_share(case: Case) -> list[TextTable]:
    """TA by share of the training rows, for approaches that were run at several."""
    groups = case.swept("share")
    if not groups:
        return []
    lines = [line for group in groups for line in group]
    paper = [paper_mean(case, line) for line in lines]
    some = any(p is not None for p in paper)
    body = []
    for line, theirs in zip(lines, paper, strict=True):
        cells = [_without_share(line), f"{percent(line.share or 0)} %"]
        cells += [percent_text(line.interval("ta", [client])) for client in case.clients]
        cells.append(percent_text(line.interval("ta", case.clients)))
        if some:
            cells.append("–" if theirs is None else f"{theirs:.1f}")
        body.append(tuple(Cell(text) for text in cells))
    last = ("mean", _papers(case)) if some else ("mean",)
    head = ("approach", "training rows", *case.clients, *last)
    return [TextTable("Test accuracy (TA) by share of the training rows, %", head, tuple(body))]


def _without_share(line: Line) -> str:
    return line.approach if line.trust is None else f"{line.approach}, λ = {line.trust:g}"


def _score(panel: Panel, metric: Metric, clients: Sequence[str]) -> list[MeanInterval | None]:
    return [line.interval(metric, clients) for line in panel.lines]


def _best(column: Sequence[MeanInterval | None]) -> set[int]:
    """Where the highest mean stands; values that read the same are marked the same."""
    shown = [None if value is None else round(100 * value.mean, 1) for value in column]
    known = [value for value in shown if value is not None]
    if len(known) < 2:
        return set()
    return {i for i, value in enumerate(shown) if value == max(known)}


def _is_papers(case: Case | Panel) -> bool:
    return case.dataset in PAPER_DATA and case.protocol in PAPER_PROTOCOLS


def _papers(case: Case | Panel) -> str:
    return "the paper's mean" if case.range == "oracle" else "the paper's mean (oracle ranges)"


def paper_mean(case: Case | Panel, line: Line) -> float | None:
    """What the paper prints for the like of this line; its λ was 0.3."""
    if not _is_papers(case) or line.trust not in (None, 0.3):
        return None
    return published.mean_ta(case.dataset, line.approach, line.share)


def _at(panel: Panel) -> str:
    return "" if panel.share is None else f", at {percent(panel.share)} % of the training rows"


def _notes(panel: Panel) -> list[str]:
    notes = ["The best of each column is marked."] if len(panel.lines) > 1 else []
    for line in panel.lines:
        silent = [s.abstained for s in line.scores if s.abstained]
        if silent:
            share = 100 * sum(silent) / len(line.scores)
            notes.append(f"{line.label} gave no answer on {share:.1f} % of rows; they count wrong.")
    scores = [score for line in panel.lines for score in line.scores]
    covered = [score.coverage for score in scores if score.coverage is not None]
    widths = [score.width for score in scores if score.width is not None]
    if covered and widths:
        notes.append(
            f"The ranges hold the true class of {100 * mean_score(covered):.1f} % of the test rows "
            f"and allow {mean_score(widths):.1f} classes on average."
        )
    if panel.missing:
        notes.append(
            f"Incomplete: {panel.missing} scores are missing, so some means stand on fewer seeds. "
            "A mean counts only the seeds that have every client."
        )
    return notes
