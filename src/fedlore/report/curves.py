"""Plots over something that was varied: trust, share of the rows, rounds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.history import Row
from ..errors import FedloreError
from ..experiments.intervals import interval
from ..look.palette import colour, marker, shades
from ..look.plots import INK, Plot, short_text
from .panels import Case, Line, label
from .scores import Score, by_convention, plain_text, read_scores
from .tables import paper_mean
from .words import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Point = tuple[float, float, float]  # where, mean in percent, half of its interval (or NaN)


def trust_curve(case: Case, name: str) -> list[Plot]:
    """Mean TA over λ, where it was varied."""
    groups = case.swept("trust")
    if not groups:
        return []
    curves = [(_group(g), g[0].approach, _points(case, g, "trust")) for g in groups]

    def paint(axes: "Axes") -> None:
        _curves(axes, curves)
        axes.set_xlabel("trust in the expert, λ")
        axes.set_ylabel("mean TA, % of test rows")

    caption = f"λ = 0 leaves the expert unheard at the output. {spread(_seeds(case), 'Bands')}"
    return [Plot(name, "Accuracy over the trust λ", case.title, caption, 3.7, paint)]


def share_curve(case: Case, name: str) -> list[Plot]:
    """Mean TA over the share of the training rows, where it was varied."""
    groups = case.swept("share")
    if not groups:
        return []
    curves = [(_group(g), g[0].approach, _points(case, g, "share")) for g in groups]
    told = [
        (100 * (line.share or 0.0), value)
        for group in groups
        for line in group
        if (value := paper_mean(case, line)) is not None and line.approach == "FLwKM"
    ]
    ticks = sorted({100 * (line.share or 0.0) for group in groups for line in group})

    def paint(axes: "Axes") -> None:
        scaled = [(n, a, [(100 * x, y, half) for x, y, half in p]) for n, a, p in curves]
        _curves(axes, scaled)
        if told:
            axes.scatter(*zip(*told, strict=True), marker="D", facecolors="none", edgecolors=INK,
                         zorder=3, label="FLwKM in the paper")  # fmt: skip
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("share of the training rows, % (log scale)")
        axes.set_ylabel("mean TA, % of test rows")

    caption = f"Mean over clients. {spread(_seeds(case), 'Bands')}"
    title = "Accuracy over the share of training rows"
    return [Plot(name, title, case.title, caption, 3.7, paint)]


def rounds_curve(case: Case, history: Iterable[Row], name: str) -> list[Plot]:
    """Mean TA after each scored round, from the history rows that belong to this case."""
    rows = [
        {"approach": "model", "seed": 0, **row} for row in belonging(case, history) if "ta" in row
    ]
    if not rows:
        return []
    by_round: dict[int, list[Score]] = {}
    for row in rows:
        by_round.setdefault(_round(row), []).extend(read_scores([row]))
    lines = label(read_scores(rows))
    curves = [(line.label, line.approach, _over(line, by_round)) for line in lines]

    def paint(axes: "Axes") -> None:
        _curves(axes, curves)
        axes.set_xlabel("round")
        axes.set_ylabel("mean TA, % of test rows")

    seeds = len({row["seed"] for row in rows})
    caption = f"Mean over clients on their own test rows. {spread(seeds, 'Bands')}"
    others = {score.approach for score in case.scores} - {line.approach for line in lines}
    if others:
        caption += f" Without a history of their own: {', '.join(by_convention(others))}."
    return [Plot(name, "Accuracy over the rounds", case.title, caption, 3.7, paint)]


def _round(row: Row) -> int:
    at = row.get("round")
    if isinstance(at, bool) or not isinstance(at, int) or at < 0:
        raise FedloreError(f"history: round must be a whole number, got {at!r}")
    return at


def _over(line: Line, by_round: Mapping[int, Sequence[Score]]) -> list[_Point]:
    """One line after each of its rounds."""
    clients = sorted({score.client for score in line.scores})
    made = []
    for at, scores in sorted(by_round.items()):
        mine = tuple(score for score in scores if line.covers(score))
        values = list(replace(line, scores=mine).seeds("ta", clients).values())
        if values:
            made.append(_point(at, values))
    return made


def belonging(case: Case, rows: Iterable[Row]) -> list[Row]:
    """The rows that say nothing against belonging to this case."""
    keys = ("dataset", "protocol", "range")
    return [
        row
        for row in rows
        if all(key not in row or plain_text(row[key]) == getattr(case, key) for key in keys)
    ]


def _seeds(case: Case) -> int:
    return len({score.seed for score in case.scores})


def _group(lines: Sequence[Line]) -> str:
    """One name for lines of a sweep: what they share."""
    first = lines[0].label.split(", ")
    shared = [part for part in first if all(part in line.label.split(", ") for line in lines)]
    return ", ".join(shared) or lines[0].approach


def _points(case: Case, lines: Sequence[Line], of: str) -> list[_Point]:
    made = []
    for line in lines:
        values = list(line.seeds("ta", case.clients).values())
        if values:
            made.append(_point(float(getattr(line, of)), values))
    return made


def _point(at: float, values: Sequence[float]) -> _Point:
    found = interval(values)
    return at, 100 * found.mean, 100 * found.half


def _curves(axes: "Axes", curves: Sequence[tuple[str, str, Sequence[_Point]]]) -> None:
    """A line with markers for each (name, approach, points), and a band where it has one."""
    alphas = shades([approach for _, approach, _ in curves])
    for (name, approach, points), alpha in zip(curves, alphas, strict=True):
        if not points:
            continue
        x, mean, half = zip(*points, strict=True)
        axes.plot(
            x,
            mean,
            color=colour(approach),
            alpha=alpha,
            marker=marker(approach),
            markersize=5,
            markevery=max(1, len(x) // 10),
            label=short_text(name),
        )
        if not any(math.isnan(h) for h in half):
            low = [m - h for m, h in zip(mean, half, strict=True)]
            high = [m + h for m, h in zip(mean, half, strict=True)]
            axes.fill_between(x, low, high, color=colour(approach), alpha=0.13, linewidth=0)
