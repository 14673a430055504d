"""Results of tests that were made since, and the one test that is worth most."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fedlore import Knowledge
from fedlore.bundle import bundle_of, write_bundle
from fedlore.cli.app import app
from fedlore.core.one_shot import Link
from fedlore.errors import FedloreError
from fedlore.models.doubt import INFLATION, doubt_classes
from fedlore_coke.blend import order_for, plan
from fedlore_coke.blend.mixing import rows_of
from fedlore_coke.blend.tests import (
    BlendTests,
    _blends,
    _Refit,
    check_teachable,
    propose_test,
    read_tests,
    take_results,
)
from fedlore_coke.blend.words import as_json, plan_summary, trial_words

from .doubters import CSR, STEPS, foreseen, many_trees, numbers
from .test_promise import narrow
from .world import offer


def order_of(model=None, **more):
    model = model or foreseen(count=14)
    return order_for(model, STEPS, offer(3, 4), "grade>=Q14", confidence=0.8, **more)


def results(tmp_path, text):
    path = tmp_path / "results.csv"
    path.write_text(text)
    return path


def test_a_test_moves_the_place_towards_itself_and_ignorance_shrinks(tmp_path):
    order = order_of()
    tests = read_tests(results(tmp_path, "c0,c1,grade\n60,40,Q17\n60,40,Q17\n"), order)
    assert tests.shares.tolist() == [[0.6, 0.4, 0.0, 0.0]] * 2 and tests.classes.tolist() == [7, 7]
    x = rows_of(order.recipe.features(tests.shares[:1]))
    before, after = (
        doubt_classes(o.grader.personal, o.grader.annotate(x))
        for o in (order, take_results(order, tests))
    )
    assert float(before.place) < float(after.place) < 7.0
    assert float(after.ignorance) < 0.8 * float(before.ignorance)
    assert float(after.noise) == float(before.noise)
    again = doubt_classes(order.grader.personal, order.grader.annotate(x))
    assert torch.equal(again.place, before.place)  # the bundle's own model is as it was


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c0,c1\n60,40\n", "unknown column 'grade'"),
        ("c0,c9,grade\n60,40,Q12\n", "must be 'grade' or a coal of the list, unknown coal 'c9'"),
        ("c0,c0,grade\n60,40,Q12\n", "the column 'c0' is there twice"),
        ("c0,c1,grade\n", "has no tests below its header"),
        ("c0,c1,grade\n60,40,Q99\n", "row 2, column 'grade': unknown class 'Q99'"),
        ("c0,c1,grade\n60,40,\n", "row 2, column 'grade' is blank"),
        ("c0,c1,grade\n60,30,Q12\n", "row 2: its shares add up to 90 %, not to 100 %"),
        ("c0,c1,grade\n140,-40,Q12\n", "140 is not a share in %"),
        ("c0,c1,grade\nmuch,40,Q12\n", "row 2, column 'c0'"),
    ],
)  # fmt: skip
def test_results_that_cannot_be(tmp_path, text, message):
    with pytest.raises(FedloreError) as error:
        read_tests(results(tmp_path, text), order_of())
    assert message in str(error.value)


def test_a_result_outside_the_range_is_impossible(tmp_path):
    order = order_of(foreseen(knowledge=Knowledge(range=narrow)))
    tests = read_tests(results(tmp_path, "c0,c1,grade\n60,40,Q17\n"), order)
    with pytest.raises(FedloreError, match="row 2: Q17 is impossible for this blend, the expert's"):
        take_results(order, tests)


@pytest.mark.parametrize(
    ("model", "schema", "target"),
    [(many_trees(), STEPS, "grade>=Q14"), (numbers(), CSR, "csr>=52")],
    ids=["trees", "number"],
)
def test_models_without_ignorance_of_their_own_say_so(model, schema, target):
    order = order_for(model, schema, offer(3, 3), target, confidence=0.6)
    with pytest.raises(FedloreError, match="one-shot model"):
        check_teachable(order)
    with pytest.raises(FedloreError, match="can be taken in by a m|can learn from tests"):
        take_results(order, read_like(order, np.eye(3)[:1], 2))


@pytest.mark.parametrize("link", [None, Link("middle", 0.8)], ids=["straight", "bent"])
def test_places_follow_a_result_as_if_it_had_been_taken_in(link):
    """Behind a bend to first order: a result a hair off moves every place by what is said."""
    member = foreseen(count=14, link=link).ensemble.members[0]
    model, x = member.one_shot_model, member.scaler(blends_of(40))
    at, hair = 7, 1e-4
    place, variance = model.normal(x)
    follow, left = _Refit.of(model, *model.slopes(x)).by(at)
    weight = INFLATION[model.one_shot.basis.terms]
    then = model.update(x[[at]], place[[at]] + hair, weight=weight)
    moved, wide = then.normal(x)
    assert torch.allclose((moved - place) / hair, follow, rtol=1e-3, atol=1e-4)
    ignorance = ((v - model.found.noise).sqrt() for v in (variance, wide))
    before, after = ignorance
    assert torch.allclose(after / before, left, rtol=1e-3, atol=1e-4)
    assert link is None or float(model.slopes(x)[1].min()) < 0.9


def blends_of(count):
    draw = torch.Generator().manual_seed(3)
    return torch.rand(count, 2, generator=draw) * torch.tensor([10.0, 0.8]) + torch.tensor(
        [7.0, 0.7]
    )


def test_the_worth_of_a_test_is_what_taking_it_in_would_bring():
    """In closed form, and by really teaching the model each result, over the same blends."""
    order = order_of(promise="expected", lots=5.0)
    found = plan(order, compare=False)
    test = propose_test(order, found)
    assert test is not None and test.then < test.now == pytest.approx(found.blend.cost)
    assert test.cost <= test.now * (1 + 1e-9)
    tested = order.coals.shares(test.shares)[None]
    blends = _blends(order, order.coals.shares(found.blend.shares), 0)
    assert len(test.outcomes) > 1
    for outcome in test.outcomes:
        place = STEPS.classes.index(outcome.answer)
        tests = read_like(order, tested, place)
        said = take_results(order, tests).judge(blends).chance[:, order.goal.place]
        good = said >= order.confidence
        costs = blends @ order.coals.price
        cost = costs[good].min() if good.any() else costs[said.argmax()]
        assert outcome.cost == pytest.approx(cost)
    assert test.then == pytest.approx(
        sum(o.chance * o.cost for o in test.outcomes) / sum(o.chance for o in test.outcomes)
    )
    said = trial_words(replace(found, test=test))
    assert "would lower the price of the next plan" in said[0]
    assert as_json(replace(found, test=test))["trial"]["plan_then"] == test.then
    assert "No single test" in trial_words(found)[0]
    assert any("2 results were used" in s for s in plan_summary(replace(found, tests=2)))


def read_like(order, shares, place):
    return BlendTests(shares, np.array([place]), (2,), "here")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A small mixture and its list of coals, as files."""
    folder = tmp_path_factory.mktemp("measured")
    model = foreseen(count=14, knowledge=Knowledge(schema=STEPS))
    write_bundle(bundle_of(model, "north"), folder / "north.lore")
    coals = offer(3, 4)
    rows = zip(coals.names, coals.price, *coals.properties.values(), strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    (folder / "coals.csv").write_text("\n".join(["coal,price,ash,rank", *lines]) + "\n")
    return folder


def run(bundle, out, *options):
    words = ["blend", str(bundle / "coals.csv"), "--target", "grade>=Q14", "--confidence", "0.8"]
    words += ["--model", str(bundle / "north.lore"), "--out", str(out), "--lots", "2", *options]
    return CliRunner().invoke(app, words)


@pytest.mark.slow
def test_a_trial_and_its_result_from_the_command_line(bundle, tmp_path):
    first = run(bundle, tmp_path / "one", "--trial")
    assert first.exit_code == 0, first.output
    said = json.loads((tmp_path / "one" / "plan.json").read_text())
    assert said["measured_results"] == 0 and said["trial"]["plan_then"] < said["trial"]["plan_now"]
    assert "would lower the price of the next plan" in first.output
    names = list(said["trial"]["shares"])
    shares = ",".join(f"{100 * said['trial']['shares'][name]:.4f}" for name in names)
    text = f"{','.join(names)},grade\n{shares},Q17\n{shares},Q17\n"
    before = (bundle / "north.lore").read_bytes()
    again = run(bundle, tmp_path / "two", "--measured", str(results(tmp_path, text)))
    assert again.exit_code == 0 and "2 results were used" in again.output
    after = json.loads((tmp_path / "two" / "plan.json").read_text())
    assert after["blend"]["cost_per_tonne"] < said["blend"]["cost_per_tonne"]
    assert (bundle / "north.lore").read_bytes() == before


def test_results_that_cannot_be_leave_nothing_behind(bundle, tmp_path):
    wrong = results(tmp_path, "c0,c1,grade\n60,30,Q12\n")
    result = run(bundle, tmp_path / "out", "--measured", str(wrong))
    assert result.exit_code != 0 and "add up to 90 %" in str(result.exception)
    assert not (tmp_path / "out").exists()
