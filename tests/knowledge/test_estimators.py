"""Models trained elsewhere, as knowledge."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from fedlore.core.examples import Examples
from fedlore.core.inject import inject
from fedlore.errors import KnowledgeError
from fedlore.knowledge import Knowledge, Mask
from fedlore.knowledge.estimators import from_sklearn, from_torch
from fedlore.knowledge.sources.kind import entry_point

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(60, 3, generator=GENERATOR)


@pytest.fixture
def forest():
    sklearn = pytest.importorskip("sklearn.ensemble")
    labels = np.where(X[:, 0] > 0, "good", np.where(X[:, 1] > 0, "fair", "bad"))
    return sklearn.RandomForestClassifier(5, random_state=0).fit(X.numpy(), labels)


def test_labels_are_placed_in_the_order_of_the_task(forest):
    classes = ["poor", "bad", "fair", "good"]
    pkm = from_sklearn(forest, classes=classes)
    rows = pkm(X)
    assert [classes[i] for i in rows.argmax(1)] == forest.predict(X.numpy()).tolist()
    assert (rows.sum(1) == 1).all() and ((rows == 0) | (rows == 1)).all()
    soft = from_sklearn(forest, classes=classes, soft=True)(X)
    assert (soft[:, 0] == 0).all()
    assert torch.allclose(soft[:, 1:], torch.as_tensor(forest.predict_proba(X.numpy())).float())
    assert soft.dtype == torch.float32
    assert pkm(X[:0]).shape == (0, 4)


def test_whole_numbers_are_labels_by_themselves():
    linear = pytest.importorskip("sklearn.linear_model")
    y = (X[:, 0] > 0).long().numpy() * 2
    pkm = from_sklearn(linear.LogisticRegression().fit(X.numpy(), y), classes=3)
    assert set(pkm(X).argmax(1).tolist()) == {0, 2}


def test_what_is_no_classifier_of_these_classes_is_refused(forest):
    linear = pytest.importorskip("sklearn.linear_model")
    with pytest.raises(KnowledgeError, match="'fair', which is none of"):
        from_sklearn(forest, classes=["bad", "good"])
    regressor = linear.LinearRegression().fit(X.numpy(), X[:, 0].numpy())
    with pytest.raises(KnowledgeError, match="no classes_"):
        from_sklearn(regressor, classes=2)
    with pytest.raises(KnowledgeError, match="no predict_proba"):
        from_sklearn(regressor, classes=2, soft=True)
    with pytest.raises(KnowledgeError, match="no classes_"):
        from_sklearn(linear.LogisticRegression(), classes=2)


def test_named_columns_are_found_by_name(forest):
    forest.feature_names_in_ = np.array(["c", "a", "b"], dtype=object)
    classes = ["bad", "fair", "good"]
    with pytest.raises(KnowledgeError, match="give names="):
        from_sklearn(forest, classes=classes)
    with pytest.raises(KnowledgeError, match="needs the column 'c'"):
        from_sklearn(forest, classes=classes, names=["a", "b"])
    shuffled = X[:, [1, 2, 0]]  # a, b, c where it was fitted on c, a, b
    pkm = from_sklearn(forest, classes=classes, names=["a", "b", "c"])
    del forest.feature_names_in_
    assert torch.equal(pkm(shuffled), from_sklearn(forest, classes=classes)(X))


def test_a_torch_module_is_copied_and_quiet():
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5))
    pkm = from_torch(net)
    before = pkm(X)
    with torch.no_grad():
        net[0].weight.zero_()
        net[0].bias.zero_()
    assert torch.equal(pkm(X), before)
    assert net.training
    assert not before.requires_grad
    assert (before.sum(1) == 1).all()


def test_soft_answers_of_a_torch_module():
    net = nn.Linear(3, 4)
    soft = from_torch(net, soft=True, batch=7)(X)
    assert torch.allclose(soft, net(X).softmax(1))
    ready = nn.Sequential(net, nn.Softmax(1))
    assert torch.allclose(from_torch(ready, soft=True, gives="probabilities")(X), soft)
    with pytest.raises(KnowledgeError, match="sum to 1: row 0"):
        from_torch(net, soft=True, gives="probabilities")(X)
    with pytest.raises(KnowledgeError, match="logits or probabilities"):
        from_torch(net, gives="scores")(X)  # type: ignore[arg-type]


def test_scores_must_be_numbers():
    class Odd(nn.Module):
        def forward(self, x):
            return torch.log(x)

    x = torch.tensor([[1.0, 0.0], [1.0, -1.0]])
    assert from_torch(Odd())(x[:1]).tolist() == [[1, 0]]  # log-probabilities may be -inf
    with pytest.raises(KnowledgeError, match="row 1"):
        from_torch(Odd())(x)
    with pytest.raises(KnowledgeError, match="one row of scores"):
        from_torch(nn.Flatten(0))(x)


def test_precision_and_rows_are_kept():
    net = nn.Linear(3, 4)
    rows = from_torch(net)(X.double())
    assert rows.dtype == torch.float64
    assert from_torch(net)(X[:0]).shape == (0, 4)


def test_a_soft_prior_holds_class_by_class():
    """The weaker property: f^m >= λ g_p elementwise."""
    pkm = from_torch(nn.Linear(3, 4), soft=True)
    known = Knowledge(pkm, trust=0.4).annotate(Examples(X))
    assert known.prior is not None
    logits = torch.randn(60, 4, generator=GENERATOR) * 5
    assert (inject(logits, known.prior, None, 0.4).exp() >= 0.4 * known.prior - 1e-6).all()


def test_a_learned_model_behind_a_view():
    net = nn.Linear(2, 3)
    assert torch.equal(Mask((2, 0), from_torch(net))(X), from_torch(net)(X[:, [2, 0]]))


def says_yes(x):
    return torch.ones(len(x), 2, dtype=torch.bool)


def test_an_entry_point_runs_only_where_allowed():
    target = f"{__name__}:says_yes"
    with pytest.raises(KnowledgeError, match="is code"):
        entry_point(target)
    model = entry_point(target, allow=True)
    assert model(X).shape == (60, 2)
    assert model.kind == "certain"
    assert model == entry_point(target, allow=True)


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "os:",
        ":system",
        "os:system('ls')",
        "os:__name__",
        "__main__:x",
        "a b:c",
        "../evil:f",
        "os.path:sep",
        "no_such_module_here:f",
        "math:no_such_function",
    ],
)
def test_odd_entry_points_are_refused(target):
    with pytest.raises(KnowledgeError):
        entry_point(target, allow=True)


def test_a_refused_entry_point_is_not_imported(tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    code = f"from pathlib import Path\nPath({str(mark)!r}).touch()\ndef f(x): return x\n"
    (tmp_path / "loud_expert.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KnowledgeError):
        entry_point("loud_expert:f")
    assert not mark.exists()
    entry_point("loud_expert:f", allow=True)
    assert mark.exists()
    monkeypatch.delitem(sys.modules, "loud_expert")
