"""Plans in a table, and promised against true in a figure: from the rows of `studies.decisions`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedlore.core.history import Row
from fedlore.experiments.intervals import MeanInterval, interval
from fedlore.look.plots import INK

EQUATION = "the expert's equation"
FAR = 0.2  # a plan that comes true by so much less than promised
POOR = 0.7  # a true probability below which a plan is a poor one
COLOURS = {
    "lore 1, raw": "#D55E00",
    "mixture, raw": "#CC79A7",
    "expected": "#0072B2",
    "safe": "#009E73",
}


def summary(rows: Sequence[Row]) -> list[str]:
    """The table: a line for each planner and confidence."""
    lines = [
        "| planner | P | drawings | plans | refused | true - promised | median | > 0.2 below | "
        "true < 0.7 | over the oracle | of today's | per tonne |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(str(row["planner"]) for row in rows):
        for level in sorted({_number(row, "confidence") for row in rows}):
            mine = _of(rows, name, level)
            plans = [row for row in mine if row["cost"] is not None]
            seeds = {row["seed"] for row in mine}
            gaps = [_gap(row) for row in plans]
            off, over, cost = (clustered(plans, f) for f in (_gap, _over, _cost))
            today = clustered([r for r in _of(rows, "lore 1, raw", level) if r["cost"]], _over)
            cells = (
                name,
                f"{level:g}",
                f"{len(seeds)}",
                f"{len(plans)}",
                f"{len(mine) - len(plans)}",
                f"{off.mean:+.3f} ± {off.half:.3f}",
                f"{np.median(gaps):+.3f}",
                f"{100 * np.mean(np.array(gaps) < -FAR):.1f} %",
                f"{100 * np.mean([_number(r, 'true') < POOR for r in plans]):.1f} %",
                f"{over.mean:.1f} ± {over.half:.1f}",
                f"{100 * over.mean / today.mean:.0f} %",
                f"{cost.mean:.1f}",
            )
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def clustered(rows: Sequence[Row], value: object) -> MeanInterval:
    """A mean over drawings and its 95 % interval: plans of one drawing share their model."""
    by_seed: dict[object, list[float]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], []).append(value(row))  # type: ignore[operator]
    return interval([float(np.mean(v)) for v in by_seed.values()])


def draw_figure(rows: Sequence[Row], path: Path) -> None:
    """Promised against true: the mean, and where nine of ten plans lie."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.0, 4.5), layout="constrained")
    names = [name for name in COLOURS if any(row["planner"] == name for row in rows)]
    for place, name in enumerate(names):
        colour, shift = COLOURS[name], 0.008 * (place - (len(names) - 1) / 2)
        levels = sorted({_number(row, "confidence") for row in rows})
        plans = [[r for r in _of(rows, name, level) if r["cost"] is not None] for level in levels]
        x = np.array([np.mean([_number(r, "promised") for r in some]) for some in plans]) + shift
        true = [np.array([_number(r, "true") for r in some]) for some in plans]
        low, high = (np.array([np.quantile(t, q) for t in true]) for q in (0.05, 0.95))
        axes.vlines(x, low, high, color=colour, alpha=0.6, linewidth=2)
        axes.plot(x, [t.mean() for t in true], "o", color=colour, label=name)
    axes.plot([0.45, 1.0], [0.45, 1.0], color=INK, linewidth=1, linestyle=":", label="as promised")
    axes.set_xlabel("promised probability of the grade")
    axes.set_ylabel("true probability: mean, and 5 to 95 % of plans")
    axes.set_ylim(0.0, 1.02)
    axes.legend(loc="lower right", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _of(rows: Sequence[Row], name: str, level: float) -> list[Row]:
    return [row for row in rows if row["planner"] == name and row["confidence"] == level]


def _number(row: Row, name: str) -> float:
    return float(row[name] or 0.0)


def _gap(row: Row) -> float:
    """True minus promised; of an expert who says yes or no what was asked for is promised."""
    promised = "confidence" if row["planner"] == EQUATION else "promised"
    return _number(row, "true") - _number(row, promised)


def _over(row: Row) -> float:
    return max(_number(row, "cost") - _number(row, "oracle"), 0.0)


def _cost(row: Row) -> float:
    return _number(row, "cost")
