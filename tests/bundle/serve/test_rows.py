"""JSON is read strictly, and what is wrong is named."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore.bundle.serve.rows import Reader, row_schema
from fedlore.data.rows.strict import LARGEST_VALUE, Unusable
from fedlore.knowledge import Feature, Schema

from .sites import ROW, SCHEMA

READER = Reader(SCHEMA, most=3)
ASH, HEAT, SEAM = SCHEMA.features
HOLED = replace(SCHEMA, features=(replace(ASH, missing="mean"), HEAT, replace(SEAM, other=True)))

numbers = st.floats(-LARGEST_VALUE, LARGEST_VALUE) | st.integers(-(10**15), 10**15)


def text(**change):
    return json.dumps({**ROW, **change}).encode()


@given(st.lists(st.tuples(numbers, numbers, st.sampled_from("ABC")), min_size=1, max_size=3))
def test_what_is_written_is_read(rows):
    said = [{"heat": h, "seam": s, "ash": a} for a, h, s in rows]  # in any order
    x = READER.read(json.dumps(said).encode())
    assert x.tolist() == [[float(a), float(h), float("ABC".index(s))] for a, h, s in rows]


def test_one_row_needs_no_list():
    assert READER.read(text()).tolist() == [[13.0, 1000.0, 0.0]]


@pytest.mark.parametrize(
    ("body", "rule", "row", "column"),
    [
        (text(ash=None), "row 1, column 'ash': the value is missing", 1, "ash"),
        (text(seam="  "), "row 1, column 'seam': the value is missing", 1, "seam"),
        (text(ash="13"), "row 1, column 'ash': must be a number, got text", 1, "ash"),
        (text(ash=True), "row 1, column 'ash': must be a number, got a boolean", 1, "ash"),
        (text(ash=[1]), "row 1, column 'ash': must be a number, got a list", 1, "ash"),
        (text(seam="D"), "row 1, column 'seam': must be one of A, B, C, got 'D'", 1, "seam"),
        (text(seam=1), "row 1, column 'seam': must be one of A, B, C, got a number", 1, "seam"),
        (text(ash=1e31), "row 1, column 'ash': must lie within ±1e+30, got 1e+31", 1, "ash"),
        (text(extra=1), "row 1: there is no column 'extra'", 1, "extra"),
        (b'{"ash": 1, "heat": 2}', "row 1: the column 'seam' is missing", 1, "seam"),
        (b'[{"ash": 1, "heat": 2, "seam": "A"}, 7]', "row 2 must be an object", 2, None),
        (b'{"ash": NaN}', "NaN is not a number in JSON", None, None),
        (b'{"ash": -Infinity}', "-Infinity is not a number in JSON", None, None),
        (b'{"ash": 1, "ash": 2}', "the column 'ash' is there twice", None, "ash"),
        (b"[]", "there are no rows", None, None),
        (b"[{}, {}, {}, {}]", "a request may have 3 rows, this one has 4", None, None),
        (b"", "the body is not JSON", None, None),
        (b"{", "the body is not JSON", None, None),
        (b"\xff\xfe", "the body is not UTF-8", None, None),
        (b"[" * 200_000, "the body is nested too deeply", None, None),
        (b"1e999", "row 1 must be an object of columns, got a number", 1, None),
        (b"null", "row 1 must be an object of columns, got null", 1, None),
    ],
)
def test_wrong_bodies_are_refused_by_row_and_column(body, rule, row, column):
    with pytest.raises(Unusable) as caught:
        READER.read(body)
    assert str(caught.value).startswith(rule)
    assert (caught.value.row, caught.value.column) == (row, column)


def test_a_number_of_many_digits_is_only_too_large():
    with pytest.raises(Unusable, match="must lie within"):
        READER.read(b'{"ash": ' + b"9" * 10_000 + b', "heat": 1, "seam": "A"}')


@given(st.text(max_size=200))
def test_no_text_can_break_the_message(name):
    body = json.dumps({**ROW, "x" + name: 1}).encode()
    with pytest.raises(Unusable) as caught:
        READER.read(body)
    str(caught.value).encode("utf-8")
    assert len(str(caught.value)) < 120


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(body):
    try:
        READER.read(body)
    except Unusable:
        pass


def test_a_missing_value_becomes_nan_where_it_may_be_missing():
    reader = Reader(HOLED, most=1)
    assert reader.read(text(seam="D"))[0, 2] == 3.0  # other = true: one more level
    assert math.isnan(reader.read(text(ash=None))[0, 0])
    with pytest.raises(Unusable, match="column 'seam': the value is missing"):
        reader.read(text(seam=None))
    with pytest.raises(Unusable, match="column 'ash': the value is missing"):
        Reader(SCHEMA, most=1).read(text(ash=None))


def test_a_column_goes_by_its_name_or_by_its_title_in_data_files():
    schema = replace(SCHEMA, features=(replace(ASH, column="ash content"), HEAT, SEAM))
    reader = Reader(schema, most=1)
    rest = {"heat": 1.0, "seam": "A"}
    for title in ("ash", "ash content"):
        assert reader.read(json.dumps({title: 13, **rest}).encode())[0].tolist() == [13, 1, 0]
    with pytest.raises(Unusable, match="row 1: the column 'ash' is there twice"):
        reader.read(json.dumps({"ash": 1, "ash content": 1, **rest}).encode())
    with pytest.raises(Unusable, match="there is no column 'ash_content'"):
        reader.read(json.dumps({"ash": 1, "ash_content": 1, **rest}).encode())
    told = row_schema(schema)
    assert told["required"] == ["heat", "seam"] and "ash content" in told["properties"]
    assert told["allOf"] == [{"oneOf": [{"required": ["ash"]}, {"required": ["ash content"]}]}]


def test_the_schema_of_a_row_says_what_the_reader_takes():
    found = row_schema(SCHEMA)
    assert found["required"] == ["ash", "heat", "seam"]
    assert found["properties"]["ash"]["description"] == "in %, scope 5 to 16"
    assert found["properties"]["seam"] == {"type": "string", "enum": ["A", "B", "C"]}
    assert row_schema(HOLED)["properties"]["ash"]["type"] == ["number", "null"]
    assert row_schema(HOLED)["properties"]["seam"] == {"type": "string"}
    free = row_schema(Schema((Feature("a"),), ("x", "y")))
    assert "description" not in free["properties"]["a"]
