"""Capital bet against true claims does not grow; against false ones it does."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore.core.statistics import ODDS, bet_on_order, bet_on_rate, rank_numbers, wilson


@given(rate=st.floats(0.002, 0.95), faults=st.lists(st.integers(0, 1), max_size=8))
def test_the_next_row_is_a_fair_bet_whatever_came_before(rate, faults):
    now = bet_on_rate(faults, rate).capital[-1] if faults else 0.0
    next_up = [bet_on_rate([*faults, fault], rate).capital[-1] for fault in (0, 1)]
    expected = (1 - rate) * np.exp(next_up[0]) + rate * np.exp(next_up[1])
    assert expected == pytest.approx(np.exp(now), rel=1e-9)


@given(
    before=st.lists(st.integers(0, 3), max_size=6),
    new=st.lists(st.integers(0, 3), min_size=1, max_size=6),
)
def test_places_are_what_counting_gives(before, new):
    draws = np.linspace(0.1, 0.9, len(new))
    found = rank_numbers(new, before, draws)
    for i, value in enumerate(new):
        past = [*before, *new[:i]]
        less = sum(p < value for p in past)
        ties = 1 + sum(p == value for p in past)
        assert found[i] == pytest.approx((less + draws[i] * ties) / (len(past) + 1))


def test_an_order_that_says_nothing_is_a_fair_bet():
    """The mean capital over many orders of the same skewed numbers with ties is 1."""
    draw = np.random.default_rng(3)
    ends = []
    for _ in range(3000):
        numbers = np.round(draw.exponential(size=14), 1)
        ends.append(np.exp(bet_on_order(numbers[4:], numbers[:4], draw.random(10)).capital[-1]))
    assert np.mean(ends) == pytest.approx(1.0, abs=4 * np.std(ends) / np.sqrt(len(ends)))


def test_a_false_claim_is_found_and_dated():
    draw = np.random.default_rng(1)
    faults = np.concatenate([draw.random(80) < 0.05, draw.random(80) < 0.3]).astype(float)
    course = bet_on_rate(faults, 0.05)
    assert course.most > np.log(1e4) and abs(course.since - 80) < 30
    numbers = np.concatenate([draw.normal(size=80), draw.normal(size=150) - 1.0])
    course = bet_on_order(numbers, draw.normal(size=100), draw.random(230))
    assert course.most > np.log(1e4) and abs(course.since - 80) < 30
    rising = bet_on_order(numbers, draw.normal(size=100), draw.random(230), falls=False)
    assert rising.most < np.log(10)  # nobody bet that they fall


def test_nothing_is_nothing():
    assert bet_on_rate([], 0.1).most == 0.0 and bet_on_order([], [], np.empty(0)).since == 0


def test_wilson_covers_a_share():
    low, high = wilson(0.95, 60, wide=1.0)
    assert low < 0.95 < high < 1.0
    assert wilson(0.0, 99, wide=1.0)[1] == pytest.approx(0.01)


def play_by_hand(gains):
    """A purse at a time: half at once, of what is left a hundredth with every row, on all bets."""
    purse, stakes, course = 1.0, [0.0] * len(gains[0]), []
    for number, row in enumerate(gains):
        staked = 0.5 if number == 0 else 0.0
        staked += 0.01 * (purse - staked)
        purse -= staked
        stakes = [(s + staked / len(row)) * math.exp(g) for s, g in zip(stakes, row, strict=True)]
        course.append(math.log(purse + sum(stakes)))
    return course


def test_the_capital_of_a_bet_is_what_each_purse_came_to():
    faults = [0, 1, 1, 0, 1]
    odds = [0.2 / 0.8 * times for times in ODDS]
    gains = [
        [math.log(o / (1 + o) / 0.2 if fault else 1 / (1 + o) / 0.8) for o in odds]
        for fault in faults
    ]
    course = bet_on_rate(faults, 0.2)
    assert course.capital.tolist() == pytest.approx(play_by_hand(gains), abs=1e-12)
    assert course.since == 1 and course.most == max(course.capital)
    half = bet_on_rate([0.5], 0.2)  # a lot of which half is wrong gains the mean
    mean = [
        math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(gains[0], gains[1], strict=True)
    ]
    assert half.capital.tolist() == pytest.approx(play_by_hand([mean]), abs=1e-12)


def test_places_count_equal_numbers_by_the_draw():
    before, draws = [1.0, 2.0, 2.0], np.array([0.25, 0.5, 0.0])
    found = rank_numbers([2.0, 0.0, 3.0], before, draws)
    assert found.tolist() == pytest.approx([(1 + 0.25 * 3) / 4, 0.5 / 5, 5 / 6])


def test_a_bet_on_order_that_may_only_rise_does_not_gain_from_a_fall():
    before, draws = np.linspace(0, 1, 50), np.full(10, 0.5)
    fall, rise = np.full(10, -1.0), np.full(10, 2.0)
    both = {
        way: bet_on_order(way_rows, before, draws) for way, way_rows in (("f", fall), ("r", rise))
    }
    assert both["f"].most > 0.5 and both["r"].most > 0.5
    assert bet_on_order(fall, before, draws, falls=False).most == 0.0
    only = bet_on_order(rise, before, draws, falls=False)
    assert only.most > both["r"].most and only.since == 0
