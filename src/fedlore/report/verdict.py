"""Who is best, and whether that is more than chance: one sentence about all rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.history import Row
from ..experiments.intervals import MeanInterval, pair_interval
from .panels import ShownMetric, by_approach, mean_score, shown_metric

_FEWEST = 3  # sites that an interval over sites needs


@dataclass(frozen=True)
class RunWinner:
    """The best approach by its mean, and those that cannot be told from it."""

    best: str
    score: float
    ties: tuple[str, ...]
    sentence: str


def verdict(rows: Sequence[Row], unit: str = "", metric: str = "") -> RunWinner | None:
    """The winner among approaches that were all run; None where there is nothing to compare.

    Approaches are compared on the same seeds, or where there is one seed on the same sites. One
    whose difference to the best may be 0 is a tie, and a tie is not called a win. Best is by the
    `metric`, where one was asked for.
    """
    by = shown_metric(rows, metric)
    sign = -1.0 if by.less else 1.0
    scores = {name: _scores(mine, by.key) for name, mine in by_approach(rows).items()}
    scores = {name: found for name, found in scores.items() if found}
    if len(scores) < 2:
        return None
    means = {name: mean_score(list(found.values())) for name, found in scores.items()}
    order = sorted(means, key=lambda name: -sign * means[name])
    best, rest = order[0], order[1:]
    gaps = {name: _gap(scores[best], scores[name]) for name in rest}
    ends = {name: gap.low if sign > 0 else -gap.high for name, gap in gaps.items()}
    ties = tuple(name for name in rest if not ends[name] > 0)  # NaN of a single pair is a tie
    shown = _shown(means[best], by, unit)
    if not ties:
        gap, over = gaps[rest[0]], _over(scores[best])
        low, high = sorted(abs(end) for end in (gap.low, gap.high))
        how = f"{100 * low:.1f} to {100 * high:.1f} points more than {rest[0]}, the next"
        if by.less:
            how = f"{low:.3g} to {high:.3g} less than {rest[0]}, the next"
        return RunWinner(best, means[best], ties, f"Best: {best}, {shown} ({how}; 95 % {over}).")
    if math.isnan(gaps[ties[0]].half):
        why = "one seed cannot tell more: --seeds 5 gives intervals"
    else:
        why = f"95 % {_over(scores[best])}"
    names = ", ".join(f"{name} {_shown(means[name], by, unit)}" for name in ties)
    text = f"No clear winner: {best} has the best mean, {shown}, but cannot be told from {names}"
    return RunWinner(best, means[best], ties, f"{text} ({why}).")


def _scores(rows: Sequence[Row], key: str) -> dict[tuple[int, str], float]:
    return {
        (int(row.get("seed") or 0), str(row["client"])): float(row[key] or 0.0)
        for row in rows
        if row.get(key) is not None
    }


def _gap(ours: dict[tuple[int, str], float], theirs: dict[tuple[int, str], float]) -> MeanInterval:
    """The mean difference, paired by seed; where there is one seed, by site."""
    both = [place for place in ours if place in theirs]
    seeds = sorted({seed for seed, _ in both})
    if len(seeds) > 1:
        groups = [[place for place in both if place[0] == seed] for seed in seeds]
    else:
        groups = [[place] for place in both]
    pairs = [[mean_score([side[p] for p in group]) for group in groups] for side in (ours, theirs)]
    found = pair_interval(*pairs)
    return found if len(seeds) > 1 or len(groups) >= _FEWEST else MeanInterval(found.mean, math.nan)


def _over(scores: dict[tuple[int, str], float]) -> str:
    seeds, sites = ({place[i] for place in scores} for i in (0, 1))
    if len(seeds) > 1:
        return f"interval over {len(seeds)} seeds"
    return f"interval over {len(sites)} sites, one seed"


def _shown(value: float, by: ShownMetric, unit: str) -> str:
    if by.key == "ta":
        return f"{100 * value:.1f} %"
    unit = unit if by.key in ("rmse", "mae") else ""
    words = by.words.removesuffix(", %")
    return f"{words} {by.scale * value:{by.form}}{f' {unit}' if unit else ''}"
