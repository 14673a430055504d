"""The report of a run on a number: errors by site in its own units, and how intervals cover."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.history import Row, mean_of
from ..look.page import Section
from ..look.plots import Plot, draw
from ..look.style import colour
from ..look.tables import TextTable
from .panels import by_approach, plain_text
from .reliability import coverage_table, coverages_of, reliability_plot
from .tables import ScoreColumn, mean_scores, score_table, shown_clients
from .words import caveats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    return Section("Results", warnings, (*_tables(rows, unit), *coverage_table(rows)), drawings)


def _tables(rows: Sequence[Row], unit: str) -> list[TextTable]:
    """RMSE at every site, and every score on average."""
    clients = shown_clients(list(dict.fromkeys(plain_text(row["client"]) for row in rows)))
    mine = by_approach(rows)
    sites = [
        ScoreColumn(c, [mean_of([r for r in own if r["client"] == c], "rmse")
                        for own in mine.values()], less=True)
        for c in clients
    ]  # fmt: skip
    sites.append(ScoreColumn("mean", mean_scores(mine, "rmse", 1.0), less=True))
    scores = [
        ScoreColumn(head, mean_scores(mine, key, 100.0 if "%" in head else 1.0), less=less)
        for key, (head, less) in _SCORES.items()
    ]
    title = f"All scores, mean over clients{f' (in {unit})' if unit else ''}"
    return [
        score_table(f"RMSE{f' in {unit}' if unit else ''}", mine, sites, _silence(rows)),
        score_table(title, mine, scores),
    ]


def _silence(rows: Sequence[Row]) -> list[str]:
    silent = {name: mean_of(mine, "abstained") for name, mine in by_approach(rows).items()}
    return ["The best of each column is marked."] + [
        f"{name} names no number on {100 * share:.1f} % of rows; they do not count."
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
