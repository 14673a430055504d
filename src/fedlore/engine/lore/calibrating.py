"""How sharp the members of a mixture should be, so that its probabilities mean what they say.

Members that are right about their own doubts make a mixture that doubts too much: what they
disagree in counts twice. One factor on all their log-probabilities, found in private on rows that
none of them had seen, undoes that (temperature scaling: Guo, Pleiss, Sun, Weinberger 2017). It is
kept where each member keeps its own width, so bundles, graphs and certificates hold it as it is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from ...answers import Measured
from ...answers.scores import quantile_score
from ...core.conformal import class_misses, number_misses
from ...core.inject import fill_trust
from ...core.reliability import (
    ReliabilityBin,
    bins_error,
    bins_interval,
    brier,
    held_shares,
    ranked_score,
    reliability,
)
from ...personal.brought import Brought
from ...personal.distribution import Distribution
from ...personal.own.members import ClassMember, OrderMember
from ...personal.own.mixture import NumberMixture, mix
from ...personal.tasks.regression import LEVEL, NOMINAL, SCORED_LEVELS
from .private import EXPERT, Unseen, Voice, cross_mixed

#: Few rows must not decide alone: the factor is drawn to 5/4, the best of development seeds.
USUAL, APART = 1.25, 0.3  # the middle, and the sd of its logarithm
_FACTORS: tuple[float, ...] = tuple(2.0 ** (i / 6) for i in range(-4, 10))
#: Of a number, times the root of the mean squared miss.
_WIDTHS: tuple[float, ...] = tuple(2.0 ** (i / 8) for i in range(-16, 17))

_M = TypeVar("_M")


@dataclass(frozen=True, eq=False)
class UnseenJudged:
    """What a site's final model says of rows that no member of it had seen."""

    diagram: tuple[ReliabilityBin, ...]
    probabilities: dict[str, float]  # scores by name
    scores: Tensor  # (n,) how far labels lie from answers, in [0, 1]
    said: Tensor  # (n, k) probabilities, or (n,) numbers

    def tell(self, brought: Brought) -> Brought:
        """The site's table with the diagram and the scores."""
        return replace(brought, diagram=self.diagram, probabilities=self.probabilities)


def try_classes(unseen: Unseen, factor: float) -> UnseenJudged:
    """The mixture as it will answer, its weights learned from other rows than it is judged on."""
    y, lean = unseen.y, unseen.lean

    def mixed(some: Sequence[Voice], weights: Tensor) -> Tensor:
        parts = torch.stack([temper(voice, factor).exp() for voice in some])
        if lean is None:
            return mix(parts, weights.tolist())
        others = torch.tensor([voice.name != EXPERT for voice in some])
        one = float(weights[~others].sum())
        return mix(parts[others], weights[others].tolist(), unseen.prior, fill_trust(lean, one))

    said = cross_mixed(unseen.voices, unseen.weigh, mixed, len(y))
    likely = said.gather(1, y.unsqueeze(1)).squeeze(1)
    diagram = reliability(said, y)
    low, high = bins_interval(diagram)
    found = {"ece": bins_error(diagram), "ece low": low, "ece high": high}
    loss = -float(likely.log().mean())
    found |= {"nll": loss} if math.isfinite(loss) else {}
    found["brier"] = brier(said, y)
    found |= {"crps": ranked_score(said, y)} if unseen.ordered else {}
    return UnseenJudged(tuple(diagram), found, class_misses(said, y), said)


def try_number(centre: Tensor, told: Measured, width: float) -> UnseenJudged:
    """Intervals of the final width around numbers that members found without having seen them."""
    y = told.y
    assert y is not None
    bell = NumberMixture((_Number(centre),), (1.0,), width=width)
    spread = Distribution.spread(bell.probabilities(told), told.bins, told.sets)
    ends = [spread.interval(level) for level in NOMINAL]
    low, high = (torch.stack(side, 1) for side in zip(*ends, strict=True))
    diagram = held_shares(low, high, y, NOMINAL)
    quantiles = torch.stack([spread.quantile(q) for q in SCORED_LEVELS], 1)
    inner = torch.stack(spread.interval(LEVEL), 1)
    found = {"crps": quantile_score(quantiles, y, SCORED_LEVELS)}
    return UnseenJudged(tuple(diagram), found, number_misses(centre, inner, y), centre)


def mixture_sharpness(voices: Sequence[Voice], share: Mapping[str, float], y: Tensor) -> float:
    """The factor under which rows that no member had seen are likeliest, given their weights."""
    unseen = Unseen(tuple(voices), share, y, False, 1.0)
    if not any(share.get(voice.name, 0.0) > 0.0 for voice in voices):
        return 1.0

    def cost(factor: float) -> float:
        drawn = 0.5 * (math.log(factor / USUAL) / APART) ** 2
        return float(mixed_losses(unseen, factor).sum()) + drawn

    return min(_FACTORS, key=cost)


def mixed_losses(unseen: Unseen, factor: float) -> Tensor:
    """The log-loss of each row under the mixture with a factor, (n,)."""
    share = unseen.share
    kept = [voice for voice in unseen.voices if share.get(voice.name, 0.0) > 0.0]
    total = sum(share[voice.name] for voice in kept)
    weights = [share[voice.name] / total for voice in kept]
    weights[0] += 1.0 - sum(weights)
    parts = torch.stack([temper(voice, factor).exp() for voice in kept])
    likely = mix(parts, weights).gather(1, unseen.y.unsqueeze(1)).clamp(min=1e-9)
    return -likely.log().squeeze(1)


def sharpen(member: _M, factor: float) -> _M:
    """A member whose log-probabilities are so many times as steep.

    Of a bell that is a width less by the root; the one-round model keeps its own doubt, which
    plans are promised by.
    """
    if isinstance(member, OrderMember):
        return replace(member, width=member.width / math.sqrt(factor))
    if isinstance(member, ClassMember):
        return replace(member, sharpness=member.sharpness * factor)
    return member


def number_width(centre: Tensor, told: Measured, usual: float) -> float:
    """The width under which 90 % intervals hold as many unseen rows as conformal sets would.

    Intervals around a number grow with the width, so they are nested sets: the least width that
    holds ⌈(n + 1)·0.9⌉ of n out-of-fold rows (Gupta, Kuchibhotla, Ramdas 2022). Fewer than nine
    rows cannot promise that; they keep the widest that any of them needs.
    """
    y = told.y
    assert y is not None
    wanted = min(math.ceil((len(told) + 1) * LEVEL - 1e-9), len(told))
    for factor in _WIDTHS:
        bell = NumberMixture((_Number(centre),), (1.0,), width=factor * usual)
        spread = Distribution.spread(bell.probabilities(told), told.bins, told.sets)
        low, high = spread.interval(LEVEL)
        if int(((low <= y) & (y <= high)).sum()) >= wanted:
            return factor * usual
    return _WIDTHS[-1] * usual


@dataclass(frozen=True, eq=False)
class _Number:
    said: Tensor

    def number(self, known: Measured) -> Tensor:
        return self.said


def temper(voice: Voice, factor: float) -> Tensor:
    """What a voice says of unseen rows, as steep as it will be, (n, k) log-probabilities."""
    held = voice.held.double()
    if voice.firm:
        return held
    return torch.log_softmax(factor * held, 1)
