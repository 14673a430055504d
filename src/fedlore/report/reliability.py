"""Whether probabilities mean what they say: a diagram, and the scores of probabilities."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..core.history import Row, mean_of
from ..core.metrics import ReliabilityBin, bins_error, bins_interval, merge_bins, read_bins
from ..look.page import colour, marker
from ..look.plots import INK, Plot, short_text
from ..look.tables import Cell, TextTable
from .panels import by_approach

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Column of rows -> its name on the page.
_SCORES = {"nll": "log-loss", "brier": "Brier score", "crps": "CRPS"}
TERMS = {
    "calibration error": "how far the probability of the top label and the share of rows on which "
    "it was right lie apart, on average over 15 bins of equal mass; few rows push it up, and the "
    "interval holds for 90 % of such drawings of rows",
    "log-loss, Brier score, CRPS": "scores of whole distributions, less is better: the mean of "
    "-log p of the label, its squared distance from the label, and the same on an ordered scale, "
    "in classes or in units of the number",
}


def diagrams_of(rows: Sequence[Row]) -> dict[str, list[ReliabilityBin]]:
    """By approach the bins of all clients and seeds together; who has none is left out."""
    drawn = by_approach([row for row in rows if row.get("diagram")])
    return {name: merge_bins(_bins(mine)) for name, mine in drawn.items()}


def _bins(rows: Sequence[Row]) -> list[ReliabilityBin]:
    return [part for row in rows for part in read_bins(str(row["diagram"]))]


def probability_table(rows: Sequence[Row]) -> list[TextTable]:
    """The calibration error with its interval, log-loss, Brier and CRPS of each approach."""
    found = diagrams_of(rows)
    if not found:
        return []
    there = [key for key in _SCORES if any(row.get(key) is not None for row in rows)]
    least = clearly_least(found)
    body: list[tuple[str | Cell, ...]] = [
        (
            name,
            *_error_cells(found.get(name), name == least),
            *(_text(mean_of(mine, k)) for k in there),
        )
        for name, mine in by_approach(rows).items()
    ]
    head = ("approach", "calibration error, %", "90 % interval", *(_SCORES[key] for key in there))
    note = "An approach that names classes without probabilities has nothing here: not known."
    return [TextTable.of("Do probabilities mean what they say", head, body, (note,))]


def scores_table(scores: Mapping[str, float]) -> TextTable:
    """The scores of one model's probabilities."""
    error = f"{100 * scores['ece']:.1f} % ({100 * scores['ece low']:.1f} to "
    body = [("calibration error", f"{error}{100 * scores['ece high']:.1f})")]
    body += [(_SCORES[key], _text(scores[key])) for key in _SCORES if key in scores]
    return TextTable.of("Scores of probabilities", ("score", "value"), body)


def held_table(bins: Sequence[ReliabilityBin]) -> TextTable:
    """Of one model of a number: what its intervals promise and hold."""
    body = [(f"{100 * b.confidence:g} %", f"{100 * b.right:.1f} %") for b in bins]
    return TextTable.of("Labels held by its intervals", ("promised", "held"), body)


def coverage_table(rows: Sequence[Row]) -> list[TextTable]:
    """Of a number: the share of labels that intervals hold, at each level they promise."""
    found = coverages_of(rows)
    if not found:
        return []
    levels = [part.confidence for part in next(iter(found.values()))]
    body = [(name, *(f"{100 * b.right:.1f}" for b in bins)) for name, bins in found.items()]
    head = ("approach", *(f"{100 * level:.0f} % promised" for level in levels))
    note = "Central intervals of each client's own distribution, all clients together."
    return [TextTable.of("Labels held by intervals, %", head, body, (note,))]


def coverages_of(rows: Sequence[Row]) -> dict[str, list[ReliabilityBin]]:
    """By approach the share of labels held at each nominal level, all clients together."""
    found = {}
    for name, mine in by_approach([row for row in rows if row.get("diagram")]).items():
        bins = sorted(_bins(mine), key=lambda part: part.confidence)
        levels = groupby(bins, key=lambda part: part.confidence)
        found[name] = [merge_bins(list(parts), bins=1)[0] for _, parts in levels]
    return found


def reliability_plot(
    curves: Mapping[str, Sequence[ReliabilityBin]], name: str, subtitle: str, *, number: bool
) -> list[Plot]:
    """How sure against how often right; of a number what is promised against what is held."""
    if not curves:
        return []

    def paint(axes: "Axes") -> None:
        axes.plot(
            [0, 100], [0, 100], color=INK, linewidth=1, linestyle=":", label="as it should be"
        )
        for who, bins in curves.items():
            said, right = ([100 * getattr(b, key) for b in bins] for key in ("confidence", "right"))
            bars = _error_bars(bins) if len(curves) == 1 else None
            axes.errorbar(
                said,
                right,
                yerr=bars,
                linewidth=1.5,
                markersize=5,
                color=colour(who),
                marker=marker(who),
                label=short_text(who),
            )
        low = min(100 * b.confidence for bins in curves.values() for b in bins)
        axes.set_xlim(5 * math.floor(low / 5) if number else 0, 100)
        axes.set_ylim(5 * math.floor(low / 5) - 10 if number and low > 10 else 0, 100)
        axes.set_xlabel("promised, %" if number else "probability of the top label, %")
        axes.set_ylabel("labels held, %" if number else "right, % of rows")

    title = "Intervals: promised and held" if number else "How sure, and how often right"
    bars = " Bars: 90 % of drawings of as many rows." if len(curves) == 1 else ""
    less = "more is promised than held" if number else "a model is surer than it may be"
    caption = f"Below the dotted line {less}, above it the reverse.{bars}"
    return [Plot(name, title, subtitle, caption, 3.9, paint)]


def clearly_least(found: Mapping[str, Sequence[ReliabilityBin]]) -> str | None:
    """Whose calibration error is least, its whole interval below all others'."""
    ends = {name: bins_interval(bins) for name, bins in found.items()}
    best = min(found, key=lambda name: bins_error(found[name]))
    clear = all(ends[best][1] < low for name, (low, _) in ends.items() if name != best)
    return best if clear and len(found) > 1 else None


def _error_cells(bins: Sequence[ReliabilityBin] | None, best: bool) -> list[Cell]:
    if bins is None:
        return [Cell("not known"), Cell("–")]
    error, (low, high) = bins_error(bins), bins_interval(bins)
    return [Cell(f"{100 * error:.1f}", best), Cell(f"{100 * low:.1f} to {100 * high:.1f}")]


def _error_bars(bins: Sequence[ReliabilityBin]) -> list[list[float]]:
    """Wilson's interval around each share, as lengths below and above it, in percent."""
    below, above = [], []
    for part in bins:
        z = 1.645**2 / part.rows
        centre = (part.right + z / 2) / (1 + z)
        half = math.sqrt(z * part.right * (1 - part.right) + z * z / 4) / (1 + z)
        below.append(max(100 * (part.right - centre + half), 0.0))
        above.append(max(100 * (centre + half - part.right), 0.0))
    return [below, above]


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
