"""Closed unions of intervals, held against plain arithmetic."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.answers import Sets
from fedlore.errors import KnowledgeError

from .strategies import as_sets, bins, ends


@st.composite
def rows(draw, least=1):
    cut = draw(bins())
    return cut, draw(st.lists(ends(cut, within=False), min_size=least, max_size=4))


def probes(found) -> list[float]:
    """Ends, their neighbours, and what lies between."""
    at = [v for row in found for pair in row for v in pair]
    near = [math.nextafter(v, way) for v in at for way in (-math.inf, math.inf)]
    between = [a / 2 + b / 2 for a in at[:4] for b in at[:4]]
    return [*at, *near, *between]


@given(rows())
def test_a_set_holds_exactly_the_numbers_of_its_intervals(case):
    _, found = case
    sets = as_sets(found)
    for v in probes(found):
        held = sets.holds(torch.full((len(found),), v, dtype=torch.float64))
        assert held.tolist() == [any(a <= v <= b for a, b in row) for row in found]


@given(rows())
def test_intervals_are_disjoint_and_in_order(case):
    sets = as_sets(case[1])
    for low, high in zip(sets.lower.tolist(), sets.upper.tolist(), strict=True):
        pairs = [(a, b) for a, b in zip(low, high, strict=True) if not math.isnan(a)]
        assert all(a <= b for a, b in pairs)
        assert all(b < c for (_, b), (c, _) in zip(pairs, pairs[1:], strict=False))


@given(rows(), st.floats(-2, 2))
def test_the_nearest_number_is_in_the_set_and_none_is_nearer(case, where):
    cut, found = case
    v = cut.lower + where * (cut.upper / 2 - cut.lower / 2)
    got = as_sets(found).nearest(torch.full((len(found),), v, dtype=torch.float64)).tolist()
    for near, row in zip(got, found, strict=True):
        assert any(a <= near <= b for a, b in row)
        exact = [min(max(Fraction(v), Fraction(a)), Fraction(b)) for a, b in row]
        best = min(abs(e - Fraction(v)) for e in exact)
        # candidates are exact; only their distances are rounded
        assert abs(Fraction(near) - Fraction(v)) <= best * (1 + Fraction(2) ** -50)


def test_of_two_numbers_that_are_as_near_the_lower_one_is_taken():
    gap = Sets.of(torch.tensor([[3.0, 0.0]]), torch.tensor([[4.0, 1.0]]))
    assert gap.nearest(torch.tensor([2.0])).tolist() == [1.0]


@given(rows(), rows())
def test_meet_and_join_are_and_and_or(one, other):
    n = min(len(one[1]), len(other[1]))
    a, b = one[1][:n], other[1][:n]
    both, either = as_sets(a).meet(as_sets(b)), as_sets(a).join(as_sets(b))
    for v in probes([*a, *b]):
        at = torch.full((n,), v, dtype=torch.float64)
        in_a, in_b = (torch.tensor([any(p <= v <= q for p, q in r) for r in x]) for x in (a, b))
        assert torch.equal(both.holds(at), in_a & in_b)
        assert torch.equal(either.holds(at), in_a | in_b)


def test_intervals_that_touch_are_one_and_neighbouring_floats_are_not():
    ensemble = math.nextafter(2.0, 3.0)
    touching = Sets.of(torch.tensor([[1.0, 2.0]]), torch.tensor([[2.0, 3.0]]))
    apart = Sets.of(
        torch.tensor([[1.0, ensemble]], dtype=torch.float64), torch.tensor([[2.0, 3.0]])
    )
    assert touching.lower.shape == (1, 1)
    assert apart.lower.shape == (1, 2)


def test_length_counts_no_gaps():
    sets = Sets.of(
        torch.tensor([[0.0, 5.0], [1.0, math.nan]]), torch.tensor([[1.0, 7.0], [1.0, math.nan]])
    )
    assert sets.length.tolist() == [3.0, 0.0]


def test_no_intervals_at_all_are_an_empty_set():
    assert Sets.of(torch.zeros(2, 0), torch.zeros(2, 0)).empty.tolist() == [True, True]


def test_a_set_may_become_empty_and_says_so():
    sets = Sets.of(torch.tensor([0.0, 5.0]), torch.tensor([1.0, 6.0])).clip(2.0, 5.0)
    assert sets.empty.tolist() == [True, False]
    assert sets.upper.tolist()[1] == [5.0]


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0]), "first row 1"),
        (torch.tensor([0.0, math.nan]), torch.tensor([1.0, 1.0]), "first row 1"),
        (torch.tensor([0.0]), torch.tensor([[1.0, 1.0]]), "shape"),
    ],
)
def test_crossed_and_half_open_intervals_are_refused(low, high, says):
    with pytest.raises(KnowledgeError, match=says):
        Sets.of(low, high)


def test_a_set_of_no_intervals_behaves_as_any_other_empty_set():
    none = Sets.of(torch.zeros(3, 0), torch.zeros(3, 0))
    some = Sets.of(torch.tensor([0.0, 2.0, 4.0]), torch.tensor([1.0, 3.0, 5.0]))
    assert none.meet(some).empty.all() and none.length.tolist() == [0.0] * 3
    assert none.join(some).lower.tolist() == some.lower.tolist()
    assert not none.holds(torch.tensor([0.5, 2.5, 4.5])).any()
