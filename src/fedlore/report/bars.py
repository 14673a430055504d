"""Plots that compare approaches: means, clients, differences."""

import math
from typing import TYPE_CHECKING

from ..experiments.intervals import MeanInterval
from ..look.palette import colour, shades
from ..look.plots import INK, Plot, short_text
from .panels import Metric, Panel, panel_margins
from .tables import meaning, paper_mean
from .words import percent, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CLIENTS = 12  # bars of more do not fit a page; the tables have them all


def panel_plots(panel: Panel, name: str, subtitle: str) -> list[Plot]:
    """The plots of one panel: mean TA, TA and POV by client, differences."""
    if panel.share is not None:
        subtitle = f"{subtitle} · {percent(panel.share)} % of rows".removeprefix(" · ")
    made = [_means(panel, f"{name}-means", subtitle)]
    for metric in ("ta", "pov"):
        made += _clients(panel, metric, f"{name}-{metric}", subtitle)
    if panel.seeds > 1:
        made += _differences(panel, f"{name}-differences", subtitle)
    return made


def _means(panel: Panel, name: str, subtitle: str) -> Plot:
    lines = [line for line in panel.lines if line.interval("ta", panel.clients)]
    paper = [paper_mean(panel, line) for line in lines]

    def paint(axes: "Axes") -> None:
        for i, line in enumerate(lines):
            value = line.interval("ta", panel.clients)
            assert value is not None
            axes.errorbar(
                100 * value.mean,
                i,
                xerr=_half(value),
                fmt="o",
                markersize=7,
                capsize=4,
                color=colour(line.approach),
                label=_dot(panel) if i == 0 else None,
            )
        told = [(value, i) for i, value in enumerate(paper) if value is not None]
        if told:
            axes.scatter(*zip(*told, strict=True), marker="D", facecolors="none", edgecolors=INK,
                         label="the paper's mean")  # fmt: skip
        _rows(axes, [line.label for line in lines])
        axes.set_xlabel("mean test accuracy (TA), %")

    caption = f"Mean over clients. {spread(panel.seeds, 'Whiskers')} The axis need not start at 0."
    height = 1.2 + 0.3 * len(lines)
    return Plot(name, "Accuracy of the approaches", subtitle, caption, height, paint)


def _clients(panel: Panel, metric: Metric, name: str, subtitle: str) -> list[Plot]:
    clients = panel.clients[:MOST_CLIENTS]
    lines = [line for line in panel.lines if line.interval(metric, clients[:1])]
    caption = f"One bar per approach. {spread(panel.seeds, 'Whiskers')}"
    if metric == "pov":
        never = [line.label for line in lines if not any(s.pov for s in line.scores)]
        lines = [line for line in lines if line.label not in never]
        if never:
            caption += f" Exactly 0 at every client and seed, so without a bar: {', '.join(never)}."
    if not lines:
        return []
    if len(clients) < len(panel.clients):
        caption += f" The first {len(clients)} of {len(panel.clients)} clients."
    height = 0.8 / len(lines)
    alphas = shades([line.approach for line in lines])

    def paint(axes: "Axes") -> None:
        for i, line in enumerate(lines):
            known = [(j, line.interval(metric, [client])) for j, client in enumerate(clients)]
            found = [(j, value) for j, value in known if value is not None]
            axes.barh(
                [j + (i + 0.5) * height - 0.4 for j, _ in found],
                [100 * value.mean for _, value in found],
                height * 0.9,
                xerr=[_half(value) or 0.0 for _, value in found] if panel.seeds > 1 else None,
                color=colour(line.approach),
                alpha=alphas[i],
                error_kw={"ecolor": INK, "elinewidth": 0.8, "capsize": 1.5},
                label=short_text(line.label),
            )
        _rows(axes, list(clients))
        axes.grid(visible=False, axis="y")
        axes.set_xlim(left=0)
        axes.set_xlabel(_UNITS[metric])

    size = 1.3 + len(clients) * max(0.4, 0.14 * len(lines))
    return [Plot(name, _TITLES[metric], subtitle, caption, size, paint)]


_UNITS = {"ta": "test accuracy (TA), %", "pov": "predictions outside the range (POV), %"}
_TITLES = {"ta": "Accuracy at each client", "pov": "Violations at each client"}


def _differences(panel: Panel, name: str, subtitle: str) -> list[Plot]:
    gaps = panel_margins(panel)
    if not gaps or panel.reference is None:
        return []
    ours = panel.reference.label

    def paint(axes: "Axes") -> None:
        axes.axvline(0, color=INK, linewidth=1)
        told = set()
        for i, (line, _, gap) in enumerate(gaps):
            reading = meaning(ours, gap)
            clear = reading != "may be chance"
            axes.errorbar(
                100 * gap.mean,
                i,
                xerr=_half(gap),
                fmt="o",
                markersize=7,
                capsize=4,
                color=colour(line.approach),
                markerfacecolor=colour(line.approach) if clear else "none",
                label=None if clear in told else _CLEAR[clear],
            )
            told.add(clear)
        _rows(axes, [line.label for line, _, _ in gaps])
        axes.set_xlabel(f"TA of {ours} minus theirs, points")

    caption = (
        f"To the right of 0, {ours} is better. Whiskers are 95 % intervals of the difference, "
        "paired by seed."
    )
    title = f"{ours} against the others"
    height = 1.2 + 0.3 * len(gaps)
    return [Plot(name, title, subtitle, caption, height, paint)]


_CLEAR = {True: "interval excludes 0", False: "interval includes 0: may be chance"}


def _rows(axes: "Axes", names: list[str]) -> None:
    """Names down the side, the first on top."""
    axes.set_yticks(range(len(names)), [short_text(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _half(value: MeanInterval) -> float | None:
    return None if math.isnan(value.half) else 100 * value.half


def _dot(panel: Panel) -> str:
    return "mean, 95 % interval" if panel.seeds > 1 else "mean over clients"
