"""Several limits at once: each by its own model or of a feature, found by the search, checked."""

from dataclasses import replace

import numpy as np
import pytest

from fedlore import FedloreError
from fedlore_coke.blend import check, feature_limit, model_limit, order_for, plan
from fedlore_coke.blend.limits import lattice
from fedlore_coke.blend.sides import parse_limit

from .world import GRADES, ladder, offer, three, wild

HARD = replace(GRADES, label="hardness")


def ordered(coals, *also, target="grade>=good", confidence=0.6, **more):
    order = order_for(ladder(), GRADES, coals, target, confidence=confidence, scope=False, **more)
    made = [
        model_limit(wild(3), HARD, coals, text, confidence=level)
        if isinstance(level, float)
        else feature_limit(order.recipe, text)
        for text, level in also
    ]
    return replace(order, also=tuple(made))


def best_on_grid(order, parts=50):
    grid = lattice(order.limits, parts)
    good = order.judge(grid).good(order.goal)
    cost = grid @ order.coals.price
    return float(cost[good].min()) if good.any() else None


def test_a_limit_on_a_feature_costs_what_the_grid_says():
    free, bound = ordered(three()), ordered(three(), ("ash<=9", None))
    found, cheaper = plan(bound, compare=False).blend, plan(free, compare=False).blend
    assert found is not None and cheaper is not None and found.cost > cheaper.cost + 1
    assert found.features["ash"] <= 9.0 and found.cost <= best_on_grid(bound) + 1e-6
    (side,) = found.sides
    assert side.kept and side.limit == "ash <= 9"


@pytest.mark.parametrize("seed", [0, 2])
def test_two_models_at_once_are_as_cheap_as_the_grid_and_both_are_promised(seed):
    coals = offer(seed, 3)
    order = ordered(coals, ("hardness>=good", 0.3), confidence=0.5)
    best, found = best_on_grid(order), plan(order, compare=False).blend
    if best is None:
        assert (
            found is None or order.judge(order.coals.shares(found.shares)[None]).good(order.goal)[0]
        )
        return
    assert found is not None and found.cost <= best + 1e-6
    assert not check(order, order.coals.shares(found.shares))
    assert order.also[0].margins(order.coals.shares(found.shares)[None])[0][0] >= 0


def test_the_checker_names_the_limit_that_is_broken():
    order = ordered(three(), ("ash<=9", None), ("hardness>=best", 0.999))
    broken = check(order, np.array([1.0, 0.0, 0.0]))
    assert any("ash is 16" in text for text in broken)
    assert any("P(hardness >= best)" in text for text in broken)


def test_a_limit_that_bars_every_plan_is_named():
    found = plan(ordered(three(), ("ash<=5", None)), compare=False)
    assert found.blend is None and "no blend looked at keeps ash <= 5" in found.reasons


def test_without_other_limits_verdicts_are_as_before():
    order = ordered(three())
    seen = order.judge(np.eye(3))
    assert seen.margins.shape == (3, 0) and seen.good(order.goal).shape == (3,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ahs<=9", "ash"),
        ("ash<=x", "not a finite number"),
        ("ash<=1, ash>=2", "holds for no number"),
    ],
)
def test_a_limit_that_cannot_be_read_is_one_sentence(text, message):
    with pytest.raises(FedloreError, match=message):
        ordered(three(), (text, None))


def test_limits_are_read_as_they_are_written():
    assert parse_limit("ash<=9").model is None
    assert parse_limit("cri <= 30 by my cri.lore").model == "my cri.lore"
    with pytest.raises(FedloreError, match="is not a probability"):
        parse_limit("cri<=30 by cri.lore at most")
    with pytest.raises(FedloreError, match=r"confidence must lie in \(0, 1\]"):
        model_limit(wild(3), HARD, three(), "hardness>=good", confidence=1.5)
