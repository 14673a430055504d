"""Boosting from sums of leaves: exact over sites, blind to what a fold holds, few questions."""

from dataclasses import replace

import pytest
import torch

from fedlore.core.boosting import (
    Boost,
    BoostRows,
    Forest,
    draw_trees,
    find_cuts,
    keep_trees,
    leaf_sums,
    make_grid,
)
from fedlore.errors import ConfigError, FedloreError
from fedlore.models.own.trees import tables_by_level

BOOST = Boost(rounds=15, draws=12, keep=3, depth=3, cuts=8)


def rows_of(n=120, *, seed=0, classes=0):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=draw)
    y = (x[:, 0] > 0).double() + 0.5 * (x[:, 1] * x[:, 2] > 0).double()
    grid = make_grid(torch.full((4,), -4.0).double(), torch.full((4,), 4.0).double())
    target = (y > 0.7).long() + (y > 1.2).long() if classes else y / 2
    return BoostRows(x, grid, target, torch.arange(n) % 2, 3, classes)


def boosted(sites, boost=BOOST):
    counts = sum(site.counts()["counts"] for site in sites)
    cuts = find_cuts(counts, sites[0].grid, boost)
    forest = Forest.empty(3, boost.depth, sites[0].outputs)
    for round in range(boost.rounds):
        drawn = draw_trees(cuts, boost, 3, f"0 {round}")
        every = [site.sums(forest.score(site.inputs, boost.keep), drawn) for site in sites]
        total = {name: sum(one[name] for one in every) for name in every[0]}
        steep = 0.25 if sites[0].classes else 1.0
        forest = forest.add(keep_trees(total, drawn, boost, curvature=steep))
    return forest


def test_it_learns_steps_and_products_that_no_line_has():
    one, new = rows_of(), rows_of(seed=1)
    said = boosted([one]).score(new.inputs, BOOST.keep)[-1, :, 0]
    left = new.target - said
    assert left.var() < 0.4 * new.target.var()


def test_classes_are_learned_behind_each_site_s_mask():
    one, new = rows_of(classes=3), rows_of(seed=1, classes=3)
    scores = boosted([one]).score(new.inputs, BOOST.keep)[-1]
    assert (scores.argmax(1) == new.target).double().mean() > 0.6
    allowed = torch.nn.functional.one_hot(one.target, 3).bool()
    sure = replace(one, allowed=allowed)  # nothing is left to learn where the range says all
    drawn = draw_trees(find_cuts(one.counts()["counts"], one.grid, BOOST), BOOST, 3, "0")
    assert sure.sums(torch.zeros(3, 120, 3).double(), drawn)["left"].abs().max() == 0.0


def test_a_site_s_level_stays_at_home():
    one = rows_of()
    away = replace(one, target=one.target + 0.25)
    drawn = draw_trees(find_cuts(one.counts()["counts"], one.grid, BOOST), BOOST, 3, "0")
    none = torch.zeros(3, 120, 1).double()
    sums, same = one.sums(none, drawn), away.sums(none, drawn)
    torch.testing.assert_close(sums["left"], same["left"], atol=1e-12, rtol=0)
    assert away.level(none[0], torch.ones(120).bool()) - one.level(
        none[0], torch.ones(120).bool()
    ) == pytest.approx(0.25)


def test_trees_of_a_fold_never_saw_it():
    one = rows_of()
    changed = replace(one, target=torch.where(one.folds == 0, -one.target, one.target))
    a, b = boosted([one]), boosted([changed])
    assert torch.equal(a.value[0], b.value[0]) and torch.equal(a.cut[0], b.cut[0])
    assert not torch.equal(a.value[1], b.value[1])


def test_leaves_of_few_rows_say_nothing():
    one = rows_of()
    drawn = draw_trees(find_cuts(one.counts()["counts"], one.grid, BOOST), BOOST, 3, "0")
    total = one.sums(torch.zeros(3, 120, 1).double(), drawn)
    firm = replace(BOOST, least=30, keep=BOOST.draws)
    kept = keep_trees(total, drawn, firm, curvature=1.0)
    order = torch.where(
        total["rows"] >= 30, total["left"][..., 0].square() / (total["rows"] + 1), 0
    )
    best = order.sum(2).argsort(dim=1, descending=True, stable=True)
    rows = total["rows"].gather(1, best.unsqueeze(-1).expand_as(total["rows"]))
    assert (kept.value[..., 0][rows < 30] == 0).all() and (
        kept.value[..., 0][rows >= 30] != 0
    ).any()


def test_known_trees_are_not_asked_again_and_the_sum_has_the_same_bits():
    one = rows_of()
    forest = boosted([one])
    early = Forest(forest.feature[:, :6], forest.cut[:, :6], forest.value[:, :6])
    before = early, early.score(one.inputs, BOOST.keep)
    whole = forest.score(one.inputs, BOOST.keep)
    assert torch.equal(forest.score(one.inputs, BOOST.keep, before), whole)
    strange = Forest(early.feature, early.cut, early.value + 1.0), before[1] + 9.0
    assert torch.equal(forest.score(one.inputs, BOOST.keep, strange), whole)


@pytest.mark.parametrize("classes", [0, 3])
def test_tables_say_what_the_trees_say(classes):
    one = rows_of(classes=classes)
    forest = boosted([one])
    level = torch.arange(1.0, one.outputs + 1).double()
    body = tables_by_level(forest.feature[-1], forest.cut[-1], forest.value[-1], level, 2.0)
    said = 2.0 * (forest.score(one.inputs, BOOST.keep)[-1] + level)
    torch.testing.assert_close(body(one.inputs), said, atol=1e-5, rtol=1e-5)


def test_a_site_answers_questions_on_the_grid_alone():
    one = rows_of()
    drawn = draw_trees(find_cuts(one.counts()["counts"], one.grid, BOOST), BOOST, 3, "0")
    one.check(drawn)
    with pytest.raises(FedloreError, match="not on the grid"):
        one.check({**drawn, "cut": drawn["cut"] + 1e-4})  # between two rows of somebody
    with pytest.raises(FedloreError, match="columns that there are not"):
        one.check({**drawn, "feature": drawn["feature"] + 4})
    with pytest.raises(FedloreError, match="columns that there are not"):
        one.check({name: t[:2] for name, t in drawn.items()})


def test_an_answer_has_the_shape_that_the_question_gives_it():
    one = rows_of()
    assert leaf_sums({"grid": one.grid})["counts"].shape == one.counts()["counts"].shape
    drawn = draw_trees(find_cuts(one.counts()["counts"], one.grid, BOOST), BOOST, 3, "0")
    empty = Forest.empty(3, BOOST.depth, 1)
    sent = empty.bundle() | {f"drawn {name}": t for name, t in drawn.items()}
    sums = one.sums(empty.score(one.inputs, BOOST.keep), drawn)
    assert {n: t.shape for n, t in leaf_sums(sent).items()} == {n: t.shape for n, t in sums.items()}


def test_options_out_of_bounds_are_named():
    with pytest.raises(ConfigError, match="boost: depth must lie in 1 to 6, got 9"):
        Boost(depth=9)
    with pytest.raises(ConfigError, match=r"boost: rate must lie in \(0, 1\], got 0"):
        Boost(rate=0.0)
