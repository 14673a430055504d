"""One site's classifier: labels of any kind, ranges that hold, scikit-learn's tools."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fedlore import FedloreError, Knowledge
from fedlore.knowledge import Feature, Schema, Table, read_rules
from fedlore.sklearn import KnowledgeClassifier

from .rows import GRADES, SCHEMA, knowledge, rows


def quick(knowledge=None, **more):
    return KnowledgeClassifier(
        knowledge, **{"estimator": "network", "epochs": 5, "hidden": 8, **more}
    )


def test_the_range_holds_for_wild_weights():
    x, y = rows()
    model = quick(knowledge(0.3)).fit(x, y)
    with torch.no_grad():
        for values in model.personal_.model.parameters():
            values.mul_(1e30)
    assert (model.predict_proba(x)[~model.allowed(x)] == 0).all()


def test_columns_are_in_the_order_of_sorted_labels_and_knowledge_in_its_own():
    x, y = rows()
    model = KnowledgeClassifier(knowledge()).fit(x, y)
    assert list(model.classes_) == ["fair", "good", "poor"]  # as log_loss and others expect
    assert (model.classes_[model.predict_proba(x).argmax(1)] == model.predict(x)).all()
    assert model.score(x, y) > 0.9


def test_a_grade_that_never_occurred_is_still_a_class():
    x, y = rows()
    kept = y != "good"
    model = quick(knowledge()).fit(x[kept], y[kept])
    assert "good" in model.classes_
    assert model.predict_proba(x).shape == (len(x), 3)


def test_labels_may_be_numbers_with_the_order_given():
    x, y = rows()
    numbers = np.array([30, 20, 10])[[list(GRADES).index(name) for name in y]]
    named = quick(knowledge()).fit(x, y)
    counted = quick(knowledge(), classes=[30, 20, 10]).fit(x, numbers)
    assert counted.classes_.tolist() == [10, 20, 30]
    same = dict(zip((30, 20, 10), GRADES, strict=True))
    assert [same[v] for v in counted.predict(x)] == named.predict(x).tolist()


def test_numbers_as_names_of_classes_are_understood():
    schema = Schema((Feature("a"), Feature("b")), ("3", "2", "1"))
    x, _ = rows()
    model = quick(replace(knowledge(), schema=schema))
    assert model.fit(x, np.full(len(x), 2)).classes_.tolist() == [1, 2, 3]


def test_trust_of_the_estimator_goes_before_that_of_the_knowledge():
    x, y = rows()
    assert quick(knowledge(0.3)).fit(x, y).trust_ == 0.3
    assert quick(knowledge(0.3), trust=0.1).fit(x, y).trust_ == 0.1
    assert 0.0 <= quick(knowledge(0.3), trust="auto").fit(x, y).trust_ < 1.0


def test_the_same_state_gives_the_same_bits_and_another_does_not():
    x, y = rows()
    one, two, other = (quick(random_state=s).fit(x, y).predict_proba(x) for s in (1, 1, 2))
    assert (one == two).all()
    assert (one != other).any()
    shared = np.random.RandomState(0)
    assert (quick(random_state=shared).fit(x, y).predict_proba(x) != one).any()


def test_it_can_be_searched_over_trust_and_piped():
    x, y = rows(90)
    piped = make_pipeline(FunctionTransformer(), quick(knowledge(), epochs=3))
    grid = {"knowledgeclassifier__trust": [0.0, 0.5], "knowledgeclassifier__hears": [False, True]}
    search = GridSearchCV(piped, grid, cv=3, scoring="accuracy").fit(x, y)
    assert len(search.cv_results_["params"]) == 4
    assert set(search.best_params_) == set(grid)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert cross_val_score(quick(knowledge()), x, y, cv=3, scoring="accuracy").shape == (3,)


def test_an_estimator_with_a_table_survives_pickle(tmp_path):
    sheet = tmp_path / "range.csv"
    sheet.write_text("ash,then\n> 0.5,poor..fair\n< -0.5,fair..good\n")
    table = read_rules(sheet, SCHEMA, kind="range")
    assert isinstance(table, Table)
    x, y = rows()
    model = quick(Knowledge(range=table, schema=SCHEMA)).fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(x) == model.predict_proba(x)).all()
    assert (again.allowed(x) == model.allowed(x)).all()


def test_a_path_is_read_when_it_is_fitted(tmp_path):
    (tmp_path / "range.csv").write_text("ash,then\n> 0.5,poor..fair\n< -0.5,fair..good\n")
    (tmp_path / "knowledge.toml").write_text(
        'classes = ["poor", "fair", "good"]\n[[features]]\nname = "ash"\n[[features]]\n'
        'name = "heat"\n[[range.sources]]\ntable = "range.csv"\n'
    )
    x, y = rows()
    model = quick(tmp_path / "knowledge.toml").fit(x, y)
    assert (model.allowed(x) == quick(knowledge()).fit(x, y).allowed(x)).all()


def frame(names, values):
    """A data frame that is installed wherever Parquet is read."""
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({name: values[:, i] for i, name in enumerate(names)})


def test_the_knowledge_finds_its_columns_by_name_among_others():
    x, y = rows()
    wide = np.column_stack([np.zeros(len(x)), x[:, 1], x[:, 0]])
    model = quick(knowledge()).fit(frame(["batch", "heat", "ash"], wide), y)
    assert model.feature_names_in_.tolist() == ["ash", "heat", "batch"]  # the knowledge's first
    plain = quick(knowledge()).fit(x, y)
    assert (model.allowed(frame(["batch", "heat", "ash"], wide)) == plain.allowed(x)).all()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"trust": 1.5}, r"trust must lie in \[0, 1\], got 1.5"),
        ({"trust": "much"}, "trust must be a number"),
        ({"epochs": 0}, "epochs must be a whole number"),
        ({"hidden": (4, 0)}, "hidden must hold whole numbers of at least 1, got 0"),
        ({"knowledge": 3}, "knowledge must be a Knowledge or a path"),
        ({"classes": ["poor", "fair", "best"]}, "label 'good' is none of"),
        ({"classes": ["poor", "fair", "good", "good"]}, "classes must differ"),
    ],
)
def test_wrong_settings_are_refused_when_it_is_fitted(change, rule):
    x, y = rows()
    model = quick(**{"knowledge": knowledge(), **change})
    with pytest.raises(FedloreError, match=rule):
        model.fit(x, y)


def test_rows_that_do_not_fit_the_knowledge_are_refused():
    x, y = rows()
    with pytest.raises(FedloreError, match="X has 1 without names"):
        quick(knowledge()).fit(x[:, :1], y)
    with pytest.raises(FedloreError, match="the column 'ash' is missing"):
        quick(knowledge()).fit(frame(["heat", "b"], x), y)
    with pytest.raises(FedloreError, match="give classes="):
        quick(knowledge()).fit(x, np.arange(len(y)) % 3)
    wrong = np.where(x[:, 0] > 0.5, "good", y)
    with pytest.raises(FedloreError, match="labels lie outside their range"):
        quick(knowledge()).fit(x, wrong)


def test_without_scikit_learn_the_import_says_what_to_install():
    code = (
        "import sys; sys.modules['sklearn'] = None; sys.modules['sklearn.base'] = None\n"
        "import fedlore\n"
        "try:\n    from fedlore.sklearn import KnowledgeClassifier\n"
        "except ImportError as error:\n    print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "scikit-learn is missing: pip install 'fedlore[sklearn]'"
