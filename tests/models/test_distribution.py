"""Decoding: for random edges, sets and distributions nothing leaves S(x), not by one ulp."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import FedloreError
from fedlore.answers import Bins, Sets
from fedlore.models.distribution import Distribution

from ..answers.strategies import as_sets, bins, cases

LEVELS = (0.0, 1e-300, 0.05, 0.3, 0.5, 0.9, 1 - 1e-16, 1.0)


@st.composite
def distributions(draw):
    """A case with an expert who names a number of his set, or is silent."""
    case = draw(cases())
    said = []
    for row in case.rows:
        a, b = draw(st.sampled_from(row))
        said.append(draw(st.sampled_from((a, b, math.nan))))
    weight = draw(st.sampled_from((0.0, 1e-12, 0.3, 0.5, 0.7, 1.0)))
    numbers = torch.tensor(said, dtype=torch.float64)
    found = Distribution.spread(
        case.probabilities, case.bins, case.sets, said=numbers, weight=weight
    )
    return case, found, numbers, weight


def held(rows, values) -> bool:
    """Whether plain floats lie in plain intervals, without torch and without tolerance."""
    return all(
        any(a <= v <= b for a, b in row) for row, v in zip(rows, values.tolist(), strict=True)
    )


@given(distributions())
def test_every_decoded_number_lies_in_the_set_exactly(made):
    case, found, _, _ = made
    assert held(case.rows, found.mean())
    assert held(case.rows, found.mode())
    for level in LEVELS:
        assert held(case.rows, found.quantile(level))
    for end in found.interval(0.9):
        assert held(case.rows, end)


@given(distributions())
def test_prediction_regions_lie_in_the_set(made):
    case, found, _, _ = made
    region = found.region(0.8)
    assert not region.empty.any()
    inside = region.meet(case.sets)
    for ours, kept in ((region.lower, inside.lower), (region.upper, inside.upper)):
        torch.testing.assert_close(kept, ours, rtol=0, atol=0, equal_nan=True)


@given(distributions())
def test_quantiles_grow_with_the_level_and_reach_it(made):
    case, found, _, _ = made
    rounding = 4 * math.ulp(max(abs(edge) for edge in case.bins.edges))
    values = torch.stack([found.quantile(level) for level in LEVELS])
    assert (values[1:] >= values[:-1]).all()
    for level, value in zip(LEVELS, values, strict=True):
        assert (found.cdf(value + rounding) >= level - 1e-9).all()


@given(distributions())
def test_the_expert_has_the_last_word_at_full_trust(made):
    _, found, said, weight = made
    if weight == 1.0:
        spoken = ~said.isnan()
        for value in (found.mean(), found.mode(), found.quantile(0.3)):
            assert torch.equal(value[spoken], said[spoken])


@given(distributions())
def test_above_one_half_the_mode_is_in_the_experts_bin(made):
    case, found, said, weight = made
    spoken = ~said.isnan()
    if weight > 0.5 and spoken.any():
        mode, told = (t[spoken] for t in (found.mode(), said))
        own = case.bins.encode(told)
        edges = torch.tensor(case.bins.edges, dtype=torch.float64)
        assert ((edges[own] <= mode) & (mode <= edges[own + 1])).all()


@given(bins(), st.integers(0, 2**31))
def test_without_a_range_the_mode_is_the_middle_of_the_bin(cut, seed):
    g = torch.Generator().manual_seed(seed)
    p = torch.rand(3, cut.k, generator=g, dtype=torch.float64)
    found = Distribution.spread(p, cut)
    wide = max(abs(cut.lower), abs(cut.upper))
    assert torch.allclose(found.mode(), cut.decode(p.argmax(1)), atol=4 * math.ulp(wide), rtol=0)


def test_numbers_one_can_redo_by_hand():
    cut = Bins(0.0, 10.0, 5)
    p = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]])
    sets = as_sets([[(3.0, 4.0), (6.0, 7.0)]])  # half of bin 1, and half of bin 3
    found = Distribution.spread(p, cut, sets)
    # pieces [3, 4] and [6, 7]; the mean 5 is in the gap, 4 and 6 are as near: the lower one
    assert found.mean().tolist() == [4.0]
    assert found.mode().tolist() == [3.5]
    assert found.quantile(0.25).tolist() == [3.5]
    assert found.quantile(0.75).tolist() == [6.5]
    assert found.cdf(torch.tensor([6.5])).tolist() == [0.75]
    region = found.region(0.5)
    assert (region.lower.tolist(), region.upper.tolist()) == ([[3.5, 6.0]], [[4.0, 6.5]])


def test_a_set_that_cuts_a_bin_into_pieces_decodes_inside_itself():
    cut = Bins(0.0, 1.0, 2)
    sets = as_sets([[(0.0, 0.1), (0.4, 0.45)]])
    found = Distribution.spread(torch.tensor([[1.0, 0.0]]), cut, sets)
    # 2/3 of the probability on [0, 0.1], 1/3 on [0.4, 0.45]: the mean 0.175 is in the gap
    assert found.mean().tolist() == [0.1]
    assert found.quantile(0.8).item() == pytest.approx(0.42)


def test_a_set_inside_a_single_bin():
    sets = as_sets([[(4.25, 4.5)]])
    found = Distribution.spread(torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]]), Bins(0.0, 10.0, 5), sets)
    assert found.mean().tolist() == found.mode().tolist() == [4.375]
    assert found.interval(0.5)[0].tolist() == [4.3125]


def test_single_numbers_share_a_bin_equally():
    sets = as_sets([[(0.1, 0.1), (0.3, 0.3)]])
    found = Distribution.spread(torch.tensor([[1.0, 0.0]]), Bins(0.0, 1.0, 2), sets)
    assert [found.quantile(q).item() for q in (0.0, 0.5, 0.51, 1.0)] == [0.1, 0.1, 0.3, 0.3]
    assert found.cdf(torch.tensor([0.1])).tolist() == [0.5]


def test_the_experts_number_is_not_the_middle_of_its_bin():
    cut = Bins(0.0, 10.0, 5)
    found = Distribution.spread(
        torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0]]), cut, said=torch.tensor([1.9]), weight=0.5
    )
    assert found.mean().item() == pytest.approx(0.5 * 1.0 + 0.5 * 1.9)
    assert found.quantile(0.5).item() == pytest.approx(1.9)
    assert found.quantile(0.25).item() == pytest.approx(0.25 / 0.5 * 2.0)


def test_what_cannot_be_decoded_is_refused():
    cut = Bins(0.0, 10.0, 5)
    p = torch.tensor([[0.5, 0.5, 0.0, 0.0, 0.0]])
    with pytest.raises(FedloreError, match="row 0 gives probability to a bin that its set"):
        Distribution.spread(p, cut, Sets.whole(1, 0.0, 1.0))
    with pytest.raises(FedloreError, match="5 probabilities a row"):
        Distribution.spread(p[:, :4], cut)
    with pytest.raises(FedloreError, match="row 0: the expert's number 9.0 is not in its set"):
        Distribution.spread(p, cut, Sets.whole(1, 0.0, 5.0), said=torch.tensor([9.0]), weight=0.1)
    found = Distribution.spread(p, cut)
    with pytest.raises(FedloreError, match=r"\[0, 1\], got 1.5"):
        found.quantile(1.5)
    with pytest.raises(FedloreError, match="between 0 and 1, got 1"):
        found.interval(1.0)
