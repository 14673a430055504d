"""The checker: a plan mixed, predicted and measured again, by other means than the search's."""

import math
from dataclasses import replace

import torch

from fedlore.errors import FedloreError, KnowledgeError
from fedlore.models import doubt_classes, doubt_numbers, member_probabilities

from .coals import Array
from .graders import ERRING, FALL, ClassGrader, NumberGrader
from .mixing import rows_of
from .order import Order
from .sides import ModelLimit

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
    broken += _quality(order, shares)
    for limit in order.also:
        if isinstance(limit, ModelLimit):
            own = replace(
                order,
                recipe=limit.recipe,
                grader=limit.grader,
                target=limit.target,
                confidence=limit.confidence,
                worst_case=False,
                also=(),
            )
            broken += _quality(own, shares)
        else:
            side = limit.tell(shares)
            broken += [] if side.kept else [f"{limit.name} is {side.found}, wanted {limit.text}"]
    return tuple(broken)


def _quality(order: Order, shares: Array) -> list[str]:
    values = order.recipe.features(shares[None])
    broken = []
    if order.scope:
        for feature, value in zip(order.recipe.schema.features, values[0].tolist(), strict=True):
            room = _ROUNDING * min(feature.high - feature.low, 1e6)
            known = not feature.levels and feature.name not in order.recipe.without
            if known and not feature.low - room <= value <= feature.high + room:
                broken.append(
                    f"{feature.name} {value:.6g} lies outside {feature.low:g} to {feature.high:g}"
                )
    try:
        chance, worst = _ask(order, rows_of(values))
    except KnowledgeError as error:
        return [*broken, f"the expert has no answer for this blend: {error}"]
    if chance < order.confidence:
        broken.append(f"P({order.target.text}) is {chance:.6f}, below {order.confidence:g}")
    if order.worst_case and worst is not None:
        broken.append(f"the range allows {worst}, outside {order.target.text}")
    return broken


@torch.no_grad()
def _ask(order: Order, x: torch.Tensor) -> tuple[float, str | None]:
    """The promised chance of the target, and something outside it that the range allows, if any."""
    target, grader = order.target, order.grader
    if isinstance(grader, ClassGrader):
        names = grader.schema.classes
        inside = [target.low <= i <= target.high for i in range(len(names))]
        allowed = grader.personal.annotate(x).allowed
        may = [True] * len(names) if allowed is None else allowed[0].tolist()
        wrong = [name for name, held, ok in zip(names, inside, may, strict=True) if ok and not held]
        return _ask_class(grader, x, inside, may), wrong[0] if wrong else None
    return _ask_number(grader, target.low, target.high, x)


def _ask_class(grader: ClassGrader, x: torch.Tensor, inside: list[bool], may: list[bool]) -> float:
    """What may be promised of one row of classes, worked out in plain numbers."""
    personal = grader.personal
    known = personal.annotate(x)
    doubt = doubt_classes(personal, known) if grader.schema.ordered else None
    if doubt is not None:
        place, noise, far = (float(t[0]) for t in (doubt.place, doubt.noise, doubt.ignorance))
        expected = _share(_bell(place, math.hypot(noise, far), may), inside)
        ends = [_share(_bell(place + by * far, noise, may), inside) for by in (-ERRING, ERRING)]
        return _promise(grader.promise, expected, min(ends))
    expected = _share(personal.predict_proba(x)[0].tolist(), inside)
    voices, weights = member_probabilities(personal, known)
    if len(voices) < 2:
        return expected
    each = [_share(voice[0].tolist(), inside) for voice in voices]
    spread = math.fsum(w * (p - expected) ** 2 for w, p in zip(weights.tolist(), each, strict=True))
    return _promise(grader.promise, expected, max(expected - ERRING * math.sqrt(spread), 0.0))


def _promise(promise: str, expected: float, low: float) -> float:
    return expected if promise == "expected" else min(expected, low + FALL)


def _bell(place: float, width: float, may: list[bool]) -> list[float]:
    """A normal cut at the borders of the classes and to the range."""

    def between(low: float, high: float) -> float:
        if low > 0.0:  # both in one tail, where a difference of large shares would cancel
            low, high = -high, -low
        return 0.5 * (math.erfc(-high / math.sqrt(2.0)) - math.erfc(-low / math.sqrt(2.0)))

    last = len(may) - 1
    edges = [(i - 0.5 - place) / width for i in range(1, last + 1)]
    ends = [-math.inf, *edges, math.inf]
    mass = [between(a, b) if ok else 0.0 for a, b, ok in zip(ends, ends[1:], may, strict=False)]
    total = math.fsum(mass)
    if total <= 0.0:  # all of the range lies far out: the end that is nearest has it
        near = min((i for i, ok in enumerate(may) if ok), key=lambda i: abs(i - place))
        return [float(i == near) for i in range(last + 1)]
    return [p / total for p in mass]


def _share(chances: list[float], inside: list[bool]) -> float:
    beyond = math.fsum(p for p, held in zip(chances, inside, strict=True) if not held)
    within = math.fsum(p for p, held in zip(chances, inside, strict=True) if held)
    return 1.0 if beyond == 0.0 else within


def _ask_number(
    grader: NumberGrader, low: float, high: float, x: torch.Tensor
) -> tuple[float, str | None]:
    regressor = grader.regressor
    found, known, bins = regressor.distribution(x), regressor.annotate(x), regressor.bins
    doubt = doubt_numbers(regressor, known)

    def below(value: float) -> float:
        return float(found.cdf(torch.tensor([value], dtype=torch.float64))[0])

    def chance(off: float) -> float:
        under = 0.0 if low <= bins.lower else below(math.nextafter(low - off, -math.inf))
        return (1.0 if high >= bins.upper else below(high - off)) - under

    expected = chance(0.0)
    if doubt is not None and expected < 1.0:
        far = float(doubt.ignorance[0])
        ends = [max(chance(by * far), 0.0) for by in (-ERRING, ERRING)]
        expected = _promise(grader.promise, expected, min(ends))
    if known.sets is None:
        reach = [bins.lower, bins.upper]
    else:
        reach = [*known.sets.lower[0].tolist(), *known.sets.upper[0].tolist()]
    wrong = [end for end in reach if not math.isnan(end) and not low <= end <= high]
    return expected, f"{wrong[0]:g}" if wrong else None
