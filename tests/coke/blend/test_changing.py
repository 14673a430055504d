"""What must change: the nearest good blend by traded mass, and single features that would do."""

import numpy as np
import pytest
import torch

from fedlore import FedloreError, Knowledge
from fedlore_coke.blend import order_for
from fedlore_coke.blend.change import change_words, read_blend, smallest_change
from fedlore_coke.blend.limits import lattice
from fedlore_coke.blend.mixing import rows_of

from .world import GRADES, ladder, three, wild


def ordered(model=None, coals=None, target="grade>=good", confidence=0.6, **more):
    coals = coals or three()
    return order_for(model or ladder(), GRADES, coals, target, confidence=confidence, **more)


@pytest.mark.parametrize("model", [ladder(), wild(1)])
def test_no_blend_of_a_fine_grid_is_nearer(model):
    order = ordered(model, confidence=0.4)
    now = np.array([0.9, 0.1, 0.0])
    found = smallest_change(order, now)
    grid = lattice(order.limits, 100)
    good = grid[order.judge(grid).good(order.goal)]
    nearest = float(np.abs(good - now).sum(1).min()) / 2
    assert found.then is not None and not found.reached
    assert found.traded <= nearest + 1e-6 and found.chance_then >= 0.4


def test_a_single_feature_is_moved_no_further_than_needed():
    order = ordered()
    found = smallest_change(order, np.array([1.0, 0.0, 0.0]))
    by_name = {f.name: f for f in found.features}
    rank = by_name["rank"]
    assert rank.now == pytest.approx(0.8) and rank.then > rank.now

    def chance(value):
        row = rows_of(np.array([[16.0, value]]))
        return float(order.grader.look(row, (order.target,))[0][0, 0])

    assert chance(rank.then) >= 0.6 > chance(rank.then - 2 * 2.0 / 200)


def test_a_feature_is_found_though_the_range_refuses_a_part_of_its_scope():
    free = {f.name: f.then for f in smallest_change(ordered(), np.array([1.0, 0.0, 0.0])).features}
    corner = Knowledge(range=lambda x: ~(x[:, 1:] > 1.75) & torch.ones(4, dtype=torch.bool))
    found = smallest_change(ordered(ladder(corner)), np.array([1.0, 0.0, 0.0]))
    assert {f.name: f.then for f in found.features}["rank"] == free["rank"] < 1.75


def test_a_blend_that_is_good_needs_nothing_and_one_that_cannot_be_is_told():
    order = ordered()
    fine = smallest_change(order, np.array([0.0, 0.0, 1.0]))
    assert fine.reached and fine.traded == 0.0 and "as it is" in change_words(fine)[0]
    never = smallest_change(ordered(confidence=0.9999999), np.array([1.0, 0.0, 0.0]))
    assert never.then is None and any("No blend" in line for line in change_words(never))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coal,share\ncheap,60\n", "add up to 60 %"),
        ("coal,share\ncheep,100\n", "coal 'cheep'"),
        ("coal,part\ncheap,100\n", "column 'share'"),
        ("coal,share\ncheap,-1\ndear,101\n", "from 0 on"),
    ],
)
def test_a_blend_that_cannot_be_read_is_one_sentence(tmp_path, text, message):
    path = tmp_path / "blend.csv"
    path.write_text(text)
    with pytest.raises(FedloreError, match=message):
        read_blend(path, ordered())
