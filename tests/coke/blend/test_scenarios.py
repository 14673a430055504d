"""Prices that may come: the mean is one plan, the worst is no dearer than any single plan's."""

import numpy as np
import pytest

from fedlore import FedloreError
from fedlore_coke.blend import Coals, order_for, plan, read_coals
from fedlore_coke.blend.limits import lattice
from fedlore_coke.blend.plan import Scenarios, lean_order, read_scenarios, scenario_costs

from .world import GRADES, ladder

RANK = np.array([1.5, 1.5, 0.8])


def twins():
    """Two good coals that are alike but for their price, and a poor one."""
    ash = np.array([7.0, 7.0, 16.0])
    return Coals(("a", "b", "poor"), np.array([100.0, 110.0, 60.0]), {"ash": ash, "rank": RANK})


def ordered(coals):
    return order_for(ladder(), GRADES, coals, "grade>=good", confidence=0.6, scope=False)


def test_in_the_worst_scenario_a_blend_of_twins_beats_either():
    coals = twins()
    prices = {"list": coals.price, "strike": np.array([150.0, 100.0, 60.0])}
    order = ordered(coals)
    grid = lattice(order.limits, 50)
    good = grid[order.judge(grid).good(order.goal)]
    for choose in ("mean", "worst"):
        scenarios = Scenarios(prices, choose)
        found = plan(lean_order(order, scenarios), compare=False)
        costs = scenario_costs(found, scenarios)
        best = min(scenarios.value(w) for w in good)
        value = max(costs.values()) if choose == "worst" else sum(costs.values()) / 2
        assert value <= best * 1.01, choose


def test_scenarios_are_columns_or_files_and_every_coal_has_a_price(tmp_path):
    path = tmp_path / "coals.csv"
    path.write_text("coal,price,price:dear,ash,rank\na,100,130,7,1.5\nb,110,90,9,1.1\n")
    coals = read_coals(path)
    assert set(coals.properties) == {"ash", "rank"} and coals.scenarios["dear"].tolist() == [
        130,
        90,
    ]
    other = tmp_path / "strike.csv"
    other.write_text("coal,price\nb,200\na,90\n")
    found = read_scenarios([other], coals, "mean")
    assert found is not None and list(found.prices) == ["list", "dear", "strike"]
    assert found.prices["strike"].tolist() == [90, 200]
    assert read_scenarios([], twins(), "mean") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coal,price\na,90\n", "no price of the coal 'b'"),
        ("coal,price\na,90\nb,1\nx,1\n", "coal 'x'"),
        ("coal,price\na,-90\nb,1\n", "must be a number from 0 on"),
        ("coal,cost\na,90\nb,1\n", "column 'price'"),
        ("coal,price\na,90\na,91\nb,1\n", "named twice"),
        ("coal,price\na,ninety\nb,1\n", "ninety"),
    ],
)
def test_a_scenario_that_cannot_be_used_is_one_sentence(tmp_path, text, message):
    path = tmp_path / "coals.csv"
    path.write_text("coal,price,ash,rank\na,100,7,1.5\nb,110,9,1.1\n")
    other = tmp_path / "strike.csv"
    other.write_text(text)
    with pytest.raises(FedloreError, match=message):
        read_scenarios([other], read_coals(path), "mean")


def test_two_scenarios_of_one_name_and_an_unknown_choice_are_refused(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("coal,price\na,1\nb,1\npoor,1\n")
    with pytest.raises(FedloreError, match="two scenarios called 'list'"):
        read_scenarios([path], twins(), "mean")
    with pytest.raises(FedloreError, match="mean or worst, got 'best'"):
        read_scenarios([], twins(), "best")
