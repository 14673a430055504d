"""Estimators with rows as people have them: by name, with levels in words, with holes."""

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from fedlore import Knowledge
from fedlore.errors import FedloreError
from fedlore.sklearn import KnowledgeClassifier, KnowledgeRegressor

FEATURES = """
[[features]]
name = "ash"
column = "ash content"
missing = "mean"

[[features]]
name = "mine"
levels = ["north", "south"]
missing = "level"

[[features]]
name = "heat"
"""
TASKS = {
    KnowledgeClassifier: 'classes = ["soft", "hard"]\nlabel = "grade"\n',
    KnowledgeRegressor: '[target]\nname = "grade"\nlower = -4\nupper = 4\n',
}
RULES = {
    KnowledgeClassifier: "ash,mine,then\n> 0.5,south,hard\n",
    KnowledgeRegressor: "ash,mine,then\n> 0.5,south,>= 1\n",
}
HOLE = float("nan")


class Frame:
    """As much of a data frame as is asked for; pandas and polars are not needed for a test."""

    def __init__(self, columns):
        self.held, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return np.array(self.held[name], dtype=object)


def columns(n=60, seed=0):
    """Rows whose every seventh ash and every ninth mine is missing."""
    drawn = np.random.default_rng(seed)
    ash, heat = drawn.uniform(-1, 1, (2, n)).round(3).tolist()
    mine = drawn.choice(["north", "south"], n).tolist()
    return {
        "heat": heat,
        "mine": [None if i % 9 == 4 else m for i, m in enumerate(mine)],
        "ash content": [None if i % 7 == 3 else a for i, a in enumerate(ash)],
    }


def coded(held):
    """The same rows as numbers in the order of the file."""
    place = {"north": 0.0, "south": 1.0, None: HOLE}
    ash = [HOLE if a is None else a for a in held["ash content"]]
    return np.array([ash, [place[m] for m in held["mine"]], held["heat"]]).T


def arrow(held):
    return pytest.importorskip("pyarrow").table(held)


def records(held):
    return [dict(zip(held, row, strict=True)) for row in zip(*held.values(), strict=True)]


def words(held):
    """An array of objects, in the order of the file."""
    return np.array([held["ash content"], held["mine"], held["heat"]], dtype=object).T


@pytest.fixture(params=list(TASKS), ids=["classes", "numbers"])
def site(request, tmp_path):
    """An estimator with rules about two columns in which values may be missing, and labels."""
    kind = request.param
    head, tail = TASKS[kind], '[[range.sources]]\ntable = "range.csv"\n'
    text = f"{FEATURES}{head}{tail}" if "[target]" in head else f"{head}{FEATURES}{tail}"
    (tmp_path / "knowledge.toml").write_text(text)
    (tmp_path / "range.csv").write_text(RULES[kind])
    held = columns()
    hard = np.array(held["heat"]) > 0
    fires = np.array([a is None or a > 0.5 for a in held["ash content"]])
    hard |= fires & np.array([m != "north" for m in held["mine"]])
    y = np.where(hard, "hard", "soft") if kind is KnowledgeClassifier else np.where(hard, 2.0, -2.0)
    return kind(tmp_path / "knowledge.toml", epochs=4, hidden=8), held, y


@pytest.mark.parametrize("form", [dict, Frame, arrow, records, words, coded])
def test_the_same_rows_in_any_form_are_the_same_answers(site, form):
    model, held, y = site
    model.fit(form(held), y)
    wanted = model.predict(coded(held)) if form in (words, coded) else model.predict(dict(held))
    new = columns(20, seed=1)
    assert (model.predict(form(held)) == wanted).all()
    assert model.n_features_in_ == 3 and len(model.predict(form(new))) == 20


def test_a_rule_on_a_missing_value_leaves_both_open_and_one_on_a_known_value_holds(site):
    model, held, y = site
    model.fit(held, y)
    rows = {"heat": [0.0] * 4, "mine": ["south", None, "south", "north"]}
    rows["ash content"] = [0.9, 0.9, None, None]
    found = model.allowed(rows)
    if isinstance(model, KnowledgeClassifier):
        soft = list(model.classes_).index("soft")
        assert found[:, soft].tolist() == [False, True, True, True]
        assert (model.predict_proba(rows)[~found] == 0).all()
    else:
        assert found.holds(torch.zeros(4)).tolist() == [False, True, True, True]
        assert found.holds(torch.tensor(model.predict(rows))).all()


def test_what_may_not_be_missing_is_refused_with_all_else(site):
    model, held, y = site
    model.fit(held, y)
    wrong = {"heat": [None, 1.0], "mine": ["south", "east"], "ash content": [0.0, 0.0]}
    with pytest.raises(FedloreError, match="2 problems:\n.*'heat' is missing.*\n.*level 'east'"):
        model.predict(wrong)
    with pytest.raises(FedloreError, match="the column 'ash content' is missing"):
        model.predict({"heat": [0.0], "mine": ["south"]})
    with pytest.raises(FedloreError, match="column 'heat' is missing"):
        model.fit(coded(held), y).predict(np.array([[0.1, 0.0, HOLE]]))


def test_the_label_in_a_frame_is_not_learned_from(site):
    model, held, y = site
    alone = model.fit(held, y).predict(held)
    assert (model.fit(held | {"grade": y}, y).predict(held) == alone).all()


def test_levels_reach_the_network_one_by_one_and_holes_with_their_sign(site):
    model, held, y = site
    first = next(
        model.set_params(estimator="network").fit(held, y).personal_.inner.model.parameters()
    )
    assert first.shape[1] == 2 + 3 + 1  # ash and its sign, two levels and theirs, heat


def test_a_regressor_chooses_its_own_trust():
    x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    right = Knowledge(lambda rows: rows[:, 0] * 3)
    model = KnowledgeRegressor(right, trust="auto", estimator="network", epochs=3, hidden=8).fit(
        x, 3 * x[:, 0]
    )
    assert model.trust_ > 0.5
    with pytest.raises(FedloreError, match="trust must be a number"):
        KnowledgeRegressor(right, trust="much").fit(x, x[:, 0])


def test_without_knowledge_columns_by_name_say_what_they_need():
    with pytest.raises(FedloreError, match="rows by name need knowledge with a schema"):
        KnowledgeClassifier(Knowledge()).fit({"a": [1.0, 2.0]}, ["x", "y"])
