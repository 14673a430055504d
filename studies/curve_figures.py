"""Figures and the table of the algorithms' curves, made from rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedlore.core.history import Row
from fedlore.errors import FedloreError

BASE = "FedAvg"
EARLY = 15  # rounds: what is reached with a quarter of the budget
NAMES = {"oracle": "oracle ranges", "conformal99": "honest ranges (conformal, 99 %)"}
MB = 1e6


def points(rows: Sequence[Row], label: str, kind: str, axis: str) -> list[tuple[float, float]]:
    """(round or megabytes, mean accuracy over seeds in percent), in order of rounds."""
    own = [r for r in rows if r["algorithm"] == label and r["range"] == kind]
    found = []
    for round in sorted({_number(r, "round") for r in own}):
        here = [r for r in own if r["round"] == round]
        at = round if axis == "round" else sum(_number(r, "bytes") for r in here) / len(here) / MB
        found.append((at, 100 * sum(_number(r, "ta") for r in here) / len(here)))
    return found


def scores(rows: Sequence[Row], label: str, kind: str, round: int) -> list[float]:
    """Accuracy in percent after a round, seed by seed."""
    own = [r for r in rows if (r["algorithm"], r["range"], r["round"]) == (label, kind, round)]
    return [100 * _number(r, "ta") for r in sorted(own, key=lambda r: _number(r, "seed"))]


def table(rows: Sequence[Row], labels: Sequence[str]) -> str:
    """The last and an early score of every algorithm, and how far it is from FedAvg, in Markdown.

    Differences are paired by seed: mean, then the worst and the best drawing.
    """
    last = int(max(_number(r, "round") for r in rows))
    kinds = [kind for kind in NAMES if any(r["range"] == kind for r in rows)]
    head = ["algorithm", "MB"]
    for kind in kinds:
        head += [f"{kind}, {EARLY} rounds", f"{last} rounds", f"against {BASE}"]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for label in labels:
        cells = [label, f"{points(rows, label, kinds[0], 'bytes')[-1][0]:.1f}"]
        for kind in kinds:
            end, base = (scores(rows, name, kind, last) for name in (label, BASE))
            early = scores(rows, label, kind, EARLY)
            gaps = [a - b for a, b in zip(end, base, strict=True)]
            cells += [_mean(early), _mean(end)]
            spread = f"{sum(gaps) / len(gaps):+.1f} ({min(gaps):+.1f} to {max(gaps):+.1f})"
            cells.append("" if label == BASE else spread)
        lines.append(cells)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def draw(
    rows: Sequence[Row], shared: Sequence[str], personal: Sequence[str], out: Path
) -> list[Path]:
    """Accuracy against rounds and against megabytes: one figure each, ranges by row."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise FedloreError("figures need: pip install 'fedlore[plot]'") from None

    kinds = [kind for kind in NAMES if any(r["range"] == kind for r in rows)]
    panels = {"one shared model": [BASE, *_without(shared, BASE)]}
    panels["a model for each client"] = [BASE, *personal]
    made = []
    for axis, name in (("round", "rounds"), ("bytes", "megabytes sent and received by all sites")):
        figure, grid = pyplot.subplots(
            len(kinds), 2, figsize=(10, 3.6 * len(kinds)), sharex="col", sharey="row", squeeze=False
        )
        for i, kind in enumerate(kinds):
            for j, (title, labels) in enumerate(panels.items()):
                _panel(grid[i][j], rows, labels, kind, axis)
                grid[i][j].set_title(f"{title}, {NAMES[kind]}", fontsize=10)
            grid[i][0].set_ylabel("mean test accuracy, %")
        for j, place in enumerate(grid[-1]):
            place.set_xlabel(name)
            place.legend(
                fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.18), frameon=False
            )
            grid[0][j].tick_params(labelbottom=False)
        figure.tight_layout()
        made.append(out / f"accuracy-by-{axis}.png")
        figure.savefig(made[-1], dpi=110, metadata={"Software": None})
        pyplot.close(figure)
    return made


def _panel(place: Any, rows: Sequence[Row], labels: Sequence[str], kind: str, axis: str) -> None:
    bottom = []
    for i, label in enumerate(labels):
        path = points(rows, label, kind, axis)
        style: dict[str, Any] = {"label": label, "color": "black" if i == 0 else f"C{i - 1}"}
        if label.endswith("finish"):  # differs from its algorithm after the last round only
            place.plot(*path[-1], "*", markersize=11, **style)
        elif axis == "bytes" and path[-1][0] == 0:  # nothing travels: a level, not a path
            place.axhline(path[-1][1], linestyle="--", linewidth=1.2, **style)
        else:
            place.plot(*zip(*path, strict=True), linewidth=2.2 if i == 0 else 1.3, **style)
        bottom += [y for _, y in path[len(path) // 5 :]]  # the start would squeeze the rest
    place.set_ylim(bottom=min(bottom) - 1)
    place.grid(alpha=0.3)


def _without(labels: Sequence[str], one: str) -> list[str]:
    return [label for label in labels if label != one]


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.1f}"


def _number(row: Row, name: str) -> float:
    value = row[name]
    assert isinstance(value, int | float)
    return value
