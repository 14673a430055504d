"""Intervals against brute force: what is enclosed is what can be computed, and hardly more."""

import math
from itertools import product

import numpy as np
import pytest

from fedlore.kernel.intervals import (
    Arithmetic,
    Interval,
    Truth,
    choose_interval,
    compare_intervals,
    conjunction,
    meet,
    negation,
)

SINGLE = np.float32
ENDS = (-3.0, -1.0, -0.5, 0.0, 0.5, 2.0, 3.0)
PLAIN = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power,
    "min": np.minimum, "max": np.maximum, "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt,
    "exp": np.exp, "log": np.log, "log10": np.log10,
}  # fmt: skip
WHOLE = (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0)  # powers that a negative base has


def interval(low, high, undefined=False):
    return Interval(np.array([low]), np.array([high]), np.array([undefined]))


def values(low, high):
    """Numbers from one end to the other, both included, and those beside 0."""
    some = {
        *np.linspace(low, high, 9).tolist(),
        *(e for e in (-1e-30, 0.0, 1e-30) if low < e < high),
    }
    return np.array(sorted(some), SINGLE)


@pytest.mark.parametrize("op", PLAIN)
@np.errstate(all="ignore")
def test_an_operation_encloses_all_that_is_computed_and_reaches_both_ends(op):
    count = 1 if op in ("neg", "abs", "sqrt", "exp", "log", "log10") else 2
    boxes = [(a, b) for a, b in product(ENDS, repeat=2) if a <= b]
    second = [(n, n) for n in WHOLE] + [(0.5, 2.0)] if op == "**" else boxes
    for args in product(*[boxes, second][:count]):
        found = Arithmetic().apply(op, *(interval(*one) for one in args))
        each = np.meshgrid(*(values(*one) for one in args))
        said = PLAIN[op](*each).astype(np.float64).ravel()
        there = said[np.isfinite(said)]
        low, high = float(found.low[0]), float(found.high[0])
        assert bool(found.undefined[0]) == (len(there) < len(said)) or op == "**", args
        assert found.undefined[0] or len(there) == len(said), args
        if not len(there):
            assert found.undefined[0] and (op == "**" or (math.isnan(low) and math.isnan(high)))
            continue
        assert low <= there.min() and there.max() <= high, args
        if not found.undefined[0]:  # as far as values reach, up to a few units in the last place
            slack = 4e-6 * max(1e-3, abs(low), abs(high))
            assert there.min() - low <= slack and high - there.max() <= slack, args


@np.errstate(all="ignore")
def test_what_is_beyond_the_largest_number_is_undefined_and_its_neighbour_is_not():
    most, number = float(np.finfo(SINGLE).max), Arithmetic()
    for factor, beyond in ((1.0, False), (1.0000002, True), (-1.0, False), (-1.0000002, True)):
        found = number.multiply(interval(most, most), interval(factor, factor))
        assert bool(found.undefined[0]) == beyond
        assert sorted(np.abs([found.low[0], found.high[0]])) == [most, math.inf if beyond else most]
    tiny = float(np.finfo(SINGLE).tiny)
    for scale, low in ((1.0, 0.0), (2.0, 2 * tiny)):  # a runtime may take a subnormal for 0
        found = number.multiply(interval(tiny, tiny), interval(scale, scale))
        assert (found.low[0], found.high[0]) == (low, scale * tiny)


def test_a_comparison_can_be_what_some_numbers_make_it():
    ends = [(a, b) for a, b in product((0.0, 1.0, 2.0), repeat=2) if a <= b]
    plain = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
             "==": np.equal, "!=": np.not_equal}  # fmt: skip
    for (op, ask), one, two in product(plain.items(), ends, ends):
        x, y = (np.arange(4 * a, 4 * b + 1) for a, b in (one, two))
        truth = ask(x[:, None], y)
        found = compare_intervals(op, interval(*one), interval(*two))
        assert (bool(found.true[0]), bool(found.false[0])) == (truth.any(), not truth.all())
        for a, b in ((True, False), (False, True), (False, False)):
            undefined = compare_intervals(op, interval(*one, a), interval(*two, b)).undefined[0]
            assert bool(undefined) == (a or b)


STATES = list(product((True, False), repeat=3))  # may be true, false, undefined


def truth_of(state):
    return Truth(*(np.array([one]) for one in state))


def outcomes(state):
    return [value for value, may in zip((True, False, None), state, strict=True) if may]


def test_and_and_not_are_what_their_sides_can_make_them():
    for one, two in product(STATES, repeat=2):
        pairs = list(product(outcomes(one), outcomes(two)))
        found = conjunction(truth_of(one), truth_of(two))
        # a side without a value is met only where the other is not false
        can = [None in pair and False not in pair for pair in pairs]
        assert bool(found.undefined[0]) == any(can)
        assert bool(found.true[0]) == ((True, True) in pairs)
        assert bool(found.false[0]) == (one[1] or two[1])
        turned = negation(truth_of(one))
        assert [bool(part[0]) for part in (turned.true, turned.false, turned.undefined)] == [
            one[1], one[0], one[2]]  # fmt: skip


def test_a_choice_has_the_values_of_the_sides_that_it_can_take():
    yes, no = interval(1.0, 2.0, True), interval(4.0, 5.0)
    for true, false, undefined in STATES:
        found = choose_interval(truth_of((true, false, undefined)), yes, no)
        ends = [end for one, may in (((1.0, 2.0), true), ((4.0, 5.0), false)) if may for end in one]
        said = (float(found.low[0]), float(found.high[0]))
        assert said == (min(ends), max(ends)) if ends else all(map(math.isnan, said))
        assert bool(found.undefined[0]) == (true or undefined)


@pytest.mark.parametrize(
    ("one", "two", "both"),
    [
        ((0.0, 2.0), (1.0, 3.0), (1.0, 2.0)),
        ((0.0, 1.0), (1.0, 3.0), (1.0, 1.0)),
        ((0.0, 1.0), (1.5, 3.0), None),
        ((0.0, 9.0), (1.0, 3.0), (1.0, 3.0)),
    ],
)
def test_intervals_meet_in_what_lies_in_both(one, two, both):
    for a, b in ((one, two), (two, one)):
        found = meet(interval(*a, True), interval(*b))
        said = found.low[0], found.high[0]
        assert said == both if both else np.isnan(said).all()
        assert not found.undefined[0]
