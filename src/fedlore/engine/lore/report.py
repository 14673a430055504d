"""A site's private report: what each way to predict is worth on its own out-of-fold rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...core.metrics import ReliabilityBin
from ...models.benefit import Benefit, BenefitLine
from .rows import SiteRows

WIDE = 1.96  # standard errors of a 95 % interval
PARTS = 5  # in which a choice is tried on rows that it was not made by


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a site's final model says of rows that no member of it had seen."""

    diagram: tuple[ReliabilityBin, ...]
    probabilities: dict[str, float]  # scores by name
    scores: Tensor  # (n,) how far labels lie from answers, in [0, 1]
    said: Tensor  # (n, k) probabilities, or (n,) numbers

    def add_to(self, report: Benefit) -> Benefit:
        """The site's report with the diagram and the scores."""
        return replace(report, diagram=self.diagram, probabilities=self.probabilities)


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
    sentence = _sentence(gain, baseline, rows, measure)
    return Benefit(measure, rows, lines, weights, costs, gain, sentence)


def cross_chosen(own: Sequence[Tensor], losses: Any, rows: int) -> Tensor:
    """What the best own model says of each row, chosen by its losses on the other rows.

    Chosen by the same rows the best of a dozen models would look better than it is.
    """
    each = torch.stack([losses(said) for said in own])  # (j, n)
    part = torch.arange(rows) % PARTS
    found = own[int(each.mean(1).argmin())].clone()
    for place in range(PARTS):
        out = part == place
        if out.any() and not out.all():
            best = own[int(each[:, ~out].mean(1).argmin())]
            found[out] = best[out]
    return found


def measure_line(name: str, errors: Tensor, measure: str) -> BenefitLine:
    """A line of a site's table from the loss of each row: accuracy or RMSE, with its interval."""
    n, mean = len(errors), float(errors.mean())
    wide = WIDE * float(errors.std(correction=0)) / n**0.5
    if measure == "rmse":
        low, high = max(mean - wide, 0.0), mean + wide
        return BenefitLine(name, mean**0.5, low**0.5, high**0.5)
    # Wilson 1927: it is right for few rows and for shares near 0 and 1
    right, z = 1.0 - mean, WIDE**2 / n
    centre = (right + z / 2) / (1 + z)
    half = (z * right * (1 - right) + z * z / 4) ** 0.5 / (1 + z)
    return BenefitLine(name, right, max(centre - half, 0.0), min(centre + half, 1.0))


def gain_of(before: Tensor, after: Tensor, measure: str) -> BenefitLine:
    """How much less the second loses, paired by row, with its interval."""
    gain = before - after
    mean, wide = float(gain.mean()), WIDE * float(gain.std(correction=0)) / len(gain) ** 0.5
    unit = 1.0
    if measure == "rmse":  # a - b of roots is (a² - b²) / (a + b)
        unit = float(before.mean()) ** 0.5 + float(after.mean()) ** 0.5 or 1.0
    return BenefitLine("gain", mean / unit, (mean - wide) / unit, (mean + wide) / unit)


def _sentence(gain: BenefitLine, against: str, rows: int, measure: str) -> str:
    scale, unit = (100.0, " points of accuracy") if measure == "accuracy" else (1.0, " of RMSE")
    digits = ".1f" if measure == "accuracy" else ".3g"
    said = (
        f"{scale * gain.value:+{digits}}{unit} over {against} "
        f"({scale * gain.low:+{digits}} to {scale * gain.high:+{digits}}, {rows} rows)"
    )
    if gain.low > 0:
        return f"Taking part pays for this site: {said}."
    if gain.high < 0:
        return f"Taking part does not pay for this site: {said}."
    likely = "is likely to pay" if gain.value > 0 else "is not likely to pay"
    return f"Taking part {likely} for this site, but its rows cannot prove it: {said}."


def left_out(site: SiteRows) -> str:
    """Which members a site goes without since nothing shows that they keep its shapes; or ""."""
    if site.shapes is None:
        return ""
    shapes = ", ".join(map(str, site.shapes))
    lost = ["own models with products of features"] if site.common.search_space.own else []
    if site.common.search_space.one_shot is not None:
        lost.append("all but the linear part of the one-shot federation")
    if site.member.knowledge.prediction is not None and not site.hears_expert:
        lost.append("the expert, who is not shown to move so")
    named = " and ".join([", ".join(lost[:-1]), lost[-1]] if len(lost) > 1 else lost)
    return f"Left out so that the shapes hold for sure ({shapes}): {named}." if lost else ""
