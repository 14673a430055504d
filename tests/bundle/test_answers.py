"""What a bundle answers, and why."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedlore import Knowledge
from fedlore.bundle import DECIDED, answer_rows, bundle_of, read_rows_checked, reasons
from fedlore.bundle.explain import answer_with_reasons
from fedlore.errors import FedloreError
from fedlore.knowledge.tables.table import Table
from fedlore.models import classifier

from .making import SCHEMA, bundle, known, number_bundle, regressor, rows


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), trust=st.floats(0, 1), hears=st.booleans())
@example(seed=0, trust=6e-74, hears=False)  # nothing in single precision, and yet not 0
def test_answers_are_those_of_the_model(seed, trust, hears):
    made = bundle(known(trust), hears=hears, seed=seed)
    x = rows(40, seed)
    found = answer_rows(made, x)
    annotated = made.personal.annotate(x)
    assert torch.equal(found.predicted, made.personal.predict(x))
    assert torch.equal(found.probabilities, made.personal.predict_proba(x))
    assert torch.equal(found.allowed, annotated.allowed)
    assert (found.probabilities[~found.allowed] == 0).all()
    silent = (annotated.prior == 0).all(1)
    assert torch.equal(found.expert, annotated.prior.argmax(1).masked_fill(silent, -1))
    assert torch.equal(found.trust > 0, ~silent & torch.tensor(trust > 0).expand(len(x)))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), trust=st.floats(0.01, 1))
def test_who_decided_follows_from_the_parts(seed, trust):
    made = bundle(known(trust), seed=seed)
    x = rows(40, seed)
    found = answer_rows(made, x)
    alone = made.personal.with_knowledge(Knowledge(None, known().range)).predict(x)
    for row, code in enumerate(found.decided.tolist()):
        said, expert, own = (int(t[row]) for t in (found.predicted, found.expert, alone))
        expected = "model"
        if int(found.allowed[row].sum()) == 1:
            expected = "range"
        elif expert >= 0 and own == expert:
            expected = "both"
        elif expert >= 0 and said == expert:
            expected = "expert"
        assert DECIDED[code] == expected


def test_chunks_and_blocks_change_nothing(monkeypatch):
    made, x = bundle(), rows(100)
    whole = answer_rows(made, x)
    monkeypatch.setattr(classifier.Personal, "chunk", 7)
    monkeypatch.setattr(classifier, "BLOCK", 3)
    parts = answer_rows(made, x)
    assert torch.equal(whole.predicted, parts.predicted)
    assert torch.allclose(whole.probabilities, parts.probabilities, atol=1e-6)
    assert torch.equal(whole.decided, parts.decided)


def test_no_rows_have_no_answers():
    found = answer_rows(bundle(), torch.empty(0, 2))
    assert len(found) == 0 and found.probabilities.shape == (0, 3)


def test_numbers_stay_in_their_range():
    made = bundle_of(regressor(), "plant", schema=SCHEMA)
    found = answer_rows(made, rows())
    assert torch.equal(found.predicted, made.personal.predict(rows()))
    assert ((found.low <= found.predicted) & (found.predicted <= found.high)).all()
    assert torch.allclose(found.probabilities.sum(1), torch.ones(50).double())
    words = reasons(made, rows(1))[0]
    assert words[0].startswith("at least ash = ") and words[2].startswith(
        "expert's formula 2 * ash"
    )
    assert "mixes the expert's" in words[3]


def test_reasons_name_rules_and_scope():
    made = bundle()
    x = torch.tensor([[35.0, 4.0], [10.0, 1.0], [50.0, 1.0], [5.0, 4.0]])
    high, plain, beyond, clash = reasons(made, x)
    assert "table-2.csv, 'sulphur' (row 2): s > 3 -> not A" in high
    assert "table-2.csv, row 3: ash > 30 -> C" in high
    assert "C is the only class that the range allows" in high
    assert len(plain) == 1 and plain[0].endswith("the expert is silent")
    assert any("ash = 50 %" in line and "0 to 40" in line for line in beyond)
    assert "the expert says A, which the range forbids: his prediction is not used" in clash
    assert answer_rows(made, x).in_scope.tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    ("conflict", "words"),
    [("abstain", "his prediction is not used"), ("project", "the nearest number")],
)
def test_a_number_that_the_range_forbids_is_explained_too(tmp_path, conflict, words):
    made = number_bundle(tmp_path, conflict=conflict)
    clash, fine = reasons(made, torch.tensor([[35.0, 1.0], [20.0, 1.0]]))
    said = [line for line in clash if line.startswith("the expert says 40, which the range")]
    assert len(said) == 1 and words in said[0]
    assert not any("forbids" in line for line in fine)


def test_the_card_of_a_number_names_the_owner(tmp_path):
    assert "- knowledge, owner: Erika Mustermann" in number_bundle(tmp_path).card


def test_knowledge_is_evaluated_once_to_answer_and_to_explain(monkeypatch):
    made, x, calls = bundle(), rows(), []
    plain = Table.__call__
    monkeypatch.setattr(Table, "__call__", lambda t, x: calls.append(t.kind) or plain(t, x))
    answers, why = answer_with_reasons(made, x)
    assert sorted(calls) == ["predict", "range"]
    monkeypatch.undo()
    assert torch.equal(answers.predicted, answer_rows(made, x).predicted)
    assert [list(map(str, some)) for some in why] == reasons(made, x, answers)


RECORDS = [{"s": 1.0, "ash": 10}, {"s": 2.0, "ash": 20.5}]


def test_columns_are_found_by_name():
    made = bundle()
    wanted = torch.tensor([[10.0, 1.0], [20.5, 2.0]])
    frame = {"s [%]": [1.0, 2.0], "id": ["x", "y"], " ash [%]": np.array([10.0, 20.5])}
    for source in (RECORDS, frame, np.array([[10, 1.0], [20.5, 2]])):
        assert torch.equal(read_rows_checked(source, made), wanted)
    assert torch.equal(read_rows_checked(RECORDS[0], made), wanted[:1])
    pandas = pytest.importorskip("pyarrow").table({"ash": [10.0, 20.5], "s": [1.0, 2.0]})
    assert torch.equal(read_rows_checked(pandas, made), wanted)


WRONG = {
    "missing": ({"ash": [1.0]}, "the column 's' is missing; there are: ash"),
    "unit": ({"ash [g/kg]": [1.0], "s": [1.0]}, r"'ash' is in \[g/kg\], .* in \[%\]"),
    "twice": ({"ash": [1.0], "ash [%]": [1.0], "s": [1.0]}, "'ash' is there twice"),
    "word": ({"ash": ["1", "x"], "s": ["1", "2"]}, "row 3, column 'ash': 'x' is not a number"),
    "bool": ({"ash": [True], "s": [1.0]}, "row 2, column 'ash'.*not a number"),
    "blank": ({"ash": [1.0, None], "s": [1.0, 2.0]}, "row 3, column 'ash' is missing"),
    "nan": ({"ash": [1.0, float("nan")], "s": [1.0, 2.0]}, "row 3, column 'ash' is missing"),
    "inf": ({"ash": [float("inf")], "s": [1.0]}, "row 2, column 'ash': inf is not a finite"),
    "large": ({"ash": [1e300], "s": [1.0]}, "1e\\+300 is not a finite number of single"),
    "length": ({"ash": [1.0, 2.0], "s": [1.0]}, "differ in length"),
    "records": ([{"ash": 1.0, "s": 1.0}, {"ash": 1.0}], "row 2, column 's' is missing"),
    "nested": ([1.0], "row 1 must be a record"),
    "kind": ("ash", "must be records"),
    "shape": (np.zeros((2, 3)), "2 columns"),
}


@pytest.mark.parametrize("name", WRONG)
def test_rows_that_are_wrong_are_refused_with_their_place(name):
    source, words = WRONG[name]
    with pytest.raises(FedloreError, match=words):
        read_rows_checked(source, bundle())


def test_a_hole_and_other_columns_are_refused():
    made = bundle()
    with pytest.raises(FedloreError, match="data row 1: column 'ash' is missing"):
        answer_rows(made, torch.tensor([[1.0, 1.0], [torch.nan, 2.0]]))
    with pytest.raises(FedloreError, match="there is no feature 'asch'; did you mean 'ash'"):
        read_rows_checked({"ash": [1.0], "s": [1.0], "asch": [2.0]}, made, extra="error")
