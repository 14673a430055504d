"""A mixture of members that are right about their doubts doubts too much; one factor undoes it."""

import torch

from fedlore.core.cells import log_cells
from fedlore.core.reliability import calibration_error
from fedlore.core.rng import stream
from fedlore.engine.lore.calibrating import mixture_sharpness, sharpen
from fedlore.engine.lore.private import NETWORK, Voice
from fedlore.personal.own.linear import Linear
from fedlore.personal.own.members import ClassMember, OrderMember
from fedlore.personal.own.mixture import mix


def disagreeing(rows, seed=0):
    """Three members that each see the place with noise of their own, and say so honestly."""
    draw = stream("calibrating", seed)
    place = 3.0 + 5.0 * torch.rand(rows, generator=draw, dtype=torch.float64)
    y = (place + 0.5 * torch.randn(rows, generator=draw, dtype=torch.float64)).round().clamp(0, 11)
    voices = []
    for name in (NETWORK, "a", "b"):
        seen = place + 1.0 * torch.randn(rows, generator=draw, dtype=torch.float64)
        said = log_cells(seen, torch.full_like(seen, 1.25**0.5), 12, "normal")
        voices.append(Voice(name, said, shared=name == NETWORK))
    return voices, y.long()


def mixed(voices, factor):
    parts = torch.stack([torch.log_softmax(factor * v.held, 1).exp() for v in voices])
    return mix(parts, [0.4, 0.3, 0.3])


SHARE = {NETWORK: 0.4, "a": 0.3, "b": 0.3}


def test_each_member_is_calibrated_and_their_mixture_is_not_until_it_is_sharpened():
    voices, y = disagreeing(20_000)
    assert all(calibration_error(voice.held.exp(), y) < 0.02 for voice in voices)
    factor = mixture_sharpness(voices, SHARE, y)
    raw, sharp = (calibration_error(mixed(voices, f), y) for f in (1.0, factor))
    assert factor > 1.3 and raw > 0.05 and sharp < 0.6 * raw


def test_few_rows_do_not_decide_alone():
    factors = [mixture_sharpness(*_few(seed)) for seed in range(20)]
    assert 1.0 <= min(factors) and max(factors) <= 2.0


def _few(seed):
    voices, y = disagreeing(8, seed)
    return voices, SHARE, y


def test_a_sharper_member_is_steeper_by_the_factor():
    none = torch.zeros(0, dtype=torch.float64)
    body = Linear(none, none, none.reshape(0, 1), torch.ones(1, dtype=torch.float64))
    assert sharpen(OrderMember("m", body, False, False, 1.0, 12), 4.0).width == 0.5
    assert sharpen(ClassMember("m", body, False, False, 2.0), 1.5).sharpness == 3.0
    # a bell of half the width is the bell to the fourth, far from its ends
    place = torch.tensor([9.0], dtype=torch.float64)
    wide, narrow = (log_cells(place, torch.tensor([w]).double(), 20, "normal") for w in (2.4, 1.2))
    steep = torch.log_softmax(4.0 * wide, 1)
    assert torch.allclose(steep.exp(), narrow.exp(), atol=0.01)


def test_without_voices_nothing_is_sharpened():
    assert mixture_sharpness([], {}, torch.zeros(0, dtype=torch.long)) == 1.0
