"""Limits that cost money: which ones a blend touches, and what the next looser ones are."""

from collections.abc import Iterator
from dataclasses import replace

from .coals import Array
from .judge import Goal
from .limits import Limits
from .order import Order, held_places

WIDER = 0.05  # by how much a bound is relaxed to see what that would bring


def relaxations(order: Order, shares: Array) -> Iterator[tuple[str, str, Goal, Limits]]:
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
