"""A plan in words and as JSON."""

from typing import Any

from .graders import ERRING, FALL
from .judge import equal
from .order import Blend, BlendPlan, Order, Point, TestBlend

_Row = dict[str, str | int | float | bool | None]


def as_json(plan: BlendPlan) -> dict[str, Any]:
    """Everything about a plan, in values that JSON knows."""
    order = plan.order
    return {
        "feasible": plan.blend is not None,
        "infeasible_because": list(plan.reasons),
        "target": order.target.text,
        "confidence": order.confidence,
        "promise": order.grader.promise,
        "worst_case": order.worst_case,
        "inside_scope": order.scope,
        "tonnes": order.tonnes,
        "max_coals": order.most_coals,
        "lots_percent": order.lots,
        "blend": _blend(plan, plan.blend),
        "nearest": _blend(plan, plan.nearest),
        "runner_up": _blend(plan, plan.runner_up),
        "cheapest_of_any_quality": _blend(plan, plan.floor),
        "binding": [vars(relaxation) for relaxation in plan.binding],
        "without": [{"coal": name, "cost_per_tonne": cost} for name, cost in plan.without],
        "front": front(plan),
        "mixing": order.recipe.table,
        "not_measured": list(order.recipe.without),
        "proved_cheapest": plan.proved,
        "blends_looked_at": plan.looked,
        "blends_refused_by_the_range": plan.refused,
        "measured_results": plan.tests,
        "limits": [limit.text for limit in order.also],
        "scenarios": {"chosen_by": plan.choice, "cost_per_tonne": dict(plan.costs)}
        if plan.costs
        else None,
        "trial": None if plan.test is None else _test(plan.test),
    }


def front(plan: BlendPlan) -> list[_Row]:
    """The fronts as flat rows: price against confidence, then price against target."""
    made: list[_Row] = []
    for kind, points in (("confidence", plan.confidences), ("target", plan.targets)):
        made += [_row(kind, point) for point in points]
    return made


def plan_summary(plan: BlendPlan) -> list[str]:
    """The plan in a few sentences."""
    order = plan.order
    wanted = f"{order.target.text} with P >= {order.confidence:g}"
    if order.worst_case:
        wanted += ", and at the worst that the range allows"
    if plan.blend is None:
        return [f"No plan for {wanted}: infeasible because", *(f"- {r}" for r in plan.reasons)]
    blend = plan.blend
    tonnes = plan.order.tonnes
    total = "" if tonnes is None else f", {blend.cost * tonnes:,.0f} for {tonnes:,.0f} t"
    said = [f"{wanted}: {blend.cost:,.2f} per tonne{total}"]
    said.append(
        f"P({order.target.text}) {equal(blend.chance)}; predicted {blend.forecast.answer}, the "
        f"range allows {between(blend.forecast.allowed)}"
        + (f", the expert says {blend.forecast.expert}" if blend.forecast.expert else "")
    )
    if order.recipe.without:
        names = ", ".join(order.recipe.without)
        said.append(f"Not measured at this site, and empty in every blend: {names}")
    said += risk_words(order, blend)
    said += [f"{side.limit}: {side.found} ({side.wanted})" for side in blend.sides]
    if plan.costs:
        each = ", ".join(f"{name} {cost:,.2f}" for name, cost in plan.costs.items())
        mean = plan.choice == "mean"
        how = "lowest mean cost over scenarios" if mean else "lowest cost in the worst scenario"
        said.append(
            f"Chosen for the {how}; per tonne: {each}; the tables show prices of the mixture of "
            "scenarios it was planned with"
        )
    if plan.floor is not None:
        said.append(
            f"The cheapest blend of any quality costs {plan.floor.cost:,.2f} with "
            f"P {equal(plan.floor.chance)}, so quality costs {blend.cost - plan.floor.cost:,.2f}"
        )
    if plan.refused:
        said.append(
            f"The expert has no answer for {plan.refused:,} of the {plan.looked:,} blends tried; "
            "they were skipped"
        )
    if plan.tests:
        results = "1 measured result was" if plan.tests == 1 else f"{plan.tests} results were"
        said.append(f"{results} used; the bundle is unchanged")
    if plan.proved:
        said.append("No cheaper blend in lots exists: all were checked")
    return said


def trial_words(plan: BlendPlan) -> list[str]:
    """What a test would be worth, in sentences."""
    test = plan.test
    if test is None:
        return ["No single test would lower the expected price of the next plan"]
    mix = ", ".join(f"{name} {100 * share:.1f} %" for name, share in test.shares.items())
    likely = sorted(test.outcomes, key=lambda o: -o.chance)[:3]
    then = "; ".join(f"{o.answer} (P = {o.chance:.2f}): {o.cost:,.2f}" for o in likely)
    return [
        f"A test of {mix} would lower the price of the next plan from {test.now:,.2f} to "
        f"{test.then:,.2f} on average, by {test.now - test.then:,.2f}",
        f"The blend to test costs {test.cost:,.2f} per tonne; price of the next plan by "
        f"result: {then}",
    ]


def risk_words(order: Order, blend: Blend) -> list[str]:
    """What may go wrong with a blend, and whether more tests could tell."""
    risk, safe = blend.risk, order.grader.promise == "safe"
    if risk.low is None:
        return [
            "This model cannot tell its own uncertainty, and P is its own claim: a blend chosen "
            "for its P tends to fall short of it"
        ]
    means = (
        f"safe: right on average, and at least {max(blend.chance - FALL, 0.0):.2f} unless the "
        f"model errs by more than {ERRING:g} of its own standard deviations"
        if safe
        else "expected: right on average over plans, not for each of them"
    )
    said = [f"P is promised as {means}; expected for this blend: {risk.expected:.3f}"]
    if risk.noise is not None and risk.ignorance is not None:
        said.append(
            f"The risk of {1.0 - risk.expected:.3f} is {risk.noise:.3f} test noise and "
            f"{risk.ignorance:.3f} model uncertainty"
        )
    if risk.noise_sd is not None and risk.ignorance_sd is not None:
        said.append(
            f"One test differs from its mean by {risk.noise_sd:.2f} (sd), the model's mean from "
            f"the true one by {risk.ignorance_sd:.2f}"
            + (", in grades" if risk.noise is not None else "")
        )
    return said


def between(names: tuple[str, ...]) -> str:
    """A run of names by its ends.

    >>> between(("CSR50", "CSR52", "CSR54"))
    'CSR50 to CSR54'
    """
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _blend(plan: BlendPlan, blend: Blend | None) -> dict[str, Any] | None:
    if blend is None:
        return None
    tonnes = plan.order.tonnes
    return {
        "cost_per_tonne": blend.cost,
        "total_cost": None if tonnes is None else blend.cost * tonnes,
        "shares": blend.shares,
        "tonnes": None if tonnes is None else {n: s * tonnes for n, s in blend.shares.items()},
        "p_target": blend.chance,
        "p_true": "not known",  # of a real plant nobody can say; studies.decisions asks a law
        "risk": vars(blend.risk),
        "limits": [vars(side) for side in blend.sides],
        "predicted": blend.forecast.answer,
        "expert": blend.forecast.expert,
        "allowed": list(blend.forecast.allowed),
        "distribution": blend.forecast.chances,
        "features": blend.features,
    }


def _test(test: TestBlend) -> dict[str, Any]:
    return {
        "shares": test.shares,
        "cost_per_tonne": test.cost,
        "plan_now": test.now,
        "plan_then": test.then,
        "outcomes": [vars(outcome) for outcome in test.outcomes],
    }


def _row(kind: str, point: Point) -> _Row:
    mix = "; ".join(f"{name} {100 * share:.2f} %" for name, share in point.shares.items())
    return {
        "front": kind,
        "target": point.target,
        "confidence": point.confidence,
        "cost_per_tonne": point.cost,
        "blend": mix,
    }
