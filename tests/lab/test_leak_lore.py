"""The audit of the recipe that sites choose: what a coordinator sees of it, singly and summed."""

from dataclasses import replace

import pytest
import torch

from fedlore import Plan
from fedlore.core.one_shot import Basis, OneShot, sum_rows
from fedlore.engine.lore import default_space, train
from fedlore_lab.leak import lore as leak_chosen
from fedlore_lab.leak import observe as leak_observe
from fedlore_lab.leak.audit import draw_case
from fedlore_lab.leak.lore import (
    TELLING,
    _of_features,
    member_by_leverage,
    sum_class_signs,
    sum_signs,
)
from fedlore_lab.leak.observe import Watchtower
from fedlore_lab.leak.page import leak_verdict, lines
from fedlore_lab.leak.score import auc
from fedlore_lab.leak.settings import DEFAULT, settings_named

from .test_leak import row

USUAL = default_space(17, ordered=True)
SHORT = replace(  # what sites make alone says nothing more of the uploads
    USUAL,
    candidates=(*USUAL.candidates[:2], USUAL.candidates[-1]),
    folds=2,
    finishes=(0,),
    own=False,
)
SINGLE, TOGETHER, COLLUSION = settings_named(["lore", "lore, sum", "lore, collusion"])


@pytest.fixture(scope="module")
def tower():
    """One drawing of the plants, in which all candidates are tried for three rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leak_observe, "PROBES", 2)
        patch.setattr(leak_chosen, "default_space", lambda *_, **__: SHORT)
        usual = train.conduct  # masks take starts of their own; here all trainings take those
        patch.setattr(train, "conduct", lambda *a, **k: usual(*a, **{**k, "salt": ""}))
        it = draw_case("coke")(0)
        found = Watchtower(replace(it, rounds=9, plan=Plan(epochs=1, batch=32, lr=0.05)))
        yield found, {s.name: found.observe(s) for s in (SINGLE, TOGETHER, COLLUSION)}


def test_single_uploads_tell_ranges_and_rows(tower):
    seen = tower[1]["lore"]
    wrong = (seen.still != ~seen.union.bool()).sum(1)  # a class of held back rows alone shows late
    assert int(wrong.sum()) <= 4 and bool(seen.still.any(1).all())
    assert (seen.row_range < 0.05).all()
    # 38 features of 40 to 110 rows: the fewer rows, the more nearly the sums span them
    assert (seen.member[:, 2] > 0.6).all() and float(seen.member[0, 2]) > 0.95


def test_under_secure_aggregation_there_is_one_sum_and_it_is_the_same_for_every_site(tower):
    watch, found = tower
    run = watch.overheard[TOGETHER.training]
    assert all(len(e.uploads) == 1 for rounds in run.spy.kept.values() for e in rounds)
    assert {len(told) for told in run.spy.answers.values()} == {1}
    seen = found[DEFAULT]
    assert torch.equal(seen.whole, seen.whole[:1].expand_as(seen.whole))
    assert torch.equal(seen.classes, seen.classes[:1].expand_as(seen.classes))
    assert (seen.still == seen.still[:1]).all()


@pytest.mark.slow
def test_sums_of_single_uploads_are_what_the_masks_leave(tower):
    """So that the view of sums in other settings attacks what a deployed federation shows."""
    watch, _ = tower
    bare, masked = (watch.overheard[s.training] for s in (COLLUSION, TOGETHER))
    sums, hidden = (run.said("gram", "plant-1", "sum") for run in (bare, masked))
    for name in sums:
        assert torch.allclose(sums[name], hidden[name], rtol=1e-9, atol=1e-6)
    assert bare.trials == masked.trials and bare.informative is not None
    assert bare.search_space.candidates[bare.informative.candidate] == TELLING
    views = [run.looks(bare.informative, "plant-1", "sum") for run in (bare, masked)]
    for a, b in zip(*views, strict=True):
        assert set(a.moved) == set(b.moved) == {"head.2.weight", "head.2.bias"}  # ends at home
        assert all(torch.allclose(a.moved[n], b.moved[n], atol=1e-6) for n in a.moved)


def test_one_site_that_tells_takes_its_answers_off(tower):
    run = tower[0].overheard[SINGLE.training]
    told = run.spy.answers["gram"]
    left = run.said("gram", "plant-1", "collusion")
    others = [told[name]["energy"] for name in told if name != "plant-2"]
    assert torch.allclose(left["energy"], torch.stack(others).mean())
    assert float(run.said("gram", "plant-1", "single")["energy"]) == float(
        told["plant-1"]["energy"]
    )


def test_sums_say_how_far_the_expert_is_off():
    g = torch.Generator().manual_seed(0)
    k, y = 20, torch.randint(20, (500,), generator=g).double()
    told = y + 2.0 * torch.randn(500, generator=g, dtype=torch.float64)  # off by two classes
    x = torch.randn(500, 3, generator=g, dtype=torch.float64)
    heard = torch.stack([(told - 9.5) / (k / 4), torch.zeros(500).double()], 1)
    sums = sum_rows(Basis("linear")(torch.cat([x, heard], 1)), y)[1]
    signs = sum_signs(sums, OneShot(Basis("linear")), 3, k)
    missed = float((told - y).var())
    assert 10 ** float(signs[3]) == pytest.approx(missed, rel=1e-6)
    assert float(signs[0]) == pytest.approx(float(y.var().log10()), abs=1e-6)
    likely = sum_class_signs(sums, OneShot(Basis("linear")), 3, k)
    assert torch.equal(likely, likely.flip(0)) and (likely[k // 2] > likely[0]).all()


@pytest.mark.parametrize(("rows", "least", "most"), [(60, 0.99, 1.0), (4000, 0.4, 0.6)])
def test_a_row_sticks_out_of_sums_that_it_is_not_in_unless_they_are_of_many(rows, least, most):
    g = torch.Generator().manual_seed(1)
    one_shot = OneShot(Basis("quadratic"), hears=False)
    inside, outside = (torch.randn(rows, 12, generator=g, dtype=torch.float64) for _ in range(2))
    sums = sum_rows(one_shot.basis(inside), torch.zeros(rows))[1]
    n = min(rows, 500)
    near = member_by_leverage(sums, one_shot, torch.cat([inside[:500], outside[:500]]))
    assert least <= auc(near[:n], near[n:]) <= most


def test_sticking_out_of_the_whole_against_its_parts_tells_more_of_unusual_rows():
    g = torch.Generator().manual_seed(2)
    one_shot, rows = OneShot(Basis("squares"), hears=False), 290
    sizes = 0.5 + torch.rand(2, rows, 1, generator=g, dtype=torch.float64)
    x = sizes * torch.randn(2, rows, 17, generator=g, dtype=torch.float64)
    sums = sum_rows(one_shot.basis(x[0]), torch.zeros(rows))[1]
    found = []
    for relative in (False, True):
        near = member_by_leverage(sums, one_shot, x.flatten(0, 1), relative=relative)
        found.append(auc(near[:rows], near[rows:]))
    assert 0.52 < found[0] < found[1] - 0.05


def test_the_verdict_names_what_hiding_costs_the_default():
    found = lines([row("plain", 0.3), row("lore", 0.5), row(DEFAULT, 0.495)])
    assert f"({DEFAULT}) has -0.5 points of TA against the same recipe" in leak_verdict(found)
    by_name = {line.setting.name: line for line in found}
    assert by_name["lore"].hiding is None and by_name[DEFAULT].hiding.mean == pytest.approx(0.005)


def test_what_an_attacker_knows_of_a_row_are_all_functions_of_its_features_alone():
    basis = Basis("quadratic", curves=2)
    known = _of_features(basis, 5, 3)
    assert len(known) == sum(basis.counts(5)) and int(known.sum()) == sum(basis.counts(3))
    x = torch.randn(4, 5)
    assert torch.equal(basis(x)[:, known], basis(x[:, :3]))
