"""The figure of the README, from kept results: python -m studies.front

Left, accuracy beside the honest baseline on simulated plants; right, what plans promise and how
often that comes true. Nothing is computed but means.
"""

import re
from pathlib import Path

from fedlore.core.history import read_rows
from fedlore.experiments.intervals import MeanInterval, interval

ROOT = Path(__file__).parent.parent
FIGURE = ROOT / "docs" / "img" / "front.svg"
APPROACHES = ("ML", "FL", "FLwKM", "FL+mask", "local best", "lore")
PLANNERS = {"lore 1, raw": "0.1.0", "expected": "expected", "safe": "safe (default)"}
COLOURS = {"lore 1, raw": "#D55E00", "expected": "#0072B2", "safe": "#009E73"}


def accuracies() -> dict[str, MeanInterval]:
    """Mean test accuracy in %, with its interval over seeds."""
    by: dict[str, dict[object, list[float]]] = {}
    rows = read_rows(ROOT / "results" / "lore3-coke.jsonl")
    for row in (row for row in rows if row["set"] == "coke"):
        seeds = by.setdefault(str(row["approach"]), {})
        seeds.setdefault(row["seed"], []).append(100 * float(row["ta"] or 0.0))
    return {
        name: interval([sum(values) / len(values) for values in by[name].values()])
        for name in APPROACHES
    }


def promises() -> dict[str, list[tuple[float, float, float]]]:
    """Planner -> the confidence asked for, true minus promised on average, half its interval."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for line in (ROOT / "results" / "decisions.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in PLANNERS and (off := re.match(r"([+-][\d.]+) ± ([\d.]+)", cells[5])):
            found.setdefault(cells[0], []).append((float(cells[1]), float(off[1]), float(off[2])))
    return found


def main() -> None:
    """Draw it."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.hashsalt": "fedlore", "svg.fonttype": "path"})
    matplotlib.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10})
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.2, 3.3), layout="constrained")
    found = accuracies()
    for place, (name, value) in enumerate(found.items()):
        colour = {"lore": "#009E73", "local best": "#56606B"}.get(name, "#C3C9D0")
        left.barh(place, value.mean, xerr=value.half, color=colour, height=0.66, ecolor="#333")
        left.text(1, place, f"{value.mean:.1f}", va="center", fontsize=9,
                  color="white" if name in ("lore", "local best") else "#222")  # fmt: skip
    left.set_yticks(range(len(found)), list(found))
    left.set_xlim(0, 60)
    left.set_xlabel("test accuracy, % (40 seeds, 95 % intervals)")
    left.set_title("Accuracy beside what a site gets alone", fontsize=10.5, loc="left")
    right.axhline(0.0, color="#999", linewidth=1)
    for place, (name, points) in enumerate(promises().items()):
        asked, off, half = zip(*points, strict=True)
        ensemble = [x + 0.006 * (place - 1) for x in asked]
        right.errorbar(ensemble, off, half, fmt="o-", color=COLOURS[name], label=PLANNERS[name])
    right.set_ylim(-0.5, 0.2)
    right.set_xlabel("probability asked for")
    right.set_ylabel("true minus promised")
    right.set_title("Plans: did the promise come true?", fontsize=10.5, loc="left")
    right.legend(frameon=False, loc="center", fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
