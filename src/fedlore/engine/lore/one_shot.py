"""What comes of the federation as members of a site's ensemble: the network, the one-shot model.

Of a site with shapes the one-shot model is its linear part alone, with the signs they ask for, and
the squares of what is concave or convex: other squares and products follow no order, and a width
that grows away from the rows breaks it. So all other weights are taken for 0, and those that go the
wrong way too: what is left is the posterior given that, a model of one width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...core.one_shot import OneShot, OneShotRows, Posterior, leave_out
from ...core.tree import Params
from ...kernel.knowledge import HEARD_OF_ORDER
from ...models.own.linear import Linear, plain_ways
from .report import StackMember
from .space import MAIN, Agreement

_Stack = Any  # a `Stack` of classes or of numbers


def pays(before: Tensor, after: Tensor, *, errors: float = 1.0) -> bool:
    """Whether the losses of rows went down by more than so many standard errors of that."""
    gain = before - after
    error = float(gain.std(correction=0)) / math.sqrt(len(gain))
    return float(gain.mean()) > errors * error


def out_of_fold(
    stack: _Stack, folds: Sequence[Params], *, finish: bool = True
) -> tuple[Tensor, int]:
    """What the networks of the folds say of the rows they had not seen, and last steps that pay."""
    site, candidate = stack.site, stack.candidate
    places = site.folds
    assert places is not None
    found: dict[int, Tensor] = {}
    for steps in sorted({0, *(site.common.search_space.finishes if finish else ())}):
        for fold, params in enumerate(folds):
            rest, held = site.part(candidate, fold)
            assert held is not None
            last = site.polish(candidate, rest, params, steps) if steps else params
            away = places == fold
            said = stack.read(site.logits(candidate, last, held), away)
            at = found.setdefault(steps, said.new_empty(len(places), *said.shape[1:]))
            at[away] = said
    best = 0
    for steps in sorted(found):
        if steps and pays(stack.step_losses(found[best]), stack.step_losses(found[steps])):
            best = steps
    return found[best], best


def judge_network(
    stack: _Stack, main: Params, folds: Sequence[Params]
) -> tuple[list[StackMember], StackMember, Params | None]:
    """The network as a member, if its folds allow; what it says of its own rows; its last steps."""
    if not folds:
        return [], stack.in_sample(main), None
    network, steps = stack.network(folds)
    finished = None
    if steps:
        client, _ = stack.site.part(stack.candidate, MAIN)
        finished = stack.site.polish(stack.candidate, client, main, steps)
    seen = stack.in_sample(main if finished is None else finished)
    # one that knows its own rows less well than the folds' know others is not of their kind
    alien = pays(stack.losses(seen.oof), stack.losses(network.oof), errors=3.0)
    return [] if alien else [network], seen, finished


@dataclass(frozen=True, eq=False)
class SignedLine:
    """What a member of a site's mixture is made of, on the scale of class numbers or of numbers."""

    body: Linear
    hears: bool
    over: bool
    held: Tensor  # (n,) what it says of the site's own rows, each left out


def sign_line(
    common: Agreement,
    one_shot: OneShot,
    rows: OneShotRows,
    posterior: Posterior,
    signs: Tensor,  # of `input_signs`
) -> SignedLine | None:
    """The linear part with the right signs, and squares; None where it cannot be a member.

    That is where the expert that it would be added to is withheld, bins of a number differ, or the
    range bends it: a range that narrows with a feature would break the order.
    """
    bins = common.bins
    plain = plain_ways(signs)  # what turns has no weight: squares of it are no arch around its turn
    way = float(plain[-HEARD_OF_ORDER])
    if (
        one_shot.link is not None
        or one_shot.start == "middle"
        or (one_shot.start == "expert" and way != way)
    ):
        return None
    if bins is not None and bins.inner is not None:
        return None
    d, k = common.features, common.classes
    ways = torch.full((len(posterior.mean),), torch.nan, dtype=torch.float64)
    ways[:d] = plain[:d]
    if one_shot.hears:
        ways[d] = way
    columns = one_shot.columns(d)
    bends = (signs[3, :d] != 0) & (plain[:d] == 0)  # a square has no direction
    bent = bends.nonzero()[:, 0] if one_shot.basis.terms != "linear" else bends.new_zeros(0).long()
    ways[columns + bent] = signs[3, bent]
    found = given_signs(posterior, ways)
    home = rows.home(found)
    place, _ = leave_out(found, home, rows.features, rows.target)
    hears = one_shot.hears and way == way
    weight = found.mean[: d + 1] if hears else found.mean[:d]
    squared = found.mean[columns + bent] / math.sqrt(2.0)  # of (z² - 1) / √2
    shift, spread = weight.new_zeros(d), weight.new_ones(d)
    if common.scaler is not None:
        shift, spread = common.scaler.shift.double(), common.scaler.spread.double()
    level = home.level - home.middle[: len(weight)] @ weight
    level = level - home.middle[columns + bent] @ found.mean[columns + bent] - squared.sum()
    # one class or bin is `step` of what members name, and the first lies at `first`
    step, first = 1.0, 0.0
    if bins is not None:
        step = (bins.upper - bins.lower) / bins.k
        first = bins.lower + step / 2
    middle = first + step * (k - 1) / 2
    if hears:  # the middle and half width of the range have no weight
        shift = torch.cat([shift, shift.new_tensor([middle, 0.0, 0.0])])
        spread = torch.cat([spread, spread.new_tensor([step * k / 4, 1.0, 1.0])])
        weight = torch.cat([weight, weight.new_zeros(2)])
    over = one_shot.start == "expert"
    constant = step * level + (0.0 if over else middle)
    quadratic = len(bent) > 0
    if quadratic:
        pairs = torch.triu_indices(len(weight), len(weight))
        products = weight.new_zeros(pairs.shape[1])
        for column, value in zip(bent.tolist(), squared, strict=True):
            products[(pairs == column).all(0)] = value
        weight = torch.cat([weight, products])
    body = Linear(shift, spread, step * weight[:, None], constant.reshape(1), quadratic)
    return SignedLine(body, hears, over, first + step * (rows.start + place))


def given_signs(found: Posterior, signs: Tensor) -> Posterior:
    """The posterior given that weights whose sign is NaN, or that go against it, are 0."""
    kept = ~signs.isnan()
    while True:
        lost = ~kept
        mean, covariance = torch.zeros_like(found.mean), torch.zeros_like(found.covariance)
        inner, across = found.covariance[lost][:, lost], found.covariance[kept][:, lost]
        # guarded: a group that says nothing has next to no variance
        scale = inner.diagonal().clamp(min=1e-300).sqrt()
        whitened = inner / torch.outer(scale, scale) + 1e-10 * torch.eye(len(inner)).to(inner)
        tied = torch.linalg.solve(whitened, (across / scale).T).T / scale
        mean[kept] = found.mean[kept] - tied @ found.mean[lost]
        square = found.covariance[kept][:, kept] - tied @ across.T
        covariance[kept.nonzero(), kept.nonzero()[:, 0]] = (square + square.T) / 2
        wrong = kept & (signs * mean < 0)
        if not bool(wrong.any()):
            return Posterior(mean, covariance, found.noise, found.prior)
        kept = kept & ~wrong
