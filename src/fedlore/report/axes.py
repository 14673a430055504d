"""The plots of a report on matplotlib's axes: each takes `ax`, or makes a figure, and returns it.

plot_leaderboard(fitted, "site-1"); plot_trust(read_rows("results/results.jsonl"), ax=ax)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.history import Row
from ..errors import FedloreError
from ..look.page import colour
from ..look.plots import INK, Plot, with_style
from .panels import cases, read_scores
from .plots import name_rows, trust_curve
from .reliability import reliability_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..engine.training import Fitted


def plot_leaderboard(fitted: "Fitted[Any]", client: str, *, ax: "Axes | None" = None) -> "Axes":
    """What a client had to choose from (`fitted.leaderboard()`), with 95 % intervals."""
    found = fitted.benefit(client)
    share = 100.0 if found.measure == "accuracy" else 1.0
    lines = sorted(found.lines, key=lambda one: one.value, reverse=found.measure == "accuracy")

    def paint(axes: "Axes") -> None:
        for i, line in enumerate(lines):
            ends = [[share * (line.value - line.low)], [share * (line.high - line.value)]]
            look: dict[str, Any] = {"markersize": 7, "capsize": 4, "color": colour(line.name)}
            axes.errorbar(share * line.value, i, xerr=ends, fmt="o", **look)
        name_rows(axes, [line.name for line in lines])
        axes.set_xlabel("right on rows not seen, %" if share > 1 else "RMSE on rows not seen")
        axes.set_title(client)

    return _on(ax, paint)


def plot_importance(importance: Mapping[str, float], *, ax: "Axes | None" = None) -> "Axes":
    """Inputs by what `fitted.importance(...)` or a row of `explain` says of them."""
    names = sorted(importance, key=lambda name: -abs(importance[name]))

    def paint(axes: "Axes") -> None:
        axes.barh(range(len(names)), [importance[name] for name in names], color=colour("lore"))
        axes.axvline(0, color=INK, linewidth=1)
        name_rows(axes, names)
        axes.set_xlabel("how much worse without it")

    return _on(ax, paint)


def plot_calibration(fitted: "Fitted[Any]", client: str, *, ax: "Axes | None" = None) -> "Axes":
    """How sure a client's model is and how often right; of a number promised and held."""
    found = fitted.benefit(client)
    number = found.measure == "rmse"
    made = reliability_plot({"lore": found.diagram} if found.diagram else {}, "", "", number=number)
    return _only(made, f"nothing is known of the probabilities of '{client}'", ax)


def plot_trust(rows: Sequence[Row], *, ax: "Axes | None" = None) -> "Axes":
    """Mean accuracy over the trust λ, from the rows of runs that varied it."""
    made = [plot for case in cases(read_scores(rows)) for plot in trust_curve(case, "trust")]
    return _only(made, "the rows have one λ for each approach: run with several", ax)


def _only(made: Sequence[Plot], otherwise: str, ax: "Axes | None") -> "Axes":
    if not made:
        raise FedloreError(otherwise)
    return _on(ax, made[0].paint)


def _on(ax: "Axes | None", paint: "Callable[[Axes], None]") -> "Axes":
    with with_style():
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(layout="constrained")[1]
        paint(ax)
        if len(ax.get_legend_handles_labels()[1]) > 1:
            ax.legend()
    return ax
