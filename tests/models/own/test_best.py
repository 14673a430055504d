"""A site's own models: honest held-out rows, nothing outside the range, the best of them."""

import sys
from dataclasses import replace
from functools import partial

import pytest
import torch
from sklearn.model_selection import KFold

from fedlore.answers import Bins, Measured, Sets
from fedlore.core.examples import Examples
from fedlore.core.rng import stream
from fedlore.errors import FedloreError
from fedlore.models.own import (
    baseline,
    folds,
    missing_learners,
    own_classes,
    own_numbers,
    own_order,
)
from fedlore.models.own.baseline import (
    ALONE,
    FOLDS,
    HEARING,
    OVER,
    fold_seed,
    predict_held_out,
    try_family,
)
from fedlore.models.own.gaussian import GaussianLearner
from fedlore.models.own.linear import Ridge
from fedlore.models.own.members import ClassMember, see_classes, see_numbers, see_order
from fedlore.models.own.trees import ExtraTrees, bound_signs
from fedlore_coke.plants import coking_plants

pytestmark = pytest.mark.whole_forests

GRADES = 20

PROCESSES = ("Gaussian process", "Gaussian process of ranks")


def numbers(rows=60, seed=0):
    """y = expert + a bend that he misses + noise; the range is give or take 4."""
    draw = stream("own", "best", seed)
    x = torch.randn(rows, 3, generator=draw)
    said = 10 + 2 * x[:, 0].double()
    y = said + torch.tanh(x[:, 1].double()) + 0.3 * torch.randn(rows, generator=draw).double()
    return Measured(x, y, said, Sets.of(said - 4, said + 4), Bins(-20.0, 40.0, 10))


@pytest.fixture
def quick(monkeypatch):
    """Linear models alone, as without scikit-learn."""
    monkeypatch.setattr(baseline, "has_trees", lambda: False)


@pytest.fixture(scope="module")
def plant():
    plant = coking_plants(100, rows=(40, 40, 40, 60), test_rows=200)[3]
    return plant.knowledge.annotate(plant.train), plant.knowledge.annotate(plant.test)


def test_folds_are_scikit_learns():
    wanted = KFold(FOLDS, shuffle=True, random_state=fold_seed(3, "a")).split(torch.zeros(23, 1))
    for fold, (_, out) in enumerate(wanted):
        assert (folds(23, seed=3, site="a") == fold).nonzero().squeeze(1).tolist() == sorted(out)
    assert not torch.equal(folds(23, seed=3, site="a"), folds(23, seed=3, site="b"))


def test_too_few_rows_are_said():
    with pytest.raises(FedloreError, match="at least 5 rows, got 4"):
        folds(4, seed=0)


@pytest.mark.parametrize("family", [Ridge(""), ExtraTrees("", fewer=5), GaussianLearner("")])
def test_no_row_helps_to_predict_itself(family):
    known = numbers()
    sight, part = see_numbers(known), folds(60, seed=0)
    y = known.y.unsqueeze(1)
    changed = y.clone()
    changed[part == 2] += 1000.0
    before, after = (
        predict_held_out(family, sight, t, part, ALONE, family.settings[:1]) for t in (y, changed)
    )
    assert torch.equal(before[:, part == 2], after[:, part == 2])
    assert not torch.allclose(before[:, part != 2], after[:, part != 2])


def test_no_fit_of_cross_validation_learns_from_more_rows_than_the_cap(monkeypatch):
    known, seen = numbers(), []
    monkeypatch.setattr(baseline, "MOST_TRIED", 20)

    class Counting(Ridge):
        def trace(self, inputs, target, at, settings):
            seen.append((len(inputs), len(at)))
            return super().trace(inputs, target, at, settings)

    y = known.y.unsqueeze(1)
    predict_held_out(Counting(""), see_numbers(known), y, folds(60, seed=0), ALONE, (0.1,))
    assert seen == [(16, 12)] * FOLDS  # every third of 48, and all that were left out are judged


def test_of_many_rows_the_first_fold_chooses_mode_and_setting(monkeypatch):
    known, asked = numbers(), []
    monkeypatch.setattr(baseline, "HALVED_FROM", 60)

    class Counting(Ridge):
        def trace(self, inputs, target, at, settings):
            asked.append(len(settings))
            return super().trace(inputs, target, at, settings)

    def target(mode):
        return (known.y - known.said if mode.over else known.y).unsqueeze(1)

    (one,) = try_family(
        Counting(""),
        see_numbers(known),
        target,
        folds(60, seed=0),
        (HEARING, OVER, ALONE),
        partial(baseline._judge_number, known),
    )
    every = len(Ridge("").settings)
    assert asked == [every] * 3 + [1] * (FOLDS - 1)
    assert one.mode != ALONE  # the expert is most of it
    assert one.judged.error == pytest.approx(float((one.judged.held - known.y).square().mean()))
    alike = predict_held_out(
        Ridge(""), see_numbers(known), target(one.mode), folds(60, seed=0), one.mode, [one.setting]
    )
    assert torch.allclose(one.judged.held, known.sets.nearest(alike[0].squeeze(1)))


def test_numbers_are_held_out_inside_the_range(quick):
    known = numbers()
    own = own_numbers(known)
    assert [c.member.name for c in own.candidates] == [
        f"{model}{how}"
        for model in ("ridge", "quadratic ridge", *PROCESSES)
        for how in (", given the expert's answer", ", correcting the expert", "")
    ]
    for candidate in own.candidates:
        assert known.sets.holds(candidate.held).all()
        assert known.sets.holds(candidate.member.number(known)).all()
        assert candidate.member.width == pytest.approx(candidate.error**0.5)
    fresh, best = numbers(500, seed=1), own.local_best("", known.y)
    assert fresh.sets.holds(best.number(fresh)).all() and sum(best.weights) == pytest.approx(1.0)
    missed = (best.number(fresh) - fresh.y).square().mean().sqrt()
    assert missed < 0.75 * (fresh.said - fresh.y).square().mean().sqrt()


def test_without_an_expert_there_is_one_mode(quick):
    known = replace(numbers(), said=None, sets=None)
    names = [c.member.name for c in own_numbers(known).candidates]
    assert names == ["ridge", "quadratic ridge", *PROCESSES]


def test_trees_are_there_with_scikit_learn():
    names = {c.member.name for c in own_numbers(numbers(30)).candidates}
    assert {"extra trees, correcting the expert", "boosted trees"} <= names and len(names) == 18
    assert missing_learners() == {}


def test_what_is_missing_is_said(quick):
    assert missing_learners() == dict.fromkeys(
        ("extra trees", "boosted trees"), "pip install 'fedlore[sklearn]'"
    )


def test_trees_without_scikit_learn_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(FedloreError, match=r"pip install 'fedlore\[sklearn\]'"):
        ExtraTrees("").fit(torch.zeros(5, 1), torch.zeros(5, 1), 1)


def test_ordered_classes_beat_the_expert(quick, plant):
    train, test = plant
    own = own_order(train, GRADES, seed=100, site="plant-4")
    for candidate in own.candidates:
        assert (candidate.held[~train.allowed] == -torch.inf).all()
        p = candidate.member.log_probs(test).exp()
        assert (p[~test.allowed] == 0).all()
        assert torch.allclose(p.sum(1), torch.ones(len(p), dtype=torch.float64))
        likely = candidate.held.gather(1, train.y.unsqueeze(1)).clamp(min=-20.0)
        assert candidate.error == pytest.approx(-float(likely.mean()))
    said = own.local_best("", train.y).log_probs(test)
    assert (said[~test.allowed] == -torch.inf).all()
    right = (said.argmax(1) == test.y).double().mean()
    assert right > (test.prior.argmax(1) == test.y).double().mean()


def test_classes_without_order_stay_in_the_range(quick, plant):
    train, test = plant
    own = own_classes(train, GRADES)
    names = [c.member.name for c in own.candidates]
    assert names == ["logistic, given the expert's answer", "logistic"]
    for candidate in own.candidates:
        assert (candidate.member.log_probs(test).exp()[~test.allowed] == 0).all()


def test_own_models_need_labels():
    with pytest.raises(FedloreError, match="measured number"):
        own_numbers(replace(numbers(), y=None))
    with pytest.raises(FedloreError, match="with a class"):
        own_order(Examples(torch.zeros(9, 2)), 3)


def test_what_is_heard_of_ordered_classes():
    prior = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]])
    allowed = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1]]).bool()
    sight = see_order(Examples(torch.zeros(3, 1), None, prior, allowed), 4)
    assert sight.heard.tolist() == [[1.0, 0.5, 0.5], [2.0, 2.0, 1.0], [1.5, 1.5, 1.5]]
    assert sight.start.tolist() == [1.0, 2.0, 1.5]


def test_what_is_heard_of_numbers():
    said = torch.tensor([3.0, float("nan")], dtype=torch.float64)
    sets = Sets.of(
        torch.tensor([[1.0, 6.0], [2.0, torch.nan]]), torch.tensor([[2.0, 9.0], [4.0, torch.nan]])
    )
    sight = see_numbers(Measured(torch.zeros(2, 1), None, said, sets, Bins(0.0, 10.0, 2)))
    assert sight.heard.tolist() == [[3.0, 5.0, 4.0], [3.0, 3.0, 1.0]]


def test_images_are_heard_flat():
    known = Examples(torch.zeros(2, 1, 3, 3), None, torch.eye(2), None)
    assert see_classes(known).inputs(hears=True).shape == (2, 11)
    assert see_classes(known).inputs(hears=False).shape == (2, 9)


def test_where_the_order_is_no_help_learners_without_order_are_best(quick):
    draw = stream("order", "none")
    x = torch.rand(60, 1, generator=draw)
    grade = torch.tensor([1, 2, 0])[(3 * x[:, 0]).long()]  # named in an order that nothing follows
    own = own_order(Examples(x, grade), 3)
    assert own.local_best("", grade).name.startswith("unordered logistic")
    few = own_order(Examples(x[:29], grade[:29]), 3)  # under ten rows a class: not tried
    assert not any(isinstance(c.member, ClassMember) for c in few.candidates)


def test_errors_decide_between_classifiers_and_between_equals_their_doubt():
    y = torch.tensor([0, 1])

    def judged(*rows):
        return baseline._wrong(torch.tensor(rows, dtype=torch.float64).log(), y)

    sure, doubtful = judged((0.9, 0.1), (0.1, 0.9)), judged((0.6, 0.4), (0.4, 0.6))
    assert sure < doubtful < judged((0.99, 0.01), (0.51, 0.49))


def test_trees_do_not_split_by_what_is_withheld():
    assert bound_signs([1.0, float("nan"), -1.0, 0.0, 1.0], 4) == [1, 0, -1, 0]
    assert bound_signs([], 4) is None
