"""One site's regressor: numbers that never leave their set."""

import pickle

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from fedlore import FedloreError
from fedlore.knowledge import Feature, Formula, Schema
from fedlore.knowledge.intervals import Band, Between
from fedlore.knowledge.models import Knowledge
from fedlore.sklearn import KnowledgeRegressor

SCHEMA = Schema((Feature("a"), Feature("b")), ("x", "y"))
LINE = Formula.parse("3*a", SCHEMA)


def rows(n=150, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    return x, 3 * x[:, 0] + 0.8 * np.sin(3 * x[:, 1])


def quick(knowledge=None, **more):
    return KnowledgeRegressor(
        knowledge, **{"estimator": "network", "epochs": 5, "hidden": 8, "bins": 20, **more}
    )


@pytest.mark.parametrize("decode", ["mean", "mode", "median"])
@pytest.mark.parametrize("hears", [False, True])
def test_every_number_lies_in_its_set_exactly(decode, hears):
    x, y = rows()
    known = Knowledge(LINE, Band(LINE, 1.0, 1.0), trust=0.2)
    model = quick(known, lower=-6.0, upper=6.0, decode=decode, hears=hears).fit(x, y)
    new = np.random.default_rng(2).uniform(-1.5, 1.5, (400, 2))
    sets = model.allowed(new)
    assert sets.holds(torch.tensor(model.predict(new))).all()
    ends = model.predict_interval(new, 0.8)
    assert sets.holds(torch.tensor(ends[:, 0])).all() and sets.holds(torch.tensor(ends[:, 1])).all()
    assert (ends[:, 0] <= ends[:, 1]).all()


def test_it_learns_and_knowledge_helps():
    x, y = rows(400)
    new, truth = rows(200, seed=1)
    plain = KnowledgeRegressor().fit(x[:40], y[:40]).score(new, truth)
    known = Knowledge(LINE, Band(LINE, 0.8, 0.8))
    told = KnowledgeRegressor(known, lower=-4, upper=4, hears=True).fit(x[:40], y[:40])
    assert KnowledgeRegressor().fit(x, y).score(new, truth) > 0.95
    assert told.score(new, truth) > plain


def test_bounds_come_from_the_labels_with_a_margin_or_as_declared():
    x, y = rows()
    found = quick().fit(x, y).bins_
    span = y.max() - y.min()
    assert found.lower == pytest.approx(y.min() - 0.05 * span)
    assert found.upper == pytest.approx(y.max() + 0.05 * span)
    declared = quick(lower=-10, upper=10).fit(x, y).bins_
    assert (declared.lower, declared.upper, declared.k) == (-10.0, 10.0, 20)
    assert np.ptp(quick().fit(x, np.full(len(y), 7.0)).predict(x)) < 1.0


def test_a_file_declares_bounds_and_columns(tmp_path):
    (tmp_path / "knowledge.toml").write_text(
        '[target]\nlower = -8\nupper = 8\nbins = 16\n[[features]]\nname = "a"\n[[features]]\n'
        'name = "b"\n[[range.sources]]\nlower = "3*a - 1"\nupper = "3*a + 1"\n'
    )
    x, y = rows()
    model = quick(tmp_path / "knowledge.toml").fit(x, y)
    assert (model.bins_.lower, model.bins_.k) == (-8.0, 16)
    assert (np.abs(model.predict(x) - 3 * x[:, 0]) <= 1.0).all()
    with pytest.raises(FedloreError, match="X has 1 without names"):
        quick(tmp_path / "knowledge.toml").fit(x[:, :1], y)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"knowledge": Knowledge(range=Between(lower=0.0))}, "needs lower= and upper="),
        ({"lower": 1.0}, "give both bounds or none, got 1.0 and None"),
        ({"lower": 0.0, "upper": 1.0}, r"must lie in \[0.0, 1.0\]"),
        ({"knowledge": "nowhere.toml"}, "nowhere.toml"),
        ({"knowledge": 3}, "knowledge must be a Knowledge or a path"),
        ({"bins": 1}, "at least 2 bins"),
    ],
)
def test_wrong_settings_are_refused_when_it_is_fitted(change, rule):
    x, y = rows()
    with pytest.raises(FedloreError, match=rule):
        quick(**change).fit(x, y)


def test_an_unknown_decoding_is_refused():
    x, y = rows()
    model = quick(decode="best").fit(x, y)
    with pytest.raises(FedloreError, match="decode must be mean, mode or median"):
        model.predict(x)


def test_it_survives_pickle():
    x, y = rows(60)
    model = quick(Knowledge(LINE), epochs=3).fit(x, y)
    assert (pickle.loads(pickle.dumps(model)).predict(x) == model.predict(x)).all()
