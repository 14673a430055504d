"""Tables of plain text, made from scores."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from ..core.history import Row, mean_of
from ..core.metrics import per_class
from ..experiments.intervals import MeanInterval, interval
from ..look.tables import Cell, TextTable
from ..words import say
from . import published
from .panels import (
    Case,
    Line,
    Metric,
    Panel,
    ShownMetric,
    by_approach,
    cases,
    mean_score,
    panel_margins,
    read_scores,
    shown_metric,
)
from .verdict import Scores, rank, scores_of
from .words import SHORT, caveats, percent

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


MARKED = "The best of a column is marked where it can be told from the others."
MANY = 8  # sites: a table with more has their quartiles in place of a column for each
_QUARTILES = ("lowest", "25 %", "median", "75 %", "highest")


def overview(name: str, rows: Sequence[Row], metric: str = "") -> TextTable:
    """Score | violations of every approach at every client, and their mean, on one screen.

    Of many clients there is how the score is spread over them, and after it where it is worst.
    With a `metric` that is the score, and the best approach stands first.
    """
    clients = list(dict.fromkeys(str(row["client"]) for row in rows))
    shown = shown_metric(rows, metric)
    key, scale = shown.key, shown.scale
    body: list[tuple[str | Cell, ...]] = []
    notes = []
    found = by_approach(rows)
    if metric:
        known = {one: mean_of(mine, key) for one, mine in found.items()}
        rank = {one: -v if shown.less else v for one, v in known.items() if v is not None}
        found = {one: found[one] for one in sorted(found, key=lambda o: -rank.get(o, -math.inf))}
    for approach, mine in found.items():
        each = {one: [row for row in mine if row["client"] == one] for one in clients}
        if len(clients) > MANY:
            scores = {one: scale * (mean_of(some, key) or 0.0) for one, some in each.items()}
            cells = [f"{value:{shown.form}}" for value in quartiles(list(scores.values()))]
            if approach == "lore":
                worst = sorted(scores, key=lambda one: scores[one] * (-1 if shown.less else 1))
                said = ", ".join(f"{one} {scores[one]:{shown.form}}" for one in worst[:5])
                notes.append(f"lore is worst at {said}")
        else:
            cells = [_overview(some, shown) for some in each.values()]
        body.append(
            (approach, *cells, Cell(_overview(mine, shown) + _over_seeds(mine, shown), True))
        )
    named = {name: text for name, text in SHORT.items() if name in by_approach(rows)}
    if named:
        notes.append("; ".join(f"{name}: {text}" for name, text in named.items()))
    bound = any(row.get("pov") is not None for row in rows)
    title = f"{name}: {shown.words}" + (" | outside the range, %" if bound else "")
    head = _QUARTILES if len(clients) > MANY else clients
    return TextTable.of(title, ("approach", *head, "mean"), body, notes)


def quartiles(values: Sequence[float]) -> list[float]:
    """The lowest, the quartiles and the highest of values.

    >>> quartiles([1.0, 2.0, 3.0, 4.0, 9.0])
    [1.0, 2.0, 3.0, 4.0, 9.0]
    """
    shares = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0], dtype=torch.float64)
    found: list[float] = torch.tensor(values, dtype=torch.float64).quantile(shares).tolist()
    return found


def _over_seeds(rows: Sequence[Row], shown: ShownMetric) -> str:
    """Half the 95 % interval of the mean over seeds, where there are several."""
    seeds: dict[object, list[Row]] = {}
    for row in rows:
        seeds.setdefault(row.get("seed"), []).append(row)
    means = [mean_of(some, shown.key) for some in seeds.values()]
    known = [shown.scale * value for value in means if value is not None]
    return f" ± {interval(known).half:{shown.form}}" if len(known) > 1 else ""


def _overview(rows: Sequence[Row], shown: ShownMetric) -> str:
    score, pov = mean_of(rows, shown.key), mean_of(rows, "pov")
    text = "–" if score is None else f"{shown.scale * score:{shown.form}}"
    if pov is None:
        return text
    return f"{text} | {100 * pov:.1f}" if pov else f"{text} | 0"


class ScoreColumn(NamedTuple):
    """A score of every approach: how it is shown, and whether less is better, where any is."""

    head: str
    values: Sequence[float | None]
    form: str = ".4g"
    less: bool | None = None
    scores: Sequence[Scores] = ()  # of each approach, to tell whether the best is clearly so

    @property
    def cells(self) -> list[Cell]:
        """The best is marked where it can be told from all others."""
        texts = ["–" if v is None else f"{v:{self.form}}" for v in self.values]
        best = None if self.less is None else clear_best(self.scores, less=self.less)
        return [Cell(text, i == best) for i, text in enumerate(texts)]


def clear_best(scores: Sequence[Scores], *, less: bool) -> int | None:
    """Whose mean is best and cannot be a tie; None where nobody's is."""
    known = {str(i): one for i, one in enumerate(scores) if one}
    if len(known) < 2:
        return None
    found = rank(known, less=less)
    return None if found.ties else int(found.order[0])


def score_table(
    title: str, names: Iterable[str], columns: Sequence[ScoreColumn], notes: Sequence[str] = ()
) -> TextTable:
    """Approaches down, scores across."""
    lines = zip(names, *(column.cells for column in columns), strict=True)
    return TextTable.of(title, ("approach", *(column.head for column in columns)), lines, notes)


#: Column of rows -> its name on the page, by how much it is multiplied, and whether less is better.
MARKS = {
    "balanced": ("balanced accuracy, %", 100.0, False),
    "macro_f1": ("macro F1, %", 100.0, False),
    "grade_error": ("mean error, grades", 1.0, True),
    "kappa": ("quadratic kappa", 1.0, False),
}


def mean_scores(rows: Mapping[str, Sequence[Row]], key: str, scale: float) -> list[float | None]:
    """The mean of a score for each approach, None where it has none."""
    found = (mean_of(mine, key) for mine in rows.values())
    return [None if value is None else scale * value for value in found]


def marks_table(rows: Sequence[Row]) -> list[TextTable]:
    """Balanced accuracy and macro F1; of ordered classes the error in grades and kappa too."""
    mine = by_approach(rows)
    columns = [
        ScoreColumn(
            head,
            mean_scores(mine, key, scale),
            ".1f" if scale > 1 else ".3f",
            less,
            [scores_of(own, key) for own in mine.values()],
        )
        for key, (head, scale, less) in MARKS.items()
        if any(row.get(key) is not None for row in rows)
    ]
    note = (
        "Balanced accuracy is the mean share of each class that was found, macro F1 the mean of "
        "2·right / (named + there) over classes: rare ones count as much as common ones."
    )
    title = "Scores that count every class alike, mean over clients"
    return [score_table(title, mine, columns, (note,))] if columns else []


def class_tables(confusion: Sequence[Row], classes: Sequence[str] = ()) -> list[TextTable]:
    """Precision and recall of each class under every approach, all clients together."""
    if not confusion:
        return []
    k = 1 + max(int(r[side] or 0) for r in confusion for side in ("label", "predicted"))
    found = {}
    for name, rows in by_approach(confusion).items():
        counts = torch.zeros(k, k + 1, dtype=torch.float64)
        for row in rows:
            said = int(row["predicted"] or 0)
            counts[int(row["label"] or 0), said if said >= 0 else k] += int(row["count"] or 0)
        found[name] = per_class(counts)
    words = classes if len(classes) >= k else [str(i) for i in range(k)]
    body = [
        (words[c], *(" | ".join(_percent(two[s], c) for s in (0, 1)) for two in found.values()))
        for c in range(k)
    ]
    return [TextTable.of("Precision | recall of each class, %", ("class", *found), body)]


def _percent(values: torch.Tensor, place: int) -> str:
    value = float(values[place])
    return "–" if value != value else f"{100 * value:.1f}"


def accuracy_table(panel: Panel) -> TextTable:
    """TA of every line at every client and on average; a clear best of a column is marked."""
    paper = [paper_mean(panel.case, line) for line in panel.lines]
    columns: list[list[str | Cell]] = [[line.label for line in panel.lines]]
    columns.append([line.model for line in panel.lines])
    for column, clients in zip(_columns(panel, "ta"), _groups(panel), strict=True):
        scores = [
            {(s.seed, s.client): s.ta for s in line.scores if s.client in clients}
            for line in panel.lines
        ]
        best = clear_best(scores, less=False)
        columns.append([Cell(percent_text(v), i == best) for i, v in enumerate(column)])
    head = ["approach", "model", *shown_clients(panel.clients), "mean"]
    if any(p is not None for p in paper):
        head.append(_papers(panel.case))
        columns.append(["–" if p is None else f"{p:.1f}" for p in paper])
    title = say("Test accuracy, %") + _at(panel)
    body = zip(*columns, strict=True)
    return TextTable.of(title, head, body, _notes(panel), words=(0, 1))


def violations(panel: Panel) -> list[TextTable]:
    """POV of every line at every client and on average, where there is a range to leave."""
    columns = _columns(panel, "pov")
    if all(value is None for column in columns for value in column):
        return []
    names = [line.label for line in panel.lines]
    body = zip(names, *(map(percent_text, column) for column in columns), strict=True)
    title = say("Predictions outside the range, %") + _at(panel)
    note = "0 without a decimal means exactly none, at every seed."
    return [TextTable.of(title, ("approach", *shown_clients(panel.clients), "mean"), body, (note,))]


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
        body.append((*cells, meaning(name, gap)))
    head = ("against", "their accuracy, %", "difference", "95 % interval", "reading")
    title = say("{name} minus the others, points of mean accuracy", name=name) + _at(panel)
    return [TextTable.of(title, head, body, ("Paired by seed.",), words=(0, 4))]


def meaning(name: str, gap: MeanInterval) -> str:
    """A difference in words."""
    if math.isnan(gap.half):
        return say("one seed: no interval")
    if gap.low > 0:
        return say("{name} is better", name=name)
    if gap.high < 0:
        return say("{name} is worse", name=name)
    return say("may be chance")


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
        body.append([*cells, f"{mean_score(pov):.1f}" if pov else ("0" if known else "–")])
    head = (
        "approach",
        *(f"its client {i + 1}" for i in range(clients)),
        "mean accuracy",
        "mean outside",
    )
    notes = [
        "Fan et al. 2022, table 3: 1 % of the training rows, λ = 0.3, oracle ranges, in %. "
        "Its clients drew their classes at random, so its client 1 is not ours: compare means."
    ]
    if case.dataset == "fmnist":
        notes.append(
            "The paper prints the FL column again for ML at clients 2 to 5; what stands here is "
            "from its authors' result file."
        )
    return [TextTable.of("The paper's own numbers, %", head, body, notes)]


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
        name = line.approach if line.trust is None else f"{line.approach}, λ = {line.trust:g}"
        cells = [name, f"{percent(line.share or 0)} %"]
        cells += [percent_text(line.interval("ta", [client])) for client in case.clients]
        cells.append(percent_text(line.interval("ta", case.clients)))
        if some:
            cells.append("–" if theirs is None else f"{theirs:.1f}")
        body.append(cells)
    last = ("mean", _papers(case)) if some else ("mean",)
    head = ("approach", "training rows", *case.clients, *last)
    return [TextTable.of("Test accuracy by share of the training rows, %", head, body)]


def _columns(panel: Panel, metric: Metric) -> list[list[MeanInterval | None]]:
    """A score of each line at each client, and at last on average."""
    return [[line.interval(metric, own) for line in panel.lines] for own in _groups(panel)]


def _groups(panel: Panel) -> list[Sequence[str]]:
    return [*([client] for client in shown_clients(panel.clients)), panel.clients]


def shown_clients(clients: Sequence[str]) -> Sequence[str]:
    """The clients that have a column: of many there is the mean alone."""
    return clients if len(clients) <= MANY else ()


def _is_papers(case: Case) -> bool:
    return case.dataset in PAPER_DATA and case.protocol in PAPER_PROTOCOLS


def _papers(case: Case) -> str:
    return "the paper's mean" if case.range == "oracle" else "the paper's mean (oracle ranges)"


def paper_mean(case: Case, line: Line) -> float | None:
    """What the paper prints for the like of this line; its λ was 0.3."""
    if not _is_papers(case) or line.trust not in (None, 0.3):
        return None
    return published.mean_ta(case.dataset, line.approach, line.share)


def _at(panel: Panel) -> str:
    if panel.share is None:
        return ""
    return say(", at {share} % of the training rows", share=percent(panel.share))


def _notes(panel: Panel) -> list[str]:
    notes = [say(MARKED)] if len(panel.lines) > 1 else []
    for line in panel.lines:
        silent = [s.abstained for s in line.scores if s.abstained]
        if silent:
            share = 100 * sum(silent) / len(line.scores)
            text = "{line} gave no answer on {share} % of rows; they count wrong."
            notes.append(say(text, line=line.label, share=f"{share:.1f}"))
    scores = [score for line in panel.lines for score in line.scores]
    covered = [score.coverage for score in scores if score.coverage is not None]
    widths = [score.width for score in scores if score.width is not None]
    if covered and widths:
        notes.append(
            say(
                "The ranges hold the true class of {share} % of the test rows and allow {width} "
                "classes on average.",
                share=f"{100 * mean_score(covered):.1f}",
                width=f"{mean_score(widths):.1f}",
            )
        )
    if panel.missing:
        notes.append(
            say(
                "Incomplete: {count} scores are missing, so some means stand on fewer seeds. A "
                "mean counts only the seeds that have every client.",
                count=panel.missing,
            )
        )
    return notes
