"""Boxes of cells, compared with looking at every cell."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore.kernel.cells import Cut, NumberSpans, Span, parse_condition
from fedlore.kernel.schema import Feature
from fedlore.knowledge.findings.domain import (
    Axis,
    Box,
    CellBoxes,
    GaveUp,
    Meter,
    find_uncovered,
    grow_box,
    parts_outside,
    within_axis,
)

SIZE = (4, 3, 5)


@st.composite
def boxes(draw, most=7):
    def run(size):
        pair = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
        return pair.map(sorted).map(tuple)

    found = draw(st.lists(st.tuples(*map(run, SIZE)), max_size=most))
    return CellBoxes.of(SIZE, found)


def cells(box):
    return set(product(*(range(low, high + 1) for low, high in box.runs())))


def every(some):
    return np.arange(len(some))


def covered_by(some):
    return set().union(*(cells(some[i]) for i in range(len(some))))


@given(boxes())
def test_the_parts_outside_are_the_rest_and_do_not_meet(some):
    covered = covered_by(some)
    parts = [cells(part) for part in parts_outside(some.whole(), some, every(some), Meter(10**6))]
    assert set().union(*parts) == cells(some.whole()) - covered
    assert sum(map(len, parts)) == len(set().union(*parts))


@given(boxes(), boxes())
def test_a_wanted_part_meets_what_is_wanted(some, others):
    both = CellBoxes(
        some.size,
        np.concatenate([some.low, others.low], axis=1),
        np.concatenate([some.high, others.high], axis=1),
    )
    wanted = np.arange(len(some), len(both))
    covered = covered_by(some)
    goal = covered_by(others) - covered
    found = find_uncovered(both.whole(), both, every(some), Meter(10**6), wanted)
    assert (found is None) == (not goal)
    assert found is None or (cells(found) & goal and not cells(found) & covered)


@given(boxes())
def test_a_grown_box_meets_nothing_and_cannot_grow_further(some):
    found = find_uncovered(some.whole(), some, every(some), Meter(10**6))
    if found is None:
        return
    covered = covered_by(some)
    large = grow_box(found, some.whole(), some, every(some))
    assert cells(found) <= cells(large) and not cells(large) & covered
    for axis, size in enumerate(SIZE):
        for low, high in ((-1, 0), (0, 1)):
            wider = Box(large.low.copy(), large.high.copy())
            wider.low[axis] += low
            wider.high[axis] += high
            if wider.low[axis] >= 0 and wider.high[axis] < size:
                assert cells(wider) & covered


def test_a_budget_is_kept_and_counted_in_steps():
    grid = [((a, a), (b, b), (c, c)) for a, b, c in product(*map(range, SIZE))]
    some = CellBoxes.of(SIZE, grid[:-1])
    with pytest.raises(GaveUp):
        find_uncovered(some.whole(), some, every(some), Meter(100))
    meter = Meter(10**6)
    found = find_uncovered(some.whole(), some, every(some), meter)
    assert found is not None and found.runs() == [(3, 3), (2, 2), (4, 4)]
    again = Meter(10**6)
    find_uncovered(some.whole(), some, every(some), again)
    assert again.left == meter.left


numbers = st.floats(allow_nan=False, allow_infinity=False)
cuts = st.tuples(numbers, st.booleans()).map(lambda pair: Cut(pair[0] + 0.0, pair[1]))


@given(cuts, cuts)
def test_a_number_within_a_span_is_found_where_a_float_fits(one, other):
    span = Span(*sorted([one, other]))
    found = within_axis(span)
    if found is None:
        assert span.start == span.stop or math.nextafter(span.start.value, math.inf) == other.value
        assert span.start.after or span.start == span.stop
    else:
        assert span.start <= Cut(found, False) < span.stop


@pytest.mark.parametrize(
    ("text", "value"),
    [("(8..12]", 10), ("> 12", 13), ("< 0.5", 0), ("= 0.1", 0.1), ("(0.1..0.2)", 0.15)]
    + [("> 3e38", 6e38), ("(0.3..0.30000001)", 0.3)],
)
def test_counterexamples_are_short_numbers(text, value):
    condition = parse_condition(text, Feature("a"))
    assert isinstance(condition, NumberSpans)
    assert within_axis(condition.spans[0]) == pytest.approx(value)


def test_the_gap_between_neighbouring_floats_is_no_cell():
    low = 0.1
    high = math.nextafter(low, 1)
    conditions = [parse_condition(f"<= {low!r}", Feature("a"))]
    conditions.append(parse_condition(f">= {high!r}", Feature("a")))
    axis = Axis.of(Feature("a"), conditions)
    assert len(axis) == 2
    assert [axis.runs(condition) for condition in conditions] == [[(0, 0)], [(1, 1)]]


def test_levels_nobody_tells_apart_are_one_cell():
    coal = Feature("coal", levels=tuple("ABCDEF"))
    conditions = [parse_condition(text, coal) for text in ("in A, B, C", "not C")]
    axis = Axis.of(coal, conditions)
    assert axis.groups == ((0, 1), (2,), (3, 4, 5))
    assert [axis.runs(condition) for condition in conditions] == [[(0, 1)], [(0, 0), (2, 2)]]
    assert axis.text((1, 2)) == "not A, B"


def test_an_axis_ends_at_the_scope():
    ash = Feature("ash", low=0, high=30)
    conditions = [parse_condition(text, ash) for text in ("> 30", ">= 30", "< 0", "[-5..10)")]
    axis = Axis.of(ash, conditions)
    assert [axis.runs(condition) for condition in conditions] == [[], [(2, 2)], [], [(0, 0)]]
    assert [axis.text((i, i)) for i in range(3)] == ["< 10", "[10..30)", ">= 30"]
