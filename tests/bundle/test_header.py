"""What bundle.json says is held against the knowledge, and against itself."""

import json
import math
from dataclasses import replace

import pytest
import torch

from fedlore.bundle import bundle_of
from fedlore.bundle.archive import Refused
from fedlore.bundle.header import (
    check_agreement,
    finite_scores,
    header_inputs,
    header_scaler,
    heard_through,
    input_shape,
    input_values,
    read_header,
    read_holdings,
    row_shape,
    scaling_values,
)
from fedlore.checker.forms import StoredInput
from fedlore.core.scaler import Scaler
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.scope import inputs_of

from .making import known, personal

BUNDLE = bundle_of(personal(), "north")
HEADER = read_header(BUNDLE.members["bundle.json"])
KNOWN = known()
FEATURES = (
    Feature("ash", missing="mean"),
    Feature("mine", levels=("a", "b"), other=True),
    Feature("s"),
)


def stored(schema):
    inputs = inputs_of(schema)
    return tuple(
        StoredInput(one.levels, one.other, one.missing, None if math.isnan(one.fill) else one.fill)
        for one in inputs.features
    )


def test_a_header_agrees_with_its_knowledge():
    check_agreement(HEADER, KNOWN)
    for what, changed in {
        "schema": {"schema": HEADER.schema | {"classes": ["A", "B", "D"]}},
        "task": {"task": "regression"},
        "bins": {"bins": (0.0, 1.0)},
        "trust": {"trust": HEADER.trust + 0.1},
        "policies": {"outside": "error"},
        "shape": {"shape": (3,)},
    }.items():
        with pytest.raises(Refused, match=f"differ in their {what}"):
            check_agreement(replace(HEADER, **changed), KNOWN)
    for changed in ({"rely": 0.9}, {"conflict": "drop"}, {"shape": (0,)}, {"shape": (-1, -2)}):
        with pytest.raises(Refused, match="differ in their"):
            check_agreement(replace(HEADER, **changed), KNOWN)
    check_agreement(replace(HEADER, shape=(1, 2)), KNOWN)


def test_inputs_are_those_of_the_knowledge():
    assert header_inputs(HEADER, KNOWN.schema) is None
    for odd in (FEATURES[:1], FEATURES[1:2]):  # a hole, or a level that nobody named
        with pytest.raises(Refused, match="missing values that the network knows nothing of"):
            header_inputs(HEADER, Schema(odd, ("A", "B")))
    schema = Schema(FEATURES, ("A", "B"))
    header = replace(HEADER, inputs=stored(schema))
    found = header_inputs(header, schema)
    assert [(one.levels, one.other, one.missing) for one in found.features] == [
        (0, False, True), (2, True, False), (0, False, False)]  # fmt: skip
    assert found.width == 2 + 3 + 1
    plain = input_values(found)
    assert [StoredInput(**one) for one in plain] == list(header.inputs)
    assert input_values(None) is None


@pytest.mark.parametrize(
    ("place", "changed", "fits"),
    [
        (0, {"missing": False}, False),  # the knowledge lets it be missing, the network does not
        (2, {"missing": True}, True),  # and the other way round nothing is lost
        (1, {"levels": 3}, False),
        (1, {"other": False}, False),
        (2, {"levels": 2}, False),
    ],
)
def test_inputs_that_differ_are_refused(place, changed, fits):
    schema = Schema(FEATURES, ("A", "B"))
    inputs = list(stored(schema))
    inputs[place] = replace(inputs[place], **changed)
    header = replace(HEADER, inputs=tuple(inputs))
    if fits:
        assert header_inputs(header, schema).features[place].missing
    else:
        with pytest.raises(Refused, match="differ in levels, or in what may be missing"):
            header_inputs(header, schema)
    with pytest.raises(Refused, match="differ in levels"):  # of one feature less
        header_inputs(replace(HEADER, inputs=stored(schema)[:2]), schema)


def test_a_scaling_has_a_number_for_each_input_and_divides_by_what_is_positive():
    scaler = Scaler(torch.tensor([1.0, 2.0]).double(), torch.tensor([3.0, 0.5]).double())
    header = replace(HEADER, scaling=scaling_values(scaler))
    found = header_scaler(header, 0)
    assert torch.equal(found.shift, scaler.shift) and torch.equal(found.spread, scaler.spread)
    assert header_scaler(replace(HEADER, scaling=None), 0) is None
    assert scaling_values(None) is None
    for changed, words in (
        ({"shift": [1.0]}, "has shapes"),
        ({"spread": [1.0, 1.0, 1.0]}, "has shapes"),
        ({"spread": [0.0, 1.0]}, "positive spread"),
        ({"spread": [-1.0, 1.0]}, "positive spread"),
        ({"spread": [math.inf, 1.0]}, "positive spread"),
        ({"shift": [math.nan, 1.0]}, "must be finite"),
        ({"shift": "ab"}, "a shift and a spread for each"),
        ({"shift": None}, "a shift and a spread for each"),
    ):
        with pytest.raises(Refused, match=words):
            header_scaler(replace(header, scaling=header.scaling | changed), 0)
    with pytest.raises(Refused, match="has shapes"):
        header_scaler(header, 1)  # one more that is heard
    schema = Schema(FEATURES, ("A", "B"))
    with pytest.raises(Refused, match="need a scaling, be it by 1"):
        header_scaler(replace(HEADER, scaling=None), 0, inputs_of(schema))
    assert input_shape(HEADER, 3, inputs_of(schema)) == (9,)
    assert input_shape(replace(HEADER, shape=(4, 5)), 3, None) == (4, 8)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[0.5, 0.5, 0.0], [0, 1, 0], [0, 0, 1]], None),
        ([[0.5, 0.5, 5e-7], [0, 1, 0], [0, 0, 1]], None),
        ([[0.5, 0.5, 2e-6], [0, 1, 0], [0, 0, 1]], "must be distributions"),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 0]], "must be distributions"),
        ([[1.1, -0.1, 0.0], [0, 1, 0], [0, 0, 1]], "must be distributions"),
        ([[1, 0, 0], [0, 1, 0]], "must be 3 rows of 3 numbers"),
        ([[1, 0, 0], [0, 1, 0], [0, 1]], "must be 3 rows of 3 numbers"),
    ],
)
def test_a_confusion_is_a_distribution_for_each_class(rows, words):
    header = replace(HEADER, confusion=rows)
    if words is None:
        heard = heard_through(KNOWN, header).prediction(torch.tensor([[5.0, 0.0]]))
        assert heard[0].tolist() == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)  # low ash is A
        return
    with pytest.raises(Refused, match=words):
        heard_through(KNOWN, header)


def test_without_a_confusion_the_expert_is_heard_as_he_speaks():
    assert heard_through(KNOWN, HEADER) is KNOWN
    with pytest.raises(Refused, match="must be 3 rows"):
        heard_through(replace(KNOWN, prediction=None), replace(HEADER, confusion=[[1, 0, 0]] * 3))


def test_scores_that_are_no_numbers_are_left_out():
    scores = {"a": 1, "b": math.inf, "c": math.nan, "d": "x", "e": 0.5}
    assert finite_scores(scores) == {"a": 1.0, "e": 0.5}


def test_an_image_is_a_square_and_anything_else_a_list():
    image = {"layers": [{"kind": "as_image"}]}
    four, five = (Schema(tuple(Feature(f"f{i}") for i in range(n)), ("A", "B")) for n in (4, 5))
    assert row_shape(image, four) == (2, 2) and row_shape(image, five) == (5,)
    assert row_shape({"layers": []}, four) == (4,)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b"\xff", b'{"format": 1}'])
def test_what_is_no_header_is_refused(data):
    with pytest.raises(Refused, match="is not readable|has format"):
        read_header(data)


PROMISE = {"level": 0.9, "cut": 0.5, "rows": 10, "whose": "kept", "outside": 0}


@pytest.mark.parametrize(
    ("taken", "refused", "words"),
    [
        ({"cut": 0.0}, {"cut": -0.1}, "a cut of -0.1 from 10 rows is impossible"),
        ({"cut": 1.0}, {"cut": 1.1}, "a cut of 1.1 from 10 rows"),
        ({}, {"cut": math.nan}, "a cut of nan"),
        ({"rows": 1}, {"rows": 0}, "from 0 rows is impossible"),
        ({"outside": 10}, {"outside": 11}, "11 of 10 rows cannot be outside"),
        ({"outside": 0}, {"outside": -1}, "-1 of 10 rows cannot be outside"),
        ({"level": 0.99}, {"level": 1.0}, r"is not readable: .* must lie in \(0, 1\), got 1"),
        ({"level": 0.01}, {"level": 0.0}, r"must lie in \(0, 1\), got 0"),
        ({}, {"levle": 0.9}, "is not readable: .*'levle'"),
    ],
)
def test_a_promise_that_no_rows_can_have_given_is_refused(taken, refused, words):
    assert len(read_holdings(json.dumps([PROMISE | taken] * 64).encode())) == 64
    with pytest.raises(Refused, match=words):
        read_holdings(json.dumps([PROMISE | refused]).encode())


@pytest.mark.parametrize("values", [{}, None, "a", [PROMISE] * 65, [1]])
def test_promises_are_a_list_of_a_few(values):
    with pytest.raises(Refused, match="a list of at most 64 cuts|is not readable"):
        read_holdings(json.dumps(values).encode())
