"""Who is best, and whether that is more than chance: one sentence about all rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.history import Row
from ..experiments.intervals import MeanInterval, pair_interval
from ..words import say
from .panels import ShownMetric, by_approach, mean_score, shown_metric

_FEWEST = 3  # sites that an interval over sites needs


@dataclass(frozen=True)
class RunWinner:
    """The best approach by its mean, and those that cannot be told from it."""

    best: str
    score: float
    ties: tuple[str, ...]
    sentence: str


Scores = dict[tuple[int, str], float]  # by seed and site


@dataclass(frozen=True)
class Ranking:
    """Approaches by their mean, the best first, and what is known of their distance to it."""

    order: tuple[str, ...]
    means: dict[str, float]
    gaps: dict[str, MeanInterval]  # of the best minus each other one
    ties: tuple[str, ...]  # those that cannot be told from the best


def rank(scores: Mapping[str, Scores], *, less: bool) -> Ranking:
    """Approaches compared on the same seeds, or where there is one seed on the same sites.

    One whose difference to the best may be 0 is a tie.
    """
    means = {name: mean_score(list(found.values())) for name, found in scores.items()}
    order = sorted(means, key=lambda name: means[name] if less else -means[name])
    best, rest = order[0], order[1:]
    gaps = {name: _gap(scores[best], scores[name]) for name in rest}
    ends = {name: -gap.high if less else gap.low for name, gap in gaps.items()}
    ties = tuple(name for name in rest if not ends[name] > 0)  # NaN of a single pair is a tie
    return Ranking(tuple(order), means, gaps, ties)


def verdict(rows: Sequence[Row], unit: str = "", metric: str = "") -> RunWinner | None:
    """The winner among approaches that were all run; None where there is nothing to compare.

    A tie is not called a win. Best is by the `metric`, where one was asked for.
    """
    by = shown_metric(rows, metric)
    scores = {name: scores_of(mine, by.key) for name, mine in by_approach(rows).items()}
    scores = {name: found for name, found in scores.items() if found}
    if len(scores) < 2:
        return None
    ranking = rank(scores, less=by.less)
    best, means, ties = ranking.order[0], ranking.means, ranking.ties
    over = _over(scores[best])
    if not ties:
        gap, next_one = ranking.gaps[ranking.order[1]], ranking.order[1]
        low, high = sorted(abs(end) for end in (gap.low, gap.high))
        text = (
            "{best} is right on {score} of test rows: {low} to {high} points more than {next}, the "
            "next best (95 % {over})."
        )
        ends = {"low": f"{100 * low:.1f}", "high": f"{100 * high:.1f}"}
        if by.less:
            text = "{best} misses least, {score}: {low} to {high} less than {next}, the next best "\
                "(95 % {over})."  # fmt: skip
            ends = {"low": f"{low:.3g}", "high": f"{high:.3g}"}
        elif by.key != "ta":
            text = "{best} is best, {score}: {low} to {high} points more than {next}, the next "\
                "(95 % {over})."  # fmt: skip
        shown = _shown(means[best], by, unit)
        said = say(text, best=best, score=shown, next=next_one, over=over, **ends)
        return RunWinner(best, means[best], ties, said)
    why = f"95 % {over}"
    if math.isnan(ranking.gaps[ties[0]].half):
        why = say("one seed cannot tell more: --seeds 5 gives intervals")
    said = say(
        "No clear winner: {best} has the best mean, {score}, but cannot be told from {others} "
        "({why}).",
        best=best,
        score=_shown(means[best], by, unit),
        others=", ".join(f"{name} {_shown(means[name], by, unit)}" for name in ties),
        why=why,
    )
    return RunWinner(best, means[best], ties, said)


def scores_of(rows: Sequence[Row], key: str) -> Scores:
    """A score by seed and site."""
    return {
        (int(row.get("seed") or 0), str(row["client"])): float(row[key] or 0.0)
        for row in rows
        if row.get(key) is not None
    }


def _gap(ours: Scores, theirs: Scores) -> MeanInterval:
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


def _over(scores: Scores) -> str:
    seeds, sites = ({place[i] for place in scores} for i in (0, 1))
    if len(seeds) > 1:
        return say("interval over {count} seeds", count=len(seeds))
    return say("interval over {count} sites, one seed", count=len(sites))


def _shown(value: float, by: ShownMetric, unit: str) -> str:
    if by.key == "ta":
        return f"{100 * value:.1f} %"
    unit = unit if by.key in ("rmse", "mae") else ""
    words = by.words.removesuffix(", %")
    return f"{words} {by.scale * value:{by.form}}{f' {unit}' if unit else ''}"
