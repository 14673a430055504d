"""Temperature and width: how sure an ensemble is, so that its probabilities mean what they say.

Members that are right about their own doubts make an ensemble that doubts too much: what they
disagree in counts twice. One factor on all their log-probabilities, found in private on rows that
none of them had seen, undoes that (temperature scaling: Guo, Pleiss, Sun, Weinberger 2017). It is
kept where each member keeps its own width, so bundles, graphs and certificates hold it as it is.

Row trust is the expert's weight in the ensemble, row by row (λ as a function of the row).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...answers import Measured
from ...answers.measured import quantile_score
from ...core.conformal import class_misses, number_misses
from ...core.examples import Examples
from ...core.metrics import bins_error, bins_interval, brier, held_shares, ranked_score, reliability
from ...core.scaler import Scaler
from ...knowledge.missing import hide_others
from ...knowledge.models import Knowledge
from ...models.distribution import Distribution
from ...models.own.limits import MOST_WEIGHED, thin
from ...models.own.members import within
from ...models.own.mixture import NumberMixture, mix, scale_weights
from ...models.regressor import LEVEL, NOMINAL, SCORED_LEVELS
from ..tuning.trust import RowChoice, RowCost, class_costs, learn_rows, number_costs
from .report import StackMember, Verdict, list_parts
from .rows import nll_rows

NETWORK, EXPERT = "network", "expert"
#: Few rows must not decide alone: the factor is drawn to 5/4, the best of development seeds.
USUAL, APART = 1.25, 0.3  # the middle, and the sd of its logarithm
_FACTORS: tuple[float, ...] = tuple(2.0 ** (i / 6) for i in range(-4, 10))
_NETWORK: tuple[float, ...] = tuple(2.0 ** (i / 4) for i in range(-12, 5))  # of logits
#: Of a number, times the root of the mean squared miss.
_WIDTHS: tuple[float, ...] = tuple(2.0 ** (i / 8) for i in range(-16, 17))


def weighed_rows(rows: Tensor) -> Tensor:
    """Of these rows, (n,) bool, at most so many, evenly spaced: a bound on time."""
    found = rows.nonzero().squeeze(1)
    if len(found) <= MOST_WEIGHED:
        return rows
    kept = torch.zeros_like(rows)
    kept[found[thin(len(found), MOST_WEIGHED)]] = True
    return kept


def temper(member: StackMember, factor: float) -> Tensor:
    """What a member says of unseen rows, as steep as it will be, (n, k) log-probabilities."""
    said = member.oof.double()
    return said if member.firm else torch.log_softmax(factor * said, 1)


def network_factor(logits: Tensor, rows: Examples) -> float:
    """The factor on a network's logits under which rows that it had not seen are likeliest."""
    costs = [float(nll_rows(s * logits, rows).mean()) for s in _NETWORK]
    _, best = min(zip(costs, _NETWORK, strict=True))
    return best


def best_factor(
    members: Sequence[StackMember],
    share: Mapping[str, float],
    y: Tensor,
    rows: Tensor | None = None,  # (n,) bool, those to look at; None: all
) -> float:
    """The inverse temperature under which rows that no member had seen are likeliest."""
    kept = [member for member in members if share.get(member.name, 0.0) > 0.0]
    if not kept:
        return 1.0
    total = sum(share[member.name] for member in kept)
    weights = [share[member.name] / total for member in kept]
    weights[0] += 1.0 - sum(weights)
    rows = weighed_rows(torch.ones(len(y), dtype=torch.bool) if rows is None else rows)
    kept, y = [replace(member, oof=member.oof[rows]) for member in kept], y[rows]

    def cost(factor: float) -> float:
        parts = torch.stack([temper(member, factor).exp() for member in kept])
        likely = mix(parts, weights).gather(1, y.unsqueeze(1)).clamp(min=1e-9)
        drawn = 0.5 * (math.log(factor / USUAL) / APART) ** 2
        return float(-likely.log().squeeze(1).sum()) + drawn

    return min(_FACTORS, key=cost)


def judge_classes(said: Tensor, y: Tensor, *, ordered: bool) -> Verdict:
    """The ensemble by probabilities, (n, k), of rows that nothing of it was learned from."""
    likely = said.gather(1, y.unsqueeze(1)).squeeze(1)
    diagram = reliability(said, y)
    low, high = bins_interval(diagram)
    found = {"ece": bins_error(diagram), "ece low": low, "ece high": high}
    loss = -float(likely.log().mean())
    found |= {"nll": loss} if math.isfinite(loss) else {}
    found["brier"] = brier(said, y)
    found |= {"crps": ranked_score(said, y)} if ordered else {}
    return Verdict(tuple(diagram), found, class_misses(said, y))


def judge_number(centre: Tensor, measured: Measured, width: float) -> Verdict:
    """Intervals around numbers that members found without having seen them.

    Whether they hold is asked with a width that other rows gave; `width` is the final one.
    """
    y, n = measured.y, len(centre)
    assert y is not None
    ends, quantiles = (
        torch.empty(n, len(NOMINAL), 2).double(),
        torch.empty(n, len(SCORED_LEVELS)).double(),
    )
    for out in list_parts(n) or [torch.ones(n, dtype=torch.bool)]:
        rest = ~out if not out.all() else out
        usual = root_miss(centre[rest], y[rest])
        spread = _spread(
            centre[out], measured[out], number_width(centre[rest], measured[rest], usual)
        )
        ends[out] = torch.stack([torch.stack(spread.interval(lv), 1) for lv in NOMINAL], 1)
        quantiles[out] = torch.stack([spread.quantile(q) for q in SCORED_LEVELS], 1)
    diagram = held_shares(ends[..., 0], ends[..., 1], y, NOMINAL)
    found = {"crps": quantile_score(quantiles, y, SCORED_LEVELS)}
    inner = torch.stack(_spread(centre, measured, width).interval(LEVEL), 1)
    low, high = measured.ends
    return Verdict(tuple(diagram), found, number_misses(centre, inner, y, low=low, high=high))


def root_miss(said: Tensor, y: Tensor) -> float:
    """The root of the mean squared miss, never 0."""
    return max(math.sqrt(float((said - y).square().mean())), 1e-12)


def _spread(centre: Tensor, measured: Measured, width: float) -> Distribution:
    bell = NumberMixture((_Number(centre),), (1.0,), width=width)
    return Distribution.spread(bell.probabilities(measured), measured.bins, measured.sets)


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
        low, high = _spread(centre, measured, factor * usual).interval(LEVEL)
        if int(((low <= y) & (y <= high)).sum()) >= wanted:
            return factor * usual
    return _WIDTHS[-1] * usual


@dataclass(frozen=True, eq=False)
class _Number:
    said: Tensor

    def number(self, known: Measured) -> Tensor:
        return self.said


BY_ROW = "trust by row"  # its line in the site's table


@dataclass(frozen=True, eq=False)
class LearnedTrust:
    """What a site knows of its expert's weight in each row of its own."""

    choice: RowChoice
    rows: Tensor | None = None  # (n,) λ as rows that it was not learned from teach it, NaN: one

    def knowledge(self, known: Knowledge) -> Knowledge:
        """The site's knowledge with what was learned."""
        if known.row_trust is None:
            return known
        return replace(known, row_trust=known.row_trust.with_formula(self.choice.formula))


def trust_classes(
    known: Knowledge,
    heard: Examples,
    parts: Sequence[
        tuple[StackMember, Tensor]
    ],  # members, and what they say of unseen rows, (n, k)
    share: Mapping[str, float],
    *,
    ordered: bool,
    scaler: Scaler | None,
    seed: int,
) -> LearnedTrust:
    """The expert's weight in a mixture of classes, row by row, where the site's rows say more."""
    others = [(said, share[v.name]) for v, said in parts if v.name in share and v.name != EXPERT]
    if known.row_trust is None or heard.prior is None or heard.y is None or not others:
        return LearnedTrust(RowChoice())
    rest = mix(torch.stack([said for said, _ in others]), [weight for _, weight in others])
    cost, loss = class_costs(rest, heard.prior, heard.y, ordered=ordered)
    spoken = heard.prior.sum(1) > 0
    return _learn(known, heard, cost, loss, share.get(EXPERT, 0.0), spoken, scaler, seed)


def trust_numbers(
    known: Knowledge,
    measured: Measured,
    members: Sequence[StackMember],
    share: Mapping[str, float],
    mixed: Tensor,  # (n,) what the ensemble says with one number
    *,
    scaler: Scaler | None,
    seed: int,
) -> tuple[LearnedTrust, Tensor]:
    """The same of a number, and what the mixture says of unseen rows then."""
    others = [v for v in members if v.name in share and v.name != EXPERT]
    if known.row_trust is None or measured.said is None or measured.y is None or not others:
        return LearnedTrust(RowChoice()), mixed
    weights = scale_weights([share[v.name] for v in others])
    rest = mixed.new_tensor(weights) @ torch.stack([v.oof for v in others])
    spoken, said = ~measured.said.isnan(), measured.said.nan_to_num(nan=0.0)
    cost, loss = number_costs(rest, said, measured.y, mixed)
    found = _learn(known, measured, cost, loss, share.get(EXPERT, 0.0), spoken, scaler, seed)
    if found.rows is None:
        return found, mixed
    own = spoken & ~found.rows.isnan()
    mixed = torch.where(own, (1.0 - found.rows) * rest + found.rows * said, mixed)
    return found, within(mixed, measured)


def _learn(
    known: Knowledge,
    rows: Examples | Measured,
    cost: RowCost,
    loss: RowCost,
    constant: float,
    spoken: Tensor,
    scaler: Scaler | None,
    seed: int,
) -> LearnedTrust:
    if known.orders is not None and not known.orders.hears_prediction:
        return LearnedTrust(RowChoice())  # he is not heard in any row
    x = rows.x if scaler is None or scaler.inputs is None else scaler.inputs.decode(rows.x)
    x = hide_others(x, known.schema)
    choice = learn_rows(known.row_trust, x, cost, loss, constant, heard=spoken, seed=seed)
    held = rows.trust
    if choice.held is not None:
        held = choice.held if held is None else torch.where(held.isnan(), choice.held, held)
    return LearnedTrust(choice, held)
