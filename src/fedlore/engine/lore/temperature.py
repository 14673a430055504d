"""Temperature and width: how sure an ensemble is, so that its probabilities mean what they say.

Members that are right about their own doubts make an ensemble that doubts too much: what they
disagree in counts twice. One factor on all their log-probabilities, found in private on rows that
none of them had seen, undoes that (temperature scaling: Guo, Pleiss, Sun, Weinberger 2017). It is
kept where each member keeps its own width, so bundles, graphs and certificates hold it as it is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...answers import Measured
from ...answers.scores import quantile_score
from ...core.conformal import class_misses, number_misses
from ...core.examples import Examples
from ...core.inject import fill_trust
from ...core.metrics import bins_error, bins_interval, brier, held_shares, ranked_score, reliability
from ...models.distribution import Distribution
from ...models.own.members import ClassMember, OrderMember
from ...models.own.mixture import NumberMixture, mix
from ...models.regressor import LEVEL, NOMINAL, SCORED_LEVELS
from .report import PARTS, Verdict
from .rows import nll_rows

NETWORK, EXPERT = "network", "expert"
#: Few rows must not decide alone: the factor is drawn to 5/4, the best of development seeds.
USUAL, APART = 1.25, 0.3  # the middle, and the sd of its logarithm
_FACTORS: tuple[float, ...] = tuple(2.0 ** (i / 6) for i in range(-4, 10))
_NETWORK: tuple[float, ...] = tuple(2.0 ** (i / 4) for i in range(-12, 5))  # of logits
#: Of a number, times the root of the mean squared miss.
_WIDTHS: tuple[float, ...] = tuple(2.0 ** (i / 8) for i in range(-16, 17))

_M = TypeVar("_M")


@dataclass(frozen=True, eq=False)
class StackMember:
    """One member of an ensemble, and its out-of-fold predictions."""

    name: str
    oof: Tensor  # (n, k) log-probabilities or (n,) numbers, of rows that it had not seen
    shared: bool  # whether all sites made it together
    model: Any = None  # None: the network, or the expert himself
    firm: bool = False  # keeps its own doubt, however sharp the others are made


Weigh = Callable[[Sequence[StackMember], Tensor], Tensor]  # members, rows (bool) -> weights
Mix = Callable[[Sequence[StackMember], Tensor], Tensor]  # members, weights -> what they say


def cross_mixed(
    members: Sequence[StackMember], weigh: Weigh, mixed: Mix, rows: int, without: str | None = None
) -> Tensor:
    """What the ensemble says of each row, with weights learned from the other rows."""
    some = [member for member in members if member.name != without]
    part = torch.arange(rows) % PARTS
    found: Tensor | None = None
    for place in range(PARTS):
        out = part == place
        if not out.any() or out.all():
            continue
        said = mixed(some, weigh(some, ~out))
        found = torch.zeros_like(said) if found is None else found
        found[out] = said[out]
    return mixed(some, weigh(some, torch.ones(rows, dtype=torch.bool))) if found is None else found


def temper(member: StackMember, factor: float) -> Tensor:
    """What a member says of unseen rows, as steep as it will be, (n, k) log-probabilities."""
    said = member.oof.double()
    return said if member.firm else torch.log_softmax(factor * said, 1)


def network_factor(logits: Tensor, rows: Examples) -> float:
    """The factor on a network's logits under which rows that it had not seen are likeliest."""
    costs = [float(nll_rows(s * logits, rows).mean()) for s in _NETWORK]
    _, best = min(zip(costs, _NETWORK, strict=True))
    return best


def best_factor(members: Sequence[StackMember], share: Mapping[str, float], y: Tensor) -> float:
    """The inverse temperature under which rows that no member had seen are likeliest."""
    kept = [member for member in members if share.get(member.name, 0.0) > 0.0]
    if not kept:
        return 1.0
    total = sum(share[member.name] for member in kept)
    weights = [share[member.name] / total for member in kept]
    weights[0] += 1.0 - sum(weights)

    def cost(factor: float) -> float:
        parts = torch.stack([temper(member, factor).exp() for member in kept])
        likely = mix(parts, weights).gather(1, y.unsqueeze(1)).clamp(min=1e-9)
        drawn = 0.5 * (math.log(factor / USUAL) / APART) ** 2
        return float(-likely.log().squeeze(1).sum()) + drawn

    return min(_FACTORS, key=cost)


def apply_temperature(member: _M, factor: float) -> _M:
    """A member whose log-probabilities are so many times as steep.

    Of a bell that is a width less by the root; the one-shot model keeps its own doubt, which
    plans are promised by.
    """
    if isinstance(member, OrderMember):
        return replace(member, width=member.width / math.sqrt(factor))
    if isinstance(member, ClassMember):
        return replace(member, inverse_temperature=member.inverse_temperature * factor)
    return member


def judge_classes(
    members: Sequence[StackMember],
    weigh: Weigh,
    y: Tensor,
    factor: float,
    *,
    ordered: bool,
    prior: Tensor | None = None,  # (n, k) what the expert says
    trust: Tensor | None = None,  # (n,) his weight in each row, NaN where it is the one number
) -> Verdict:
    """The ensemble as it will answer, its weights learned from other rows than it is judged on."""

    def mix_tempered(some: Sequence[StackMember], weights: Tensor) -> Tensor:
        parts = torch.stack([temper(member, factor).exp() for member in some])
        if trust is None:
            return mix(parts, weights.tolist())
        others = torch.tensor([member.name != EXPERT for member in some])
        one = float(weights[~others].sum())
        return mix(parts[others], weights[others].tolist(), prior, fill_trust(trust, one))

    said = cross_mixed(members, weigh, mix_tempered, len(y))
    likely = said.gather(1, y.unsqueeze(1)).squeeze(1)
    diagram = reliability(said, y)
    low, high = bins_interval(diagram)
    found = {"ece": bins_error(diagram), "ece low": low, "ece high": high}
    loss = -float(likely.log().mean())
    found |= {"nll": loss} if math.isfinite(loss) else {}
    found["brier"] = brier(said, y)
    found |= {"crps": ranked_score(said, y)} if ordered else {}
    return Verdict(tuple(diagram), found, class_misses(said, y), said)


def judge_number(centre: Tensor, measured: Measured, width: float) -> Verdict:
    """Intervals of the final width around numbers that members found without having seen them."""
    y = measured.y
    assert y is not None
    bell = NumberMixture((_Number(centre),), (1.0,), width=width)
    spread = Distribution.spread(bell.probabilities(measured), measured.bins, measured.sets)
    ends = [spread.interval(level) for level in NOMINAL]
    low, high = (torch.stack(side, 1) for side in zip(*ends, strict=True))
    diagram = held_shares(low, high, y, NOMINAL)
    quantiles = torch.stack([spread.quantile(q) for q in SCORED_LEVELS], 1)
    inner = torch.stack(spread.interval(LEVEL), 1)
    found = {"crps": quantile_score(quantiles, y, SCORED_LEVELS)}
    return Verdict(tuple(diagram), found, number_misses(centre, inner, y), centre)


def number_width(centre: Tensor, measured: Measured, usual: float) -> float:
    """The width under which 90 % intervals hold as many unseen rows as conformal sets would.

    Intervals around a number grow with the width, so they are nested sets: the least width that
    holds ⌈(n + 1)·0.9⌉ of n out-of-fold rows (Gupta, Kuchibhotla, Ramdas 2022). Fewer than nine
    rows cannot promise that; they keep the widest that any of them needs.
    """
    y = measured.y
    assert y is not None
    wanted = min(math.ceil((len(measured) + 1) * LEVEL - 1e-9), len(measured))
    for factor in _WIDTHS:
        bell = NumberMixture((_Number(centre),), (1.0,), width=factor * usual)
        spread = Distribution.spread(bell.probabilities(measured), measured.bins, measured.sets)
        low, high = spread.interval(LEVEL)
        if int(((low <= y) & (y <= high)).sum()) >= wanted:
            return factor * usual
    return _WIDTHS[-1] * usual


@dataclass(frozen=True, eq=False)
class _Number:
    said: Tensor

    def number(self, known: Measured) -> Tensor:
        return self.said
