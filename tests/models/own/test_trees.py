"""Trees as tables say what scikit-learn's own trees say."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.core.rng import stream
from fedlore.models.own.trees import (
    BoostedTrees,
    Boosting,
    ExtraTrees,
    Trees,
    _rounded_down,
    ensembles,
)

pytestmark = pytest.mark.whole_forests

pytest.importorskip("sklearn")
ROWS = 90


@pytest.fixture(scope="module")
def rows():
    draw = stream("own", "trees")
    x = torch.randn(ROWS, 4, generator=draw)
    y = 500 + 40 * (x[:, 0] + x[:, 1].square()) + torch.randn(ROWS, generator=draw)
    return x, y.double().unsqueeze(1), torch.randn(200, 4, generator=draw)


def test_no_rows_have_no_values(rows):
    x, y, _ = rows
    assert ExtraTrees("", seed=5, trees=3).fit(x, y, 3)(x[:0]).shape == (0, 1)


def standard(y):
    return (y.squeeze(1) - y.mean()) / y.std(correction=0)


@pytest.mark.parametrize("least", [1, 3])
def test_a_forest_is_scikit_learns(rows, least):
    x, y, at = rows
    ours = ExtraTrees("", seed=5, trees=40).fit(x, y, least)
    theirs = ensembles().ExtraTreesRegressor(40, min_samples_leaf=least, random_state=5)
    wanted = theirs.fit(x.numpy(), standard(y).numpy()).predict(at.numpy())
    said = (ours(at).squeeze(1) - y.mean()) / y.std(correction=0)
    assert np.abs(said.numpy() - wanted).max() < 1e-6


@pytest.mark.parametrize("leaves", [4, 16])
def test_boosting_is_scikit_learns(rows, leaves):
    x, y, at = rows
    ours = BoostedTrees("", seed=5).fit(x, y, Boosting(0.1, leaves, 5, 60))
    theirs = ensembles().HistGradientBoostingRegressor(
        learning_rate=0.1,
        max_leaf_nodes=leaves,
        min_samples_leaf=5,
        max_iter=60,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=5,
    )
    wanted = theirs.fit(x.double().numpy(), standard(y).numpy()).predict(at.double().numpy())
    said = (ours(at).squeeze(1) - y.mean()) / y.std(correction=0)
    assert np.abs(said.numpy() - wanted).max() < 1e-6


@pytest.mark.parametrize("present", [(0, 1, 3, 4), (1, 4)], ids=["four of five", "two of five"])
def test_classes_are_scikit_learns(rows, present):
    x, y, at = rows
    few = torch.tensor(present)[(y.squeeze(1).argsort().argsort() * len(present)) // ROWS]
    forest = ExtraTrees("", 5, seed=5, trees=30).fit(x, few, 1)
    theirs = ensembles().ExtraTreesClassifier(30, random_state=5).fit(x.numpy(), few.numpy())
    wanted = theirs.predict_proba(at.numpy())
    assert np.abs(forest(at)[:, list(present)].numpy() - wanted).max() < 1e-6
    assert (forest(at)[:, 2] == 0).all()

    setting = Boosting(0.15, 4, 5, 20)
    family = BoostedTrees("", 5, seed=5)
    boosted = family.fit(x, few, setting)(at).softmax(1)
    wanted = family._grow(x, few, setting).predict_proba(at.double().numpy())
    assert np.abs(boosted[:, list(present)].numpy() - wanted).max() < 1e-6
    assert boosted[:, 2].max() < 1e-9
    traced = family.trace(x, few, at, [setting])[0].softmax(1)
    assert torch.allclose(traced, boosted, atol=1e-6)


def test_one_class_alone_is_said_of_every_row(rows):
    x, _, at = rows
    same = torch.full((ROWS,), 3)
    family = BoostedTrees("", 5)
    setting = family.settings[0]
    assert (family.fit(x, same, setting)(at).argmax(1) == 3).all()
    assert (family.trace(x, same, at, [setting])[0].argmax(1) == 3).all()


def test_leaves_are_limited_where_tables_would_grow_too_large(rows, monkeypatch):
    x, y, _ = rows
    monkeypatch.setattr("fedlore.models.own.trees._BYTES", 10 * 24 * 20)
    forest = ExtraTrees("", trees=10).fit(x, y, 1)
    assert len(forest.values) <= 10 * 20


def test_many_rows_are_cut_into_parts(rows, monkeypatch):
    x, y, at = rows
    forest = ExtraTrees("", trees=10).fit(x, y, 1)
    whole = forest(at)
    monkeypatch.setattr("fedlore.models.own.trees.AT_ONCE", 70)
    assert torch.equal(forest(at), whole)


def test_a_tree_by_hand():
    tree = Trees(
        feature=torch.tensor([0, -1, 1, -1, -1], dtype=torch.int16),
        threshold=torch.tensor([0.5, 0.0, 2.0, 0.0, 0.0]),
        child=torch.tensor([1, 0, 3, 1, 2], dtype=torch.int32),
        roots=torch.tensor([0], dtype=torch.int32),
        values=torch.tensor([[1.0], [10.0], [100.0]]),
        output=torch.tensor([0], dtype=torch.int16),
        base=torch.tensor([0.25], dtype=torch.float64),
        scale=torch.tensor([2.0], dtype=torch.float64),
        depth=2,
    )
    x = torch.tensor([[0.5, 9.0], [0.6, 2.0], [0.6, 2.1]])
    assert tree(x).squeeze(1).tolist() == [2.25, 20.25, 200.25]


@given(st.floats(-(2.0**90), 2.0**90, width=32), st.sampled_from((-np.inf, 0.0, np.inf)))
def test_a_rounded_threshold_parts_float32_alike(x, towards):
    near = np.nextafter(np.float64(x), towards)  # the next float64 beside a float32
    down = _rounded_down(np.array([near]))[0]
    assert (np.float64(x) <= near) == (np.float32(x) <= down)
    assert np.float64(down) <= near
