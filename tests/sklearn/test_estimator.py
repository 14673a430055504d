"""Any estimator of scikit-learn behind the range and beside the expert."""

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedlore import Band, Knowledge
from fedlore.errors import ConfigError
from fedlore.knowledge import Feature, Formula, Schema
from fedlore.sklearn import KnowledgeClassifier, KnowledgeRegressor

from .rows import GRADES, above, knowledge, rows, says

FOREST = RandomForestClassifier(20, random_state=0)
COLUMNS = Schema((Feature("a"), Feature("b")), ("low", "high"))
LINE = Formula.parse("3*a", COLUMNS)


@pytest.mark.parametrize("hears", [False, True])
@pytest.mark.parametrize("trust", [0.0, 0.4, "auto"])
@pytest.mark.parametrize("estimator", [FOREST, LogisticRegression(), "local best"])
def test_the_range_is_never_left_and_the_expert_has_his_part(estimator, trust, hears):
    x, y = rows()
    model = KnowledgeClassifier(knowledge(), estimator=estimator, trust=trust, hears=hears)
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


def test_its_settings_can_be_searched_and_what_cannot_be_used_is_named():
    x, y = rows()
    model = KnowledgeClassifier(knowledge(), estimator=LogisticRegression())
    search = GridSearchCV(model, {"estimator__C": [0.01, 1.0]}, cv=3).fit(x, y)
    assert search.best_params_["estimator__C"] in (0.01, 1.0)
    with pytest.raises(ConfigError, match="must have predict_proba"):
        KnowledgeClassifier(estimator=Perceptron()).fit(x, y)
    with pytest.raises(ConfigError, match="must be 'local best' or have fit"):
        KnowledgeClassifier(estimator="best").fit(x, y)


@parametrize_with_checks(
    [
        KnowledgeClassifier(estimator=LogisticRegression()),
        KnowledgeRegressor(estimator=Ridge()),
    ],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learn_finds_nothing(estimator, check):
    check(estimator)
