"""The checker: a plan mixed, predicted and measured again, by other means than the search's."""

import math

import torch

from ...errors import FedloreError
from ...personal.regressor import PersonalRegressor
from .coals import Array
from .graders import ClassGrader, NumberGrader
from .order import Order
from .recipe import rows_of

_ROUNDING = 1e-9  # of a share


def check(order: Order, shares: Array) -> tuple[str, ...]:
    """Everything that a blend breaks, in words; nothing where it keeps all that was ordered.

    Bounds and stock are read from the list of coals, the model is asked for this one row through
    its public methods; nothing is shared with the search but the mixing rules.
    """
    broken = []
    if shares.shape != (len(order.coals),):
        raise FedloreError(f"a blend of {len(order.coals)} coals cannot have {shares.shape} shares")
    w = [float(share) for share in shares]
    if not all(math.isfinite(share) for share in w):
        return ("a share is not finite",)
    if abs(math.fsum(w) - 1.0) > _ROUNDING:
        broken.append(f"shares sum to {math.fsum(w):.12g}, not to 1")
    low, high = order.coals.bounds
    for i, (name, share) in enumerate(zip(order.coals.names, w, strict=True)):
        if share < 0.0 or share < low[i] - _ROUNDING:
            broken.append(f"{name}: {share:.6%} is below its least, {low[i]:.6%}")
        if share > high[i] + _ROUNDING:
            broken.append(f"{name}: {share:.6%} is above its most, {high[i]:.6%}")
        if order.tonnes is not None and order.coals.stock is not None:
            if order.tonnes * share > order.coals.stock[i] + _ROUNDING * order.tonnes:
                broken.append(
                    f"{name}: {order.tonnes * share:.6g} t, there are {order.coals.stock[i]:.6g} t"
                )
        if (
            order.lots is not None
            and abs(100 * share - round(100 * share / order.lots) * order.lots) > 1e-6
        ):
            broken.append(f"{name}: {share:.6%} is not in lots of {order.lots:g} %")
    used = sum(share > 0.0 for share in w)
    if order.most_coals is not None and used > order.most_coals:
        broken.append(f"{used} coals, at most {order.most_coals} were ordered")
    return (*broken, *_quality(order, shares))


def _quality(order: Order, shares: Array) -> list[str]:
    values = order.recipe.features(shares[None])
    broken = []
    if order.scope:
        for feature, value in zip(order.recipe.schema.features, values[0].tolist(), strict=True):
            room = _ROUNDING * min(feature.high - feature.low, 1e6)
            if not feature.levels and not feature.low - room <= value <= feature.high + room:
                broken.append(
                    f"{feature.name} {value:.6g} lies outside {feature.low:g} to {feature.high:g}"
                )
    chance, worst = _ask(order, rows_of(values))
    if chance < order.confidence:
        broken.append(f"P({order.target.text}) is {chance:.6f}, below {order.confidence:g}")
    if order.worst_case and worst is not None:
        broken.append(f"the range allows {worst}, outside {order.target.text}")
    return broken


@torch.no_grad()
def _ask(order: Order, x: torch.Tensor) -> tuple[float, str | None]:
    """The chance of the target, and something outside it that the range allows, if any."""
    target, grader = order.target, order.grader
    if isinstance(grader, ClassGrader):
        chances = grader.personal.predict_proba(x)[0].tolist()
        inside = [target.low <= i <= target.high for i in range(len(chances))]
        beyond = math.fsum(p for p, held in zip(chances, inside, strict=True) if not held)
        within = math.fsum(p for p, held in zip(chances, inside, strict=True) if held)
        allowed = grader.personal.annotate(x).allowed
        names = grader.schema.classes
        wrong = [
            names[i]
            for i, held in enumerate(inside)
            if not held and (allowed is None or bool(allowed[0, i]))
        ]
        return 1.0 if beyond == 0.0 else within, wrong[0] if wrong else None
    if isinstance(grader, NumberGrader):
        return _asked_number(grader.regressor, target.low, target.high, x)
    chance, stray = grader.look(x, (target,))
    return float(chance[0, 0]), "more" if stray[0, 0] > 0 else None


def _asked_number(
    regressor: PersonalRegressor, low: float, high: float, x: torch.Tensor
) -> tuple[float, str | None]:
    found, told, bins = regressor.distribution(x), regressor.annotate(x), regressor.bins

    def below(value: float) -> float:
        return float(found.cdf(torch.tensor([value], dtype=torch.float64))[0])

    under = 0.0 if low <= bins.lower else below(math.nextafter(low, -math.inf))
    chance = below(high) - under
    if told.sets is None:
        ends = [bins.lower, bins.upper]
    else:
        ends = [*told.sets.lower[0].tolist(), *told.sets.upper[0].tolist()]
    wrong = [end for end in ends if not math.isnan(end) and not low <= end <= high]
    return chance, f"{wrong[0]:g}" if wrong else None
