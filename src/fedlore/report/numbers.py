"""The report of a run on a number: errors by site in its own units, and how intervals cover."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.history import Row, mean_of
from ..errors import FedloreError
from ..look.page import Section, page
from ..look.plots import Plot, draw, save_drawing
from ..look.style import colour
from ..look.tables import Cell, TextTable, literal, markdown
from .panels import by_convention, plain_text
from .reliability import coverage_table, coverages_of, reliability_plot
from .words import MEANINGS, WHOSE_WEIGHTS, caveats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_READING = (
    "RMSE is the root of the mean squared error on a client's own test rows, MAE the mean absolute "
    "error, R² the share of the variance that is explained. POV is the share of predictions "
    "outside the set that the client's knowledge allows, without tolerance. Coverage and width "
    "are those of the 90 % prediction intervals. CRPS is the mean distance of the whole predictive "
    "distribution from the number, in its units. Means count every client the same.",
)
#: Column of rows -> its name on the page, and whether less is better.
_SCORES = {
    "rmse": ("RMSE", True),
    "mae": ("MAE", True),
    "r2": ("R²", False),
    "pov": ("POV, %", None),
    "coverage": ("coverage, %", None),
    "width": ("width", None),
    "crps": ("CRPS", True),
}


def write_number_report(
    rows: Iterable[Row], out_dir: str | Path, *, title: str, facts: Mapping[str, str], unit: str
) -> Path:
    """Write report.html, tables.md and plots/ into a folder; returns the page's path."""
    rows = list(rows)
    if not rows:
        raise FedloreError("a report needs at least one row, got none")
    tables = (_by_site(rows, unit), _all_scores(rows, unit), *coverage_table(rows))
    kinds = {(str(row.get("dataset")), str(row.get("range"))) for row in rows}
    warnings = tuple(dict.fromkeys(text for kind in sorted(kinds) for text in caveats(*kind)))
    held = reliability_plot(coverages_of(rows), "coverage", "", number=True)
    drawings = tuple(draw(plot) for plot in (_errors(rows, unit), *held))
    section = Section("Results", warnings, tables, drawings)
    approaches = {str(row["approach"]) for row in rows}
    models = {str(row.get("model")) for row in rows}
    terms = {name: text for name, text in MEANINGS.items() if name in approaches}
    terms |= {f"{n} (model)": text for n, text in WHOSE_WEIGHTS.items() if n in models}
    html = page(
        plain_text(title),
        facts={plain_text(k): plain_text(v) for k, v in facts.items()},
        reading=_READING,
        terms=terms,
        sections=[section],
    )
    out = Path(out_dir)
    try:
        (out / "plots").mkdir(parents=True, exist_ok=True)
        for drawing in drawings:
            save_drawing(drawing, out / "plots")
        text = f"# {literal(plain_text(title))}\n\n{markdown(tables)}"
        (out / "tables.md").write_text(text, encoding="utf-8")
        (out / "report.html").write_text(html, encoding="utf-8")
    except OSError as error:
        raise FedloreError(f"cannot write to '{out}': {error.strerror}") from None
    return out / "report.html"


def _by_site(rows: Sequence[Row], unit: str) -> TextTable:
    clients = list(dict.fromkeys(plain_text(row["client"]) for row in rows))
    names = by_convention(str(row["approach"]) for row in rows)
    values = []
    for name in names:
        mine = [row for row in rows if row["approach"] == name]
        each = [mean_of([r for r in mine if r["client"] == c], "rmse") for c in clients]
        values.append([*each, mean_of(mine, "rmse")])
    best = [_best(column, less=True) for column in zip(*values, strict=True)]
    body = tuple(
        (Cell(name), *(Cell(_text(v), i in best[at]) for at, v in enumerate(line)))
        for i, (name, line) in enumerate(zip(names, values, strict=True))
    )
    title = f"RMSE{f' in {unit}' if unit else ''}"
    return TextTable(title, ("approach", *clients, "mean"), body, _silence(rows))


def _all_scores(rows: Sequence[Row], unit: str) -> TextTable:
    names = by_convention(str(row["approach"]) for row in rows)
    columns = []
    for key in _SCORES:
        scale = 100.0 if key in ("pov", "coverage") else 1.0
        found = [mean_of([r for r in rows if r["approach"] == name], key) for name in names]
        columns.append([None if v is None else scale * v for v in found])
    marks = [
        set() if less is None else _best(column, less=less)
        for column, (_, less) in zip(columns, _SCORES.values(), strict=True)
    ]
    body = tuple(
        (Cell(name), *(Cell(_text(c[i]), i in m) for c, m in zip(columns, marks, strict=True)))
        for i, name in enumerate(names)
    )
    head = ("approach", *(shown for shown, _ in _SCORES.values()))
    return TextTable(f"All scores, mean over clients{f' (in {unit})' if unit else ''}", head, body)


def _silence(rows: Sequence[Row]) -> tuple[str, ...]:
    said = ["The best of each column is marked."]
    for name in by_convention(str(row["approach"]) for row in rows):
        silent = mean_of([row for row in rows if row["approach"] == name], "abstained")
        if silent:
            said.append(
                f"{name} names no number on {100 * silent:.1f} % of rows; they do not count."
            )
    return tuple(said)


def _errors(rows: Sequence[Row], unit: str) -> Plot:
    names = by_convention(str(row["approach"]) for row in rows)

    def paint(axes: "Axes") -> None:
        for i, name in enumerate(names):
            mine = [float(r["rmse"] or 0.0) for r in rows if r["approach"] == name]
            axes.scatter(mine, [i] * len(mine), s=14, color=colour(name), alpha=0.5)
            axes.scatter([sum(mine) / len(mine)], [i], s=60, color=colour(name))
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel(f"RMSE{f', {unit}' if unit else ''}")

    caption = "Large: the mean over clients; small: each client. Less is better."
    return Plot("errors", "Errors of the approaches", "", caption, 1.2 + 0.3 * len(names), paint)


def _best(column: Sequence[float | None], *, less: bool) -> set[int]:
    known = [value for value in column if value is not None]
    if len(known) < 2:
        return set()
    best = min(known) if less else max(known)
    return {
        i for i, value in enumerate(column) if value is not None and _text(value) == _text(best)
    }


def _text(value: float | None) -> str:
    if value is None:
        return "–"
    return "0" if value == 0 else f"{value:.4g}"
