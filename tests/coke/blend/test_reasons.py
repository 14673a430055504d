"""Infeasible because ...: each cause, with its numbers."""

import numpy as np
import pytest

from fedlore import Knowledge
from fedlore.kernel.schema import Feature, Schema
from fedlore_coke.blend import order_for, plan

from .world import GRADES, by_ash, ladder, three


def why(model=None, coals=None, target="grade>=good", schema=GRADES, **options):
    found = plan(order_for(model or ladder(), schema, coals or three(), target, **options))
    assert found.blend is None
    return " | ".join(found.reasons)


def test_bounds():
    third = np.full(3, 0.3)
    assert "largest shares of the coals add up to 90% of a blend" in why(coals=three(most=third))
    assert "least shares of the coals add up to 120%" in why(coals=three(least=np.full(3, 0.4)))


def test_stock():
    coals = three(stock=np.array([100.0, 200.0, 10.0]))
    assert "enough for 62% of the 500 t" in why(coals=coals, tonnes=500.0)
    must = three(stock=np.array([100.0, 900.0, 900.0]), least=np.array([0.5, 0.0, 0.0]))
    assert "cheap must make up 50.0%, its stock is enough for 10.0%" in why(coals=must, tonnes=1e3)


def test_number_of_coals_and_lots():
    half = np.full(3, 0.5)
    assert "the 1 largest shares add up to 50%" in why(coals=three(most=half), most_coals=1)
    must = three(least=np.full(3, 0.1))
    assert "3 coals have a least share, and at most 2" in why(coals=must, most_coals=2)
    odd = three(most=np.full(3, 0.34))
    assert "no blend in lots of 50 % fits between the bounds" in why(coals=odd, lots=50.0)


def test_confidence():
    reason = why(target="grade>=best", confidence=0.999)
    assert "even the best reachable blend inside the scope has P(grade >= best) = 0." in reason
    assert "wanted is 0.999" in reason


def test_the_best_reachable_blend_is_the_best():
    order = order_for(ladder(), GRADES, three(), "grade>=best", confidence=0.999)
    found = plan(order)
    pure = order.judge(np.array([[0.0, 0.0, 1.0]])).chance[0, order.goal.place]
    assert found.nearest.chance == pytest.approx(pure, abs=1e-4)  # the dear coal alone
    assert f"{pure:.3f}" in found.reasons[0]


def test_the_range_never_allows_it():
    never = Knowledge(range=lambda x: by_ash(x + 20.0))  # as if every ash were 20 % more
    assert "the range does not allow grade >= best for any of" in why(
        ladder(never), target="grade>=best"
    )


def test_the_worst_case_is_never_sure():
    assert "the range allows something outside grade >= fair" in why(
        worst_case=True, target="grade>=fair"
    )
    known = ladder(Knowledge(range=by_ash))
    assert "something outside grade >= good" in why(known, worst_case=True, confidence=0.1)


def test_scope():
    narrow = Schema((Feature("ash", "%", 0.0, 5.0), GRADES.features[1]), GRADES.classes, "grade")
    reason = why(schema=narrow, confidence=0.1)
    assert "none lies inside the scope of the model: ash 7 (scope 0 to 5)" in reason


def test_good_only_outside_the_scope():
    low = Schema((GRADES.features[0], Feature("rank", "", 0.0, 0.9)), GRADES.classes, "grade")
    reason = why(schema=low, confidence=0.6)
    assert "outside the scope, where the model is a guess, it reaches" in reason
