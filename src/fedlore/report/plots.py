"""The plots of a report: bars by approach, curves over rounds and shares, heat of confusions."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.history import Row
from ..errors import FedloreError
from ..experiments.intervals import MeanInterval, interval
from ..look.page import colour, marker, shades
from ..look.plots import INK, Plot, short_text
from .panels import (
    Case,
    Line,
    Metric,
    Panel,
    Score,
    by_convention,
    label,
    natural,
    panel_margins,
    plain_text,
    read_scores,
)
from .tables import paper_mean
from .words import percent, seeds_in_words, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CLIENTS = 12  # bars of more do not fit a page; the tables have them all


def panel_plots(panel: Panel, name: str) -> list[Plot]:
    """The plots of one panel: mean TA, TA and POV by client, differences."""
    subtitle = panel.case.title
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
    paper = [paper_mean(panel.case, line) for line in lines]
    dots = "mean, 95 % interval" if panel.seeds > 1 else "mean over clients"

    def paint(axes: "Axes") -> None:
        for i, line in enumerate(lines):
            value = line.interval("ta", panel.clients)
            assert value is not None
            _dot(axes, i, value, line, label=None if i else dots)
        shown = [(value, i) for i, value in enumerate(paper) if value is not None]
        if shown:
            axes.scatter(*zip(*shown, strict=True), marker="D", facecolors="none", edgecolors=INK,
                         label="the paper's mean")  # fmt: skip
        name_rows(axes, [line.label for line in lines])
        axes.set_xlabel("mean test accuracy, %")

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
        name_rows(axes, list(clients))
        axes.grid(visible=False, axis="y")
        axes.set_xlim(left=0)
        axes.set_xlabel(_UNITS[metric])

    size = 1.3 + len(clients) * max(0.4, 0.14 * len(lines))
    return [Plot(name, _TITLES[metric], subtitle, caption, size, paint)]


_UNITS = {"ta": "test accuracy, %", "pov": "predictions outside the range, %"}
_TITLES = {"ta": "Accuracy at each client", "pov": "Violations at each client"}


def _differences(panel: Panel, name: str, subtitle: str) -> list[Plot]:
    gaps = panel_margins(panel)
    if not gaps or panel.reference is None:
        return []
    ours = panel.reference.label

    def paint(axes: "Axes") -> None:
        axes.axvline(0, color=INK, linewidth=1)
        shown = set()
        for i, (line, _, gap) in enumerate(gaps):
            clear = not gap.low <= 0 <= gap.high
            fill = {} if clear else {"markerfacecolor": "none"}
            _dot(axes, i, gap, line, label=None if clear in shown else _CLEAR[clear], **fill)
            shown.add(clear)
        name_rows(axes, [line.label for line, _, _ in gaps])
        axes.set_xlabel(f"accuracy of {ours} minus theirs, points")

    caption = (
        f"To the right of 0, {ours} is better. Whiskers are 95 % intervals of the difference, "
        "paired by seed."
    )
    title = f"{ours} against the others"
    height = 1.2 + 0.3 * len(gaps)
    return [Plot(name, title, subtitle, caption, height, paint)]


_CLEAR = {True: "interval excludes 0", False: "interval includes 0: may be chance"}


def name_rows(axes: "Axes", names: list[str]) -> None:
    """Names down the side, the first on top."""
    axes.set_yticks(range(len(names)), [short_text(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _half(value: MeanInterval) -> float | None:
    return None if math.isnan(value.half) else 100 * value.half


def _dot(axes: "Axes", at: int, value: MeanInterval, line: Line, **more: Any) -> None:
    """A mean with its whiskers, in the line's colour."""
    look: dict[str, Any] = {"markersize": 7, "capsize": 4, "color": colour(line.approach), **more}
    axes.errorbar(100 * value.mean, at, xerr=_half(value), fmt="o", **look)


_Point = tuple[float, float, float]  # where, mean in percent, half of its interval (or NaN)


def trust_curve(case: Case, name: str) -> list[Plot]:
    """Mean TA over λ, where it was varied."""
    curves = [(_group(g), g[0].approach, _points(case, g, "trust")) for g in case.swept("trust")]
    caption = f"λ = 0 leaves the expert unheard at the output. {spread(_seeds(case), 'Bands')}"
    where = (name, "Accuracy over the trust λ", case.title, caption)
    return _curve_plot(where, curves, "trust in the expert, λ")


def share_curve(case: Case, name: str) -> list[Plot]:
    """Mean TA over the share of the training rows, where it was varied."""
    groups = case.swept("share")
    curves = [(_group(g), g[0].approach, _points(case, g, "share", 100)) for g in groups]
    shown = [
        (100 * (line.share or 0.0), value)
        for group in groups
        for line in group
        if (value := paper_mean(case, line)) is not None and line.approach == "FLwKM"
    ]
    ticks = sorted({100 * (line.share or 0.0) for group in groups for line in group})

    def finish(axes: "Axes") -> None:
        if shown:
            axes.scatter(*zip(*shown, strict=True), marker="D", facecolors="none", edgecolors=INK,
                         zorder=3, label="FLwKM in the paper")  # fmt: skip
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)

    caption = f"Mean over clients. {spread(_seeds(case), 'Bands')}"
    where = (name, "Accuracy over the share of training rows", case.title, caption)
    return _curve_plot(where, curves, "share of the training rows, % (log scale)", finish)


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
    seeds = len({row["seed"] for row in rows})
    caption = f"Mean over clients on their own test rows. {spread(seeds, 'Bands')}"
    others = {score.approach for score in case.scores} - {line.approach for line in lines}
    if others:
        caption += f" Without a history of their own: {', '.join(by_convention(others))}."
    where = (name, "Accuracy over the rounds", case.title, caption)
    return _curve_plot(where, curves, "round")


def _curve_plot(
    where: tuple[str, str, str, str],  # name, title, subtitle, caption
    curves: Sequence[tuple[str, str, Sequence[_Point]]],
    across: str,
    finish: "Callable[[Axes], None]" = lambda axes: None,
) -> list[Plot]:
    """Mean TA along something that was varied; nothing where it was not."""

    def paint(axes: "Axes") -> None:
        _curves(axes, curves)
        finish(axes)
        axes.set_xlabel(across)
        axes.set_ylabel("mean accuracy, % of test rows")

    return [Plot(*where, 3.7, paint)] if curves else []


def _round(row: Row) -> int:
    at = row.get("round")
    if type(at) is not int or at < 0:
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


def _points(case: Case, lines: Sequence[Line], of: str, scale: float = 1) -> list[_Point]:
    every = [(line, list(line.seeds("ta", case.clients).values())) for line in lines]
    return [_point(scale * getattr(line, of), values) for line, values in every if values]


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


BLUE = "#3d9ad9"  # seen on white and on black
LEGEND = (0.05, 0.25, 1.0)
MOST_NUMBERS = 10  # classes whose cells still have room for a number
ABSTAINS = "no answer"


def confusion_matrix(
    case: Case, rows: Iterable[Row], name: str, names: Sequence[str] = ()
) -> list[Plot]:
    """Labels against predictions, summed over clients and seeds, for lore or the next best known.

    Where shares or trusts vary, the first of them is shown. `names` are those of the classes, where
    the rows have their numbers.
    """
    called = {str(place): plain_text(word) for place, word in enumerate(names)}
    mine = belonging(case, rows)
    known = {plain_text(row.get("approach")) for row in mine}
    chosen = next((a for a in ("lore", "FLwKM", *sorted(known)) if a in known), None)
    if chosen is None:
        return []
    mine = [row for row in mine if plain_text(row.get("approach")) == chosen]
    for key in ("share", "trust"):
        first = mine[0].get(key)
        mine = [row for row in mine if row.get(key) == first]
    counts = _counts(mine)
    classes = sorted({c for pair in counts for c in pair} - {ABSTAINS}, key=natural)
    guesses = [*classes, ABSTAINS] if any(p == ABSTAINS for _, p in counts) else classes
    totals = {l: sum(counts[l, p] for p in guesses) for l in classes}
    total = sum(totals.values())
    right = sum(counts[c, c] for c in classes) / total

    def paint(axes: "Axes") -> None:
        from matplotlib.colors import to_rgba

        cells = [
            (i, j, counts[label, guess] / totals[label])
            for i, label in enumerate(classes)
            for j, guess in enumerate(guesses)
            if counts[label, guess]
        ]
        axes.bar(
            [j for _, j, _ in cells],
            1,
            1,
            [i - 0.5 for i, _, _ in cells],
            color=[to_rgba(BLUE, _alpha(share)) for _, _, share in cells],
            linewidth=0,
        )
        for i, j, share in cells if len(guesses) <= MOST_NUMBERS else ():
            axes.text(j, i, f"{100 * share:.0f}", ha="center", va="center", fontsize=10)
        for share in LEGEND:
            axes.scatter([], [], marker="s", s=80, color=BLUE, alpha=_alpha(share), linewidth=0,
                         label=f"{100 * share:.0f} % of row")  # fmt: skip
        axes.set_xlim(-0.5, len(guesses) - 0.5)
        axes.set_ylim(len(classes) - 0.5, -0.5)
        across, down = (
            [short_text(called.get(name, name)) for name in guesses],
            [short_text(called.get(name, name)) for name in classes],
        )
        axes.set_xticks(range(len(guesses)), across, rotation=90 if _wide(across) else 0)
        axes.set_yticks(range(len(classes)), down)
        axes.tick_params(labelsize=11 if len(classes) <= 12 else 9)
        axes.grid(visible=False)
        axes.set_xlabel("predicted class")
        axes.set_ylabel("true class")

    caption = (
        f"Of the test rows with a label (a row of squares), the share predicted as each class, %. "
        f"{total} predictions of all clients, {seeds_in_words(mine)}; {100 * right:.1f} % of them "
        "are right (the diagonal)."
    )
    title = f"Confusion matrix of {chosen}"
    height = min(1.5 + 0.27 * max(len(classes), 8), 7.0)
    shown = [called.get(name, name) for name in guesses]
    if _wide(shown):
        height += 0.1 * min(24, max(len(name) for name in shown))
    return [Plot(name, title, case.title, caption, height, paint)]


def _counts(rows: Iterable[Row]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for row in rows:
        count = row.get("count")
        if type(count) is not int or count < 0:
            raise FedloreError(f"confusion: count must be a whole number, got {count!r}")
        if row.get("label") is None or row.get("predicted") is None:
            raise FedloreError("confusion: a row needs 'label' and 'predicted'")
        guess = ABSTAINS if row["predicted"] == -1 else plain_text(row["predicted"])
        found[plain_text(row["label"]), guess] += count
    return found


def _alpha(share: float) -> float:
    """Opacity by the root of a share, so that rare mistakes are seen."""
    return float(0.78 * share**0.5)


def _wide(names: list[str]) -> bool:
    return max(len(name) for name in names) * len(names) > 45
