"""A mixture as sharp as all sites' rows together say, as far as its own are too few to."""

from dataclasses import replace

import pytest
import torch

from fedlore.core.sharpness import SHARP_FACTORS, USUAL, choose_factor
from fedlore.engine.lore.private import EXPERT, NETWORK, Unseen, Voice
from fedlore.engine.lore.sharpening import curve_of, sharpen_anew
from fedlore.personal.beside import Beside
from fedlore.personal.own.linear import Linear
from fedlore.personal.own.members import OrderMember

from .test_calibrating import SHARE, disagreeing, mixed


def unseen(rows, seed=0, factor=1.0):
    voices, y = disagreeing(rows, seed)
    return Unseen(tuple(voices), SHARE, y, True, factor)


def beside():
    none = torch.zeros(0, dtype=torch.float64)
    body = Linear(none, none, none.reshape(0, 1), torch.ones(1, dtype=torch.float64))
    members = tuple(OrderMember(name, body, False, False, 1.0, 12) for name in "ab")
    return Beside(members, (0.3, 0.3), 0.4, sharpness=0.5)


def test_a_curve_is_the_loss_of_the_mixture_under_each_factor():
    one = unseen(40)
    found = curve_of(one)
    for place in (0, 12, 33):
        likely = mixed(one.voices, SHARP_FACTORS[place])[torch.arange(40), one.y]
        assert float(found[place]) == pytest.approx(-float(likely.log().sum()), rel=1e-9)
    assert curve_of(None).tolist() == [0.0] * len(SHARP_FACTORS)
    assert choose_factor(curve_of(None)) == pytest.approx(USUAL, rel=0.03)


def test_sums_over_sites_find_what_one_site_with_all_rows_would():
    whole = unseen(600)
    parts = [
        replace(
            whole,
            voices=tuple(replace(v, held=v.held[rows]) for v in whole.voices),
            y=whole.y[rows],
        )
        for rows in torch.arange(600).split([10, 90, 500])
    ]
    total = torch.stack([curve_of(part) for part in parts]).sum(0)
    assert torch.allclose(total, curve_of(whole))
    assert choose_factor(total) > 1.3


def test_few_rows_follow_all_sites_and_many_rows_follow_themselves():
    dull, keen = (torch.tensor([(f - to) ** 2 for f in SHARP_FACTORS]) * 1e4 for to in (0.6, 3.0))
    for rows, apart in ((4, 1.8), (4000, 0.1)):
        low, high = (sharpen_anew(beside(), unseen(rows), t).unseen.factor for t in (dull, keen))
        assert (high - low > apart) if rows == 4 else (high - low < apart)


def test_members_and_network_change_by_one_factor_and_say_whose_it_is():
    one, total = unseen(30, factor=1.25), curve_of(unseen(2000, 1))
    found = sharpen_anew(beside(), one, total)
    ratio = found.unseen.factor / 1.25
    assert found.beside.sharpness == pytest.approx(0.5 * ratio)
    assert [m.width for m in found.beside.members] == pytest.approx([ratio**-0.5] * 2)
    assert found.beside.calibrated == "common" and beside().calibrated == "own"
    assert found.beside.weights == (0.3, 0.3)
    again = sharpen_anew(found.beside, found.unseen, total)  # asked twice: the same
    assert again.beside.sharpness == found.beside.sharpness
    assert torch.equal(again.judged.scores, found.judged.scores)


def test_who_keeps_his_own_doubt_is_not_sharpened():
    one = unseen(50)
    firm = Voice(EXPERT, one.voices[1].held, shared=False, firm=True)
    alone = Unseen((firm,), {EXPERT: 1.0}, one.y, True, 1.0)
    assert len(set(curve_of(alone).tolist())) == 1
    soft = Unseen((replace(firm, firm=False),), {EXPERT: 1.0}, one.y, True, 1.0)
    assert len(set(curve_of(soft).tolist())) > 1
    assert NETWORK in {voice.name for voice in one.voices}
