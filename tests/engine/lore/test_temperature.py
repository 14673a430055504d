"""A mixture of members that are right about their doubts doubts too much; one factor undoes it."""

import pytest
import torch

from fedlore.answers import Bins, Measured
from fedlore.core.metrics import calibration_error
from fedlore.core.ordinal import normal_cells
from fedlore.core.rng import stream
from fedlore.engine.lore.report import StackMember
from fedlore.engine.lore.temperature import (
    NETWORK,
    _Number,
    best_factor,
    number_width,
    weighed_rows,
)
from fedlore.models.distribution import Distribution
from fedlore.models.own.limits import MOST_WEIGHED
from fedlore.models.own.linear import Linear
from fedlore.models.own.members import ClassMember, OrderMember
from fedlore.models.own.mixture import NumberMixture, mix


def disagreeing(rows, seed=0):
    """Three members that each see the place with noise of their own, and say so honestly."""
    draw = stream("calibrating", seed)
    place = 3.0 + 5.0 * torch.rand(rows, generator=draw, dtype=torch.float64)
    y = (place + 0.5 * torch.randn(rows, generator=draw, dtype=torch.float64)).round().clamp(0, 11)
    members = []
    for name in (NETWORK, "a", "b"):
        seen = place + 1.0 * torch.randn(rows, generator=draw, dtype=torch.float64)
        said = normal_cells(seen, torch.full_like(seen, 1.25**0.5), 12)
        members.append(StackMember(name, said, shared=name == NETWORK))
    return members, y.long()


def mixed(members, factor):
    parts = torch.stack([torch.log_softmax(factor * v.oof, 1).exp() for v in members])
    return mix(parts, [0.4, 0.3, 0.3])


SHARE = {NETWORK: 0.4, "a": 0.3, "b": 0.3}


def test_each_member_is_calibrated_and_their_mixture_is_not_until_it_is_sharpened():
    members, y = disagreeing(20_000)
    assert all(calibration_error(member.oof.exp(), y) < 0.02 for member in members)
    factor = best_factor(members, SHARE, y)
    raw, sharp = (calibration_error(mixed(members, f), y) for f in (1.0, factor))
    assert factor > 1.3 and raw > 0.05 and sharp < 0.6 * raw


def test_few_rows_do_not_decide_alone():
    factors = [best_factor(*_few(seed)) for seed in range(20)]
    assert 1.0 <= min(factors) and max(factors) <= 2.0


def _few(seed):
    members, y = disagreeing(8, seed)
    return members, SHARE, y


def test_a_sharper_member_is_steeper_by_the_factor():
    none = torch.zeros(0, dtype=torch.float64)
    body = Linear(none, none, none.reshape(0, 1), torch.ones(1, dtype=torch.float64))
    assert OrderMember("m", body, False, False, 1.0, 12).with_temperature(4.0).width == 0.5
    assert (
        ClassMember("m", body, False, False, 2.0).with_temperature(1.5).inverse_temperature == 3.0
    )
    # a bell of half the width is the bell to the fourth, far from its ends
    place = torch.tensor([9.0], dtype=torch.float64)
    wide, narrow = (normal_cells(place, torch.tensor([w]).double(), 20) for w in (2.4, 1.2))
    assert torch.allclose(torch.log_softmax(4.0 * wide, 1).exp(), narrow.exp(), atol=0.01)


def told_rows(rows, seed, heavy):
    """A number and what a model says of it; misses are normal, or mostly small and seldom large."""
    draw = stream("widths", seed, rows)
    centre = 40.0 + 20.0 * torch.rand(rows, generator=draw, dtype=torch.float64)
    missed = torch.randn(rows, generator=draw, dtype=torch.float64)
    if heavy:
        seldom = torch.rand(rows, generator=draw, dtype=torch.float64) < 0.05
        missed = torch.where(seldom, 6.0 * missed, 0.5 * missed)
    y = (centre + 2.0 * missed).clamp(0.0, 100.0)
    return centre, Measured(torch.zeros(rows, 1), y, None, None, Bins(0.0, 100.0, 50))


def covered(centre, told, width):
    bell = NumberMixture((_Number(centre),), (1.0,), width=width)
    low, high = Distribution.spread(bell.probabilities(told), told.bins).interval(0.9)
    return float(((low <= told.y) & (told.y <= high)).double().mean())


@pytest.mark.parametrize(("rows", "heavy"), [(40, True), (200, False)])
def test_intervals_hold_nine_of_ten_new_rows(rows, heavy):
    """The mean over calibrations, as conformal sets promise; rms widths miss it where tails are."""
    new = told_rows(1000, "new", heavy)
    found, usual = [], []
    for seed in range(16):
        centre, told = told_rows(rows, seed, heavy)
        rms = float((told.y - centre).square().mean().sqrt())
        found.append(covered(*new, number_width(centre, told, rms)))
        usual.append(covered(*new, rms))
    assert 0.88 <= sum(found) / 16 <= 0.945
    if heavy:
        assert sum(usual) / 16 > sum(found) / 16 + 0.03


def test_too_few_rows_keep_the_widest_that_any_needs():
    centre, told = told_rows(5, 1, False)
    assert covered(centre, told, number_width(centre, told, 1.0)) == 1.0


def test_without_members_nothing_is_sharpened():
    assert best_factor([], {}, torch.zeros(0, dtype=torch.long)) == 1.0


def test_of_many_rows_evenly_spaced_ones_are_weighed():
    few, many = torch.arange(40) % 5 != 0, torch.arange(40_000) % 5 != 0
    assert weighed_rows(few) is few
    kept = weighed_rows(many)
    assert MOST_WEIGHED / 2 < int(kept.sum()) <= MOST_WEIGHED and not (kept & ~many).any()
    assert int(kept[:20_000].sum()) == pytest.approx(int(kept[20_000:].sum()), abs=1)
