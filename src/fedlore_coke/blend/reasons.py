"""Why there is no blend, and which limit would have to give."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .coals import Array, held_places
from .judge import Goal, Judge, JudgedBlends, say_chance
from .limits import BlendLimits, cheapest
from .order import Order
from .search import BlendPool, SearchResult

WIDER = 0.05  # by how much a bound is relaxed to see what that would bring


def relaxations(order: Order, shares: Array) -> Iterator[tuple[str, str, Goal, BlendLimits]]:
    """Limits that a blend touches: which, what they could be, and the goal and limits then."""
    goal, limits, coals = order.goal, order.limits, order.coals
    low, high = coals.bounds
    for i, name in enumerate(coals.names):
        if shares[i] >= limits.high[i] - 1e-3 and limits.high[i] < 1:
            by_stock = limits.high[i] < high[i]
            wider = limits.high.copy()
            wider[i] = min(wider[i] + WIDER, 1.0)
            what = f"stock of {name}" if by_stock else f"{name} at most {high[i]:.0%}"
            more = f"{WIDER * (order.tonnes or 0):,.0f} t more" if by_stock else f"{wider[i]:.0%}"
            yield what, more, goal, replace(limits, high=wider)
        if low[i] > 0 and shares[i] <= low[i] + 1e-3:
            wider = limits.low.copy()
            wider[i] = max(wider[i] - WIDER, 0.0)
            yield (
                f"{name} at least {low[i]:.0%}",
                f"{wider[i]:.0%}",
                goal,
                replace(limits, low=wider),
            )
    if goal.confidence > WIDER:
        easier = round(goal.confidence - WIDER, 6)
        what = f"confidence {goal.confidence:g}"
        yield what, f"{easier:g}", replace(goal, confidence=easier), limits
    if goal.worst_case:
        what = "even at the worst grade of the range"
        yield what, "confidence alone", replace(goal, worst_case=False), limits
    if goal.scope:
        yield "inside the scope of the model", "anywhere", replace(goal, scope=False), limits
    if limits.coals is not None and len(held_places(shares)) >= limits.coals < len(coals):
        more = f"{limits.coals + 1}"
        yield f"at most {limits.coals} coals", more, goal, replace(limits, coals=limits.coals + 1)
    if limits.lots is not None:
        yield f"lots of {100 / limits.lots:g} %", "any share", goal, replace(limits, lots=None)


def shortage(order: Order) -> tuple[str, ...]:
    """Why no blend at all can be made, whatever its quality; nothing where one can."""
    low, high = order.coals.bounds
    limits = order.limits
    if low.sum() > 1.0 + 1e-9:
        return (f"the least shares of the coals add up to {low.sum():.0%}, more than a blend",)
    if high.sum() < 1.0 - 1e-9:
        return (f"the largest shares of the coals add up to {high.sum():.0%} of a blend only",)
    if limits.high.sum() < 1.0 - 1e-9:
        return (
            f"the stock, within the largest shares, is enough for {limits.high.sum():.0%} of the "
            f"{order.tonnes:,.0f} t",
        )
    for i in np.flatnonzero(limits.high < limits.low - 1e-9):
        return (
            f"{order.coals.names[i]} must make up {limits.low[i]:.1%}, its stock is enough for "
            f"{limits.high[i]:.1%}",
        )
    if limits.coals is not None:
        forced = int((limits.low > 0).sum())
        if forced > limits.coals:
            return (f"{forced} coals have a least share, and at most {limits.coals} may be used",)
        reach = float(np.sort(limits.high)[::-1][: limits.coals].sum())
        if reach < 1.0 - 1e-9:
            return (f"the {limits.coals} largest shares add up to {reach:.0%} of a blend only",)
    if cheapest(order.coals.price, limits) is None:
        lots = "" if limits.lots is None else f" in lots of {100 / limits.lots:g} %"
        few = "" if limits.coals is None else f" of at most {limits.coals} coals"
        return (f"no blend{few}{lots} fits between the bounds of the coals",)
    return ()


def unreachable(
    order: Order, judge: Judge, goal: Goal, pool: BlendPool, found: SearchResult | None
) -> tuple[str, ...]:
    """Why no blend reaches the goal: what the nearest one lacks, and how near others came."""
    target = order.target.text
    chance, stray = pool.seen.chance[:, goal.place], pool.seen.stray[:, goal.place]
    inside = pool.seen.outside <= 0 if goal.scope else np.ones(len(chance), dtype=bool)
    if found is not None:  # the search went further than the wide look
        chance = np.r_[chance, found.seen.chance[:, goal.place]]
        stray = np.r_[stray, found.seen.stray[:, goal.place]]
        inside = np.r_[inside, (found.seen.outside <= 0) | (not goal.scope)]
    every = "every blend there is" if pool.exact else f"the {len(chance):,} blends looked at"
    if len(pool.shares) and pool.seen.refused.all():
        return (f"the expert's range has no answer for any of {every}",)
    if not inside.any():
        first = int(pool.seen.outside.argmin()) if len(pool.shares) else 0
        nearest = found.shares if found is not None else pool.shares[first]
        missed = _out_of_scope(order, judge, nearest)
        return (f"of {every} none lies inside the scope of the model: {missed}",)
    where = " inside the scope" if goal.scope else ""
    causes = []
    best = float(chance[inside].max())
    if best <= 0.0:
        return (f"the range does not allow {target} for any of {every}{where}",)
    if best < goal.confidence:
        causes.append(
            f"even the best reachable blend{where} has P({target}) = {say_chance(best)}, "
            f"wanted is {goal.confidence:g}"
        )
        far = float(chance.max())
        if goal.scope and far >= goal.confidence:
            causes.append(
                f"outside the scope, where the model is a guess, it reaches {say_chance(far)}"
            )
    if goal.worst_case:
        free = stray[inside] <= 0
        if not free.any():
            least = float(stray[inside].min())
            causes.append(
                f"for each of {every}{where} the range allows something outside {target}; "
                f"the narrowest still leaves it by {least:.0%} of the scale"
            )
        elif not causes:
            causes.append(
                f"blends that are sure to reach {target} have P at most "
                f"{say_chance(float(chance[inside][free].max()))}"
            )
    causes += _barred(order, goal, pool, found)
    if not causes:
        causes.append(
            f"no blend was found that has all at once: P({target}) reaches {say_chance(best)}"
        )
    return tuple(causes)


def _barred(order: Order, goal: Goal, pool: BlendPool, found: SearchResult | None) -> list[str]:
    """Other limits that no blend keeps, or none that makes the target."""
    seen = pool.seen if found is None else JudgedBlends.join([pool.seen, found.seen])
    kept, alone = seen.margins >= 0, replace(seen, margins=seen.margins[:, :0]).good(goal)
    causes = []
    for place, limit in enumerate(order.also):
        if not kept[:, place].any():
            causes.append(f"no blend looked at keeps {limit.text}")
        elif not (kept[:, place] & alone).any() and alone.any():
            causes.append(f"no blend that makes {order.target.text} keeps {limit.text} as well")
    return causes


def _out_of_scope(order: Order, judge: Judge, shares: Array) -> str:
    """The features that leave their scope most, in words."""
    values = order.recipe.features(shares[None])
    misses = judge.misses(values)[0]
    worst = sorted(np.flatnonzero(misses > 0), key=lambda i: -misses[i])[:3]
    features = order.recipe.schema.features
    return ", ".join(
        f"{features[i].name} {values[0, i]:.3g} (scope {features[i].low:g} to {features[i].high:g})"
        for i in worst
    )
