"""A site's private report: what each way to predict is worth on its own out-of-fold rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...core.metrics import ReliabilityBin
from ...core.rng import stream
from ...core.statistics import wilson
from ...models.benefit import Benefit, BenefitLine, say_gain
from ...models.own.baseline import kind_of_learner
from .rows import SiteRows

WIDE = 1.96  # standard errors of a 95 % interval
RESAMPLES = 400
PARTS = 5  # of the rows, each judged by what the others taught


@dataclass(frozen=True, eq=False)
class StackMember:
    """One member of an ensemble, and its out-of-fold predictions."""

    name: str
    oof: Tensor  # (n, k) log-probabilities or (n,) numbers, of rows that it had not seen
    shared: bool  # whether all sites made it together
    model: Any = None  # None: the network, or the expert himself
    firm: bool = False  # keeps its own doubt, however sharp the others are made


OwnLosses = tuple[StackMember, Tensor]  # an own model, and what it loses on each row, (n,)
Blend = Callable[[Sequence[StackMember], Tensor], Tensor]  # members, rows -> what they say


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a site's final model says of rows that no member of it had seen."""

    diagram: tuple[ReliabilityBin, ...]
    probabilities: dict[str, float]  # scores by name
    scores: Tensor  # (n,) how far labels lie from answers, in [0, 1] or infinite

    def add_to(self, report: Benefit) -> Benefit:
        """The site's report with the diagram and the scores."""
        return replace(report, diagram=self.diagram, probabilities=self.probabilities)


def list_parts(rows: int) -> list[Tensor]:
    """The rows of each part, (n,) bool, which are judged by what was learned from the others."""
    part = torch.arange(rows) % PARTS
    found = [part == place for place in range(PARTS)]
    return [out for out in found if out.any() and not out.all()]


def judge_unseen(
    members: Sequence[StackMember], blend: Blend, *, own: Sequence[OwnLosses], rows: int
) -> Tensor:
    """What the ensemble says of each row, chosen, weighed and tempered by the other rows alone."""
    found: Tensor | None = None
    for out in list_parts(rows):
        said = blend(choose_own(members, own, ~out), ~out)
        found = said.clone() if found is None else found
        found[out] = said[out]
    return blend(members, torch.ones(rows, dtype=torch.bool)) if found is None else found


def choose_own(
    members: Sequence[StackMember], own: Sequence[OwnLosses], rows: Tensor
) -> list[StackMember]:
    """The members with the way each kind of own learner uses the expert chosen by these rows."""
    best: dict[str, StackMember] = {}
    for one, _ in sorted(own, key=lambda pair: float(pair[1][rows].mean())):
        best.setdefault(kind_of_learner(one.name, one.oof), one)
    return [best.get(kind_of_learner(member.name, member.oof), member) for member in members]


def compare(
    errors: Mapping[str, Tensor],  # the loss of each row by who predicts, the ensemble last
    baseline: str,
    *,
    weights: dict[str, float],
    costs: dict[str, float],
    measure: str,
) -> Benefit:
    """The report of a site: a line for each way, and what the ensemble gains over the baseline."""
    *_, ensemble = errors
    rows = len(errors[ensemble])
    lines = tuple(measure_line(name, each, measure) for name, each in errors.items())
    gain = gain_of(errors[baseline], errors[ensemble], measure)
    sentence = say_gain(gain, baseline, rows, measure)
    return Benefit(measure, rows, lines, weights, costs, gain, sentence)


def measure_line(name: str, errors: Tensor, measure: str) -> BenefitLine:
    """A line of a site's table from the loss of each row: accuracy or RMSE, with its interval."""
    mean = float(errors.mean())
    if measure == "accuracy":
        return BenefitLine(name, 1.0 - mean, *wilson(1.0 - mean, len(errors)))
    return BenefitLine(name, mean**0.5, *(end**0.5 for end in mean_interval(errors)))


def mean_interval(losses: Tensor) -> tuple[float, float]:
    """The 95 % interval of the mean of losses of which few are large, such as squared errors.

    Student's ratio of the logarithm of the mean, as it is when rows are drawn again (Hall 1992,
    *The Bootstrap and Edgeworth Expansion*): few rows often lack the large ones, so the interval
    reaches farther up than down.
    """
    n, mean = len(losses), float(losses.mean())
    if n < 2 or not mean > 0.0:
        return mean, mean
    drawn = torch.randint(n, (RESAMPLES, n), generator=stream("benefit", n))
    again = losses.double()[drawn]  # (r, n)
    means = again.mean(1).clamp(min=1e-300)
    error = (again.std(1, correction=0) / means).clamp(min=1e-9)
    low, high = ((means / mean).log() / error).quantile(torch.tensor([0.025, 0.975]).double())
    one = float(losses.std(correction=0)) / mean
    return mean * math.exp(-float(high) * one), mean * math.exp(-float(low) * one)


def gain_of(before: Tensor, after: Tensor, measure: str) -> BenefitLine:
    """How much less the second loses, paired by row, with its interval."""
    gain = before - after
    mean, wide = float(gain.mean()), WIDE * float(gain.std(correction=0)) / len(gain) ** 0.5
    unit = 1.0
    if measure == "rmse":  # a - b of roots is (a² - b²) / (a + b)
        unit = float(before.mean()) ** 0.5 + float(after.mean()) ** 0.5 or 1.0
    return BenefitLine("gain", mean / unit, (mean - wide) / unit, (mean + wide) / unit)


def left_out(site: SiteRows) -> str:
    """Which columns a site does not measure, and members it goes without for its shapes; or ""."""
    schema = site.member.knowledge.schema
    absent = () if schema is None else schema.absent
    said = [f"This site does not measure {', '.join(absent)}."] if absent else []
    return " ".join([*said, *_without_shapes(site)])


def _without_shapes(site: SiteRows) -> list[str]:
    """Which members a site goes without since nothing shows that they keep its shapes."""
    if site.shapes is None:
        return []
    shapes = ", ".join(map(str, site.shapes))
    lost = ["the shared network"] if site.linear else []
    lost += ["own models with products of features"] if site.common.search_space.own else []
    if site.common.search_space.one_shot is not None:
        squares = " and its squares" * site.linear
        lost.append(f"all but the linear part{squares} of the one-shot federation")
    if site.member.knowledge.prediction is not None and not site.hears_expert:
        lost.append("the expert, who is not shown to move so")
    named = " and ".join([", ".join(lost[:-1]), lost[-1]] if len(lost) > 1 else lost)
    return [f"Left out so that the shapes hold for sure ({shapes}): {named}."] if lost else []


def add_line(report: Benefit, name: str, errors: Tensor) -> Benefit:
    """The report with a line for another way to predict."""
    return replace(report, lines=(*report.lines, measure_line(name, errors, report.measure)))
