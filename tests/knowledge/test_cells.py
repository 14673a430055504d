"""Cells mean what an expert would expect, and nothing else is accepted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore.errors import KnowledgeError
from fedlore.kernel.cells import (
    Levels,
    NumberSpans,
    format_condition,
    format_outcome,
    parse_condition,
    parse_outcome,
)
from fedlore.kernel.schema import Feature

ASH = Feature("ash", unit="%")
COAL = Feature("coal", levels=("A", "B", "C", "A, B", "-", 'say "x"'))
GRADES = ("I", "II", "III", "IV", "V")


def holds(text, value):
    """Whether a number satisfies a cell."""
    condition = parse_condition(text, ASH)
    assert isinstance(condition, NumberSpans)
    return any(span.start <= (value, False) < span.stop for span in condition.spans)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("> 12", [12.1, 1e300, math.inf], [12, -5]),
        (">=12", [12, 13], [11.9]),
        ("≥ 12", [12, 13], [11.9]),
        ("< -1.5e2", [-151, -math.inf], [-150, 0]),
        ("<= 0.9", [0.9, -1], [0.91]),
        ("= 3", [3], [3.1]),
        ("3", [3], [3.1]),
        ("[8..12)", [8, 11.9], [7.9, 12]),
        ("(8..12]", [8.1, 12], [8, 12.1]),
        ("8..12", [8, 12], [7.9, 12.1]),
        (" -5 .. -3 ", [-5, -3], [-2, 3]),
        (".5..1.5", [0.5], [5]),
        ("in 3, 5", [3, 5], [4]),
        ("in > 12, [3..4)", [3, 13], [4, 12]),
        ("not 3", [2, 4], [3]),
        ("not [8..12)", [12, 7], [8, 9]),
        ("= -0", [0.0, -0.0], [1]),
    ],
)
def test_a_numeric_cell_holds_for(text, inside, outside):
    assert all(holds(text, value) for value in inside)
    assert not any(holds(text, value) for value in outside)


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("A", (0,)),
        ("= A", (0,)),
        ("in A, B", (0, 1)),
        ("IN B,A", (0, 1)),
        ("not C", (0, 1, 3, 4, 5)),
        ("not A, B", (2, 3, 4, 5)),
        ("A, B", (3,)),
        ('in "A, B", C', (2, 3)),
        ('"-"', (4,)),
        ('"say ""x"""', (5,)),
    ],
)
def test_a_categorical_cell_names_levels(text, levels):
    assert parse_condition(text, COAL) == Levels(levels)


@pytest.mark.parametrize("feature", [ASH, COAL])
@pytest.mark.parametrize("text", ["", "  ", "-", " - "])
def test_an_empty_cell_or_a_dash_means_any(text, feature):
    assert parse_condition(text, feature) is None


@pytest.mark.parametrize(
    ("text", "classes"),
    [("II", (1,)), ("I, II", (0, 1)), ("II..IV", (1, 2, 3)), ("I, III..V", (0, 2, 3, 4))]
    + [("all", (0, 1, 2, 3, 4)), ("not I", (1, 2, 3, 4)), ("in V,I", (0, 4)), ('"I"', (0,))],
)
def test_a_range_outcome_names_classes(text, classes):
    assert parse_outcome(text, GRADES, "range") == classes


@pytest.mark.parametrize(
    ("kind", "text"),
    [("predict", text) for text in ("", "I, II", "I..II", "all", "VI", "-", "i")]
    + [("range", text) for text in ("", "V..I", "I, III..II", "I..VI", "I,,II", "I,", "not I..V")]
    + [("range", text) for text in ("[I..II]", "-")],
)
def test_an_outcome_that_is_none_is_refused(kind, text):
    with pytest.raises(KnowledgeError):
        parse_outcome(text, GRADES, kind)


HOSTILE = [
    "__import__('os')", "=cmd|'/c calc'!A1", "ash.__class__", "ash[0]", "f(3)", "> ash", "1 + 2",
    "nan", "> nan", "<= inf", "-inf..3", "1e999", "0x10", "1_000", "٣", "8...12", "8....12",
    "8..12..14", "[8..12", "8..12)", "12..8", "(8..8]", "8-12", "> 12 %", "in", "in 3,",
    "in 3,, 5", "not <= 3, > 3", ">", "> > 3", "x" * 10**6, "in " + "1, " * 300 + "1", "\x00",
]  # fmt: skip


@pytest.mark.parametrize("feature", [ASH, COAL])
@pytest.mark.parametrize("text", HOSTILE)
def test_anything_else_is_refused_and_quoted_in_short(text, feature):
    with pytest.raises(KnowledgeError) as error:
        parse_condition(text, feature)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("text", ["0,9", "> 0,9", "in 3,5", "[0,5..1,5]"])
def test_a_comma_that_may_be_a_decimal_mark_is_refused_with_a_hint(text):
    with pytest.raises(KnowledgeError, match="decimal mark.*point"):
        parse_condition(text, ASH)


def test_an_unknown_level_names_the_near_miss():
    with pytest.raises(KnowledgeError, match="did you mean 'gas coal'"):
        parse_condition("gas cole", Feature("coal", levels=("gas coal", "fat coal")))


def test_a_refusal_says_what_would_be_legal():
    with pytest.raises(KnowledgeError, match=r"'8-12' .* 'ash': write > 12, .*8\.\.12"):
        parse_condition("8-12", ASH)


numbers = st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr)
items = st.one_of(
    st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=", ""]), numbers).map("".join),
    st.tuples(st.sampled_from("[("), numbers, st.just(".."), numbers, st.sampled_from("])")).map(
        "".join
    ),
)
cells = st.one_of(
    items,
    st.lists(items, min_size=1, max_size=4).map(lambda some: "in " + ", ".join(some)),
    st.lists(items, min_size=1, max_size=4).map(lambda some: "not " + ", ".join(some)),
)


@given(cells)
def test_a_condition_written_out_reads_back_the_same(text):
    try:
        condition = parse_condition(text, ASH)
    except KnowledgeError:
        return
    assert parse_condition(format_condition(condition, ASH), ASH) == condition


names = st.lists(st.text(max_size=6).map(str.strip), min_size=2, max_size=6, unique=True)


@given(names, st.data())
def test_levels_and_classes_of_any_name_read_back_the_same(labels, data):
    chosen = data.draw(st.sets(st.sampled_from(range(len(labels))), min_size=1))
    levels = tuple(sorted(chosen))
    feature = Feature("coal", levels=tuple(labels))
    text = format_condition(Levels(levels), feature)
    assert parse_condition(text, feature) == Levels(levels)
    text = format_outcome(levels, labels, "range")
    assert parse_outcome(text, labels, "range") == levels
    text = format_outcome(levels[:1], labels, "predict")
    assert parse_outcome(text, labels, "predict") == levels[:1]


@given(st.text(max_size=40) | st.text("0123456789.,-+eE<>=[]() innot\"'", max_size=20))
def test_the_parser_never_fails_otherwise(text):
    for feature in (ASH, COAL):
        try:
            parse_condition(text, feature)
        except KnowledgeError:
            pass
    for kind in ("predict", "range"):
        try:
            parse_outcome(text, GRADES, kind)
        except KnowledgeError:
            pass
