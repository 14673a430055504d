"""Numbers into bins and back, at the edges and beside them."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import FedloreError
from fedlore.answers import Bins
from fedlore.answers.measured import show_scores

from .strategies import as_sets, bins, ends


@given(bins(), st.data())
def test_encode_finds_the_half_open_bin(cut, data):
    near = [math.nextafter(e, way) for e in cut.edges for way in (-math.inf, math.inf)]
    y = [v for v in (*cut.edges, *near) if cut.lower <= v <= cut.upper]
    y += data.draw(st.lists(st.floats(cut.lower, cut.upper), max_size=5))
    for value, grade in zip(y, cut.encode(torch.tensor(y, dtype=torch.float64)), strict=True):
        low, high = cut.edges[grade], cut.edges[grade + 1]
        assert low <= value < high or (grade == cut.k - 1 and value == cut.upper)


@given(bins(), st.data())
def test_without_a_range_decoding_is_within_half_a_bin(cut, data):
    y = data.draw(st.lists(st.floats(cut.lower, cut.upper), min_size=1, max_size=5))
    y += [cut.lower, cut.upper]
    grades = cut.encode(torch.tensor(y, dtype=torch.float64))
    for value, grade, back in zip(y, grades, cut.decode(grades).tolist(), strict=True):
        low, high = Fraction(cut.edges[grade]), Fraction(cut.edges[grade + 1])
        rounding = Fraction(math.ulp(max(abs(low), abs(high))))  # of the middle itself
        assert abs(Fraction(value) - Fraction(back)) <= (high - low) / 2 + rounding


@given(bins(), st.data())
def test_a_number_is_found_again_from_its_place(cut, data):
    y = [cut.lower, cut.upper, *data.draw(st.lists(st.floats(cut.lower, cut.upper), max_size=5))]
    numbers = torch.tensor(y, dtype=torch.float64)
    places = cut.places(numbers)
    assert (places[:2] == torch.tensor([-0.5, cut.k - 0.5])).all()
    middles = cut.decode(torch.arange(cut.k))
    wide = torch.tensor(
        [a < m < b for a, m, b in zip(cut.edges, middles, cut.edges[1:], strict=False)]
    )
    # two edges next to each other in floating point have no number between them
    assert torch.equal(cut.places(middles).round()[wide], (torch.arange(cut.k) * 1.0)[wide])
    widest = max(abs(e) for e in cut.edges)
    assert torch.allclose(cut.numbers(places), numbers, atol=1e-12 * widest, rtol=1e-12)


@given(bins(), st.data())
def test_touched_is_the_intersection_in_exact_arithmetic(cut, data):
    row = data.draw(ends(cut))
    edges = [Fraction(e) for e in cut.edges]

    def meets(i: int, a: float, b: float) -> bool:
        start = max(Fraction(a), edges[i])
        ends_open = i < cut.k - 1  # half-open but for the last bin
        reach = start < edges[i + 1] if ends_open else start <= edges[i + 1]
        return start <= Fraction(b) and reach

    expected = [any(meets(i, a, b) for a, b in row) for i in range(cut.k)]
    assert cut.touched(as_sets([row]))[0].tolist() == expected


@given(bins(), st.data())
def test_the_bin_of_a_number_is_touched_by_every_set_that_holds_it(cut, data):
    row = data.draw(ends(cut))
    numbers = torch.tensor([v for pair in row for v in pair], dtype=torch.float64)
    allowed = cut.touched(as_sets([row]))[0]
    assert allowed[cut.encode(numbers)].all()


@given(bins(), st.data())
def test_pieces_lie_in_the_set_and_together_are_all_of_it(cut, data):
    row = data.draw(ends(cut))
    sets = as_sets([row])
    lower, upper = cut.pieces(sets)
    here = ~lower.isnan()
    for end in (lower[here], upper[here]):
        for value in end:
            assert sets.holds(value.reshape(1)).all()
    whole = type(sets).of(lower.flatten(1), upper.flatten(1))
    assert torch.equal(whole.lower, sets.lower) and torch.equal(whole.upper, sets.upper)


def test_an_interval_that_only_touches_an_open_end_does_not_allow_the_bin():
    cut = Bins(0.0, 3.0, 3)
    assert cut.touched(as_sets([[(1.0, 1.0)]])).tolist() == [[False, True, False]]
    assert cut.touched(as_sets([[(0.5, 1.0)]])).tolist() == [[True, True, False]]
    assert cut.touched(as_sets([[(3.0, 3.0)]])).tolist() == [[False, False, True]]


def test_the_bounds_have_a_bin_and_two_bins_are_enough():
    cut = Bins(-1.0, 1.0, 2)
    assert cut.encode(torch.tensor([-1.0, 0.0, 1.0])).tolist() == [0, 1, 1]
    assert cut.decode(torch.tensor([0, 1])).tolist() == [-0.5, 0.5]


def test_edges_end_exactly_at_the_bounds():
    assert Bins(0.0, 0.3, 3).edges[-1] == 0.3
    assert Bins(0.1, 0.7, 7).edges[0] == 0.1


def test_given_edges_and_quantiles_of_a_public_sample():
    cut = Bins.at([0, 1, 10, 100])
    assert (cut.k, cut.edges) == (3, (0.0, 1.0, 10.0, 100.0))
    even = Bins.quantiles(torch.arange(101.0), 4, lower=-5.0, upper=200.0)
    assert even.edges == (-5.0, 25.0, 50.0, 75.0, 200.0)
    tied = Bins.quantiles(torch.tensor([1.0, 1.0, 1.0, 2.0]), 4, lower=0.0, upper=3.0)
    assert tied.edges == (0.0, 1.0, 1.25, 3.0)
    sample = torch.tensor([0.0, 0.0, 0.0, 1.0, 2.0, 3.0])  # a quarter lies on the lower bound
    assert Bins.quantiles(sample, 4, lower=0.0, upper=3.0).edges == (0.0, 0.5, 1.75, 3.0)


def test_a_number_outside_is_refused_with_its_row_or_clipped_when_asked():
    cut = Bins(0.0, 10.0, 5)
    y = torch.tensor([1.0, 10.5, -2.0])
    with pytest.raises(
        FedloreError, match=r"2 are not, first row 1 has 10.5 \(widen lower and upper"
    ):
        cut.encode(y)
    assert cut.encode(y, clip=True).tolist() == [0, 4, 0]


def test_scores_have_names_that_people_know_and_a_loss_without_end_is_not_left_out():
    assert show_scores({"ta": 0.5, "pov": 0.0, "nll": 0.25}) == {
        "right": "0.5000",
        "answers outside the range": "0.0000",
        "log-loss": "0.2500",
    }
    assert show_scores({"ta": 0.5})["log-loss"] == "infinite"  # a label had probability 0
    assert list(show_scores({"rmse": 1.0})) == ["rmse"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_label_that_is_no_number_is_refused_even_when_clipping(bad):
    with pytest.raises(FedloreError, match="must be finite: 1 are not, first row 2"):
        Bins(0.0, 1.0, 2).encode(torch.tensor([0.0, 1.0, bad]), clip=True)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Bins(1.0, 1.0, 4), "lower < upper, got lower 1.0 and upper 1.0"),
        (lambda: Bins(2.0, 1.0, 4), "lower < upper"),
        (lambda: Bins(0.0, 1.0, 1), "at least 2 bins, got 1"),
        (lambda: Bins(0.0, math.inf, 4), "finite"),
        (lambda: Bins(math.nan, 1.0, 4), "finite"),
        (lambda: Bins(1.0, math.nextafter(1.0, 2.0), 2), "edges must increase"),
        (lambda: Bins.at([0.0, 2.0, 1.0, 3.0]), "got 2.0 before 1.0"),
        (lambda: Bins.at([0.0, 1.0]), "at least 2 bins"),
        (lambda: Bins(0.0, 1.0, 3, (0.5,)), "3 bins need 2 inner edges, got 1"),
        (lambda: Bins.quantiles(torch.tensor([math.nan]), 2, lower=0.0, upper=1.0), "finite"),
        (lambda: Bins.quantiles(torch.zeros(3), 1, lower=0.0, upper=1.0), "at least 2 bins"),
    ],
)
def test_bins_that_make_no_sense_are_refused(make, says):
    with pytest.raises(FedloreError, match=says):
        make()
