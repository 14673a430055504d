"""Any estimator of scikit-learn behind the range and beside the expert."""

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedlore import Band, Knowledge
from fedlore.core.examples import Examples
from fedlore.errors import ConfigError
from fedlore.knowledge import Feature, Formula, Schema
from fedlore.models.own.guarded import GuardedClassifier, choose_trust, fit_estimator
from fedlore.sklearn import KnowledgeClassifier, KnowledgeRegressor, LoreClassifier, LoreRegressor

from .rows import GRADES, above, knowledge, rows, says

FOREST = RandomForestClassifier(20, random_state=0)
COLUMNS = Schema((Feature("a"), Feature("b")), ("low", "high"))
LINE = Formula.parse("3*a", COLUMNS)


@pytest.mark.parametrize("hears", [False, True])
@pytest.mark.parametrize("trust", [0.0, 0.4, "auto"])
@pytest.mark.parametrize("estimator", [FOREST, LogisticRegression(), "local best", "network"])
def test_the_range_is_never_left_and_the_expert_has_his_part(estimator, trust, hears):
    x, y = rows()
    known, quick = knowledge(), {"epochs": 5, "hidden": 8}
    model = KnowledgeClassifier(known, estimator=estimator, trust=trust, hears=hears, **quick)
    model.fit(x, y)
    new = np.random.default_rng(1).normal(0, 2, (300, 2))
    proba, allowed = model.predict_proba(new), model.allowed(new)
    assert (proba[~allowed] == 0).all() and np.allclose(proba.sum(1), 1)
    place = np.searchsorted(model.classes_, model.predict(new))
    assert allowed[np.arange(300), place].all()
    prior = says(torch.tensor(new)).numpy()
    inside = above(torch.tensor(new)).numpy()
    order = [list(GRADES).index(name) for name in model.classes_]
    sure = (prior * inside)[:, order]  # a prediction outside the range is moved into it
    assert (proba[sure > 0] >= model.trust_ - 1e-9).all()
    assert trust == "auto" or model.trust_ == trust


def test_without_knowledge_it_is_the_bare_estimator():
    x, y = rows()
    bare = RandomForestClassifier(20, random_state=0).fit(x, y)
    model = KnowledgeClassifier(estimator=FOREST).fit(x, y)
    assert (model.predict(x) == bare.predict(x)).mean() > 0.99
    assert model.score(x, y) >= bare.score(x, y) - 0.005


@pytest.mark.parametrize("estimator", [Ridge(), HistGradientBoostingRegressor(), "local best"])
def test_numbers_and_intervals_lie_in_their_sets(estimator):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (80, 2))
    y = 3 * x[:, 0] + 0.8 * np.sin(3 * x[:, 1])
    known = Knowledge(LINE, Band(LINE, 0.8, 0.8))
    model = KnowledgeRegressor(known, lower=-4, upper=4, estimator=estimator, trust="auto")
    model.fit(x, y)
    new = rng.uniform(-1, 1, (200, 2))
    truth = 3 * new[:, 0] + 0.8 * np.sin(3 * new[:, 1])
    said, ends = model.predict(new), model.predict_interval(new, 0.8)
    assert (abs(said - 3 * new[:, 0]) <= 0.8 + 1e-9).all()
    assert (abs(ends - 3 * new[:, :1]) <= 0.8 + 1e-9).all() and (ends[:, 0] <= ends[:, 1]).all()
    assert 0.7 < ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean()
    assert np.sqrt(np.mean((said - truth) ** 2)) < truth.std()


def test_what_cannot_be_used_is_named():
    x, y = rows()
    with pytest.raises(ConfigError, match="must have predict_proba"):
        KnowledgeClassifier(estimator=Perceptron()).fit(x, y)
    with pytest.raises(ConfigError, match="must be 'local best', 'network' or have fit"):
        KnowledgeClassifier(estimator="best").fit(x, y)


@parametrize_with_checks(
    [KnowledgeClassifier(estimator=e) for e in ("network", LogisticRegression())]
    + [KnowledgeRegressor(estimator=e) for e in ("network", Ridge())],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learn_finds_nothing(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        KnowledgeClassifier(),
        KnowledgeRegressor(),
        LoreClassifier(rounds=2),
        LoreRegressor(rounds=2),
    ],
    expected_failed_checks=lambda estimator: {},
)
def test_nor_where_many_models_are_tried(estimator, check):
    check(estimator)


def test_the_default_is_the_local_best_and_explains_itself():
    x, y = rows()
    model = KnowledgeClassifier(knowledge()).fit(x, y)
    assert isinstance(model.personal_, GuardedClassifier)
    (said,) = model.explain(x[:1])
    assert set(said) == {"x0", "x1"}
    assert abs(list(said.values())[0]) >= abs(list(said.values())[1])


def test_the_expert_is_not_taken_where_rows_do_not_speak_for_him():
    right = torch.eye(3)[torch.arange(60) % 3].double()
    held, y = (right * 4).log_softmax(1), torch.arange(60) % 3
    wrong = torch.eye(3)[(torch.arange(60) + 1) % 3].double()
    x = torch.zeros(60, 1)
    assert choose_trust(held, Examples(x, y, prior=wrong)) == 0.0
    assert choose_trust(wrong.log().clamp(min=-3.0), Examples(x, y, prior=right)) > 0.3


def test_held_out_answers_do_not_make_a_weak_model_look_weaker():
    """Folds that share out classes unevenly turn a guess of the commonest class against it."""
    dice = np.random.default_rng(0)
    for seed in range(10):
        y = torch.from_numpy(dice.permutation(np.arange(61) % 2))
        known = Examples(torch.zeros(61, 1), y)
        _, held = fit_estimator(DummyClassifier, known, hears=False, classes=2, seed=seed)
        assert (held.argmax(1) == y).double().mean() > 0.45


def test_an_expert_who_is_no_better_than_the_model_is_seldom_taken():
    """Of 100 sites of 60 rows, both right half of the time; a search for the best λ took 6."""
    taken = 0
    for seed in range(100):
        dice = np.random.default_rng(seed)
        y = dice.integers(3, size=60)

        def words(y=y, dice=dice):
            wrong = (y + 1 + dice.integers(2, size=60)) % 3
            return np.eye(3)[np.where(dice.random(60) < 0.5, y, wrong)]

        sure = dice.uniform(0.2, 2.0, (60, 1))
        held = torch.tensor(words() * sure).log_softmax(1)
        known = Examples(torch.zeros(60, 1), torch.tensor(y), prior=torch.tensor(words()))
        taken += choose_trust(held, known) > 0
    assert taken <= 5


@pytest.fixture(scope="module")
def federation():
    x, y = rows()
    groups = np.where(np.arange(len(y)) % 2, "north", "south")
    known = {"north": knowledge()}
    return LoreClassifier(known, rounds=2).fit(x, y, groups=groups), x, y, groups


def test_a_federation_answers_by_site_and_keeps_the_range_of_each(federation):
    model, x, y, groups = federation
    assert list(model.sites_) == ["north", "south"]
    north = groups == "north"
    chances = model.predict_proba(x, groups=groups)
    order = [list(GRADES).index(name) for name in model.classes_]
    assert (chances[north][~above(torch.tensor(x)).numpy()[:, order][north]] == 0).all()
    assert np.allclose(chances.sum(1), 1)
    assert (model.predict(x, groups=groups) == model.classes_[chances.argmax(1)]).all()
    assert (model.predict(x, groups=groups) == y).mean() > 0.5


def test_rows_of_no_known_site_are_answered_by_all(federation):
    model, x, _, groups = federation
    anybody = model.predict_proba(x)
    assert np.allclose(anybody, model.predict_proba(x, groups=np.full(len(x), "east")))
    with pytest.raises(ConfigError, match="groups must name a site for each"):
        model.predict(x, groups=groups[:3])


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_row_without_a_site_is_refused_by_its_number(missing):
    x, y = np.arange(24.0).reshape(12, 2), np.array(["u", "v"] * 6)
    groups = np.array(["east", "west"] * 6, dtype=object)
    groups[3] = missing
    with pytest.raises(ConfigError, match="a site for each row, row 3 has none"):
        LoreClassifier().fit(x, y, groups=groups)


@pytest.mark.slow
def test_numbers_are_federated_too():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (60, 2))
    model = LoreRegressor(rounds=2).fit(x, 3 * x[:, 0], groups=np.arange(60) % 2)
    assert model.score(x, 3 * x[:, 0]) > 0.9
