"""Cells mean what an expert would expect, and nothing else is accepted."""

import math
from datetime import date
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore.errors import KnowledgeError
from fedlore.kernel.cells import (
    LONGEST,
    MOST_ITEMS,
    Levels,
    NumberSpans,
    Validity,
    after,
    before,
    cut_line,
    even_edges,
    format_condition,
    format_outcome,
    parse_condition,
    parse_confidence,
    parse_day,
    parse_outcome,
    parse_set,
    short,
    single,
    single_spans,
)
from fedlore.kernel.schema import Feature

from .. import plain_reading

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


WRITTEN = ["> 0.1", ">= 0.1", "< 0.1", "<= 0.1", "= 0.1", "0.1..0.3", "(0.1..0.3)", "[0.1..0.3)",
           "not 0.1", "in < 0.1, > 0.3", "not (0.1..0.3]", "in 0.1, 0.3", "> 1e39", "< -1e39",
           "in <= 0.1, > 0.1", "<= 16777217", "> 16777217", "(0.1..0.10000000149)"]  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN)
def test_single_precision_begins_and_ends_at_the_very_number(text):
    """On each threshold and one number beside it, by the cell's own words read plainly."""
    found = single_spans(parse_condition(text, ASH))
    for written in (0.1, 0.3, 16777217.0, 3.4e38, -3.4e38, 0.0):
        for value in (single(written), after(written), before(written)):
            inside = any(first <= value <= last for first, last in found)
            assert inside == plain_reading.holds(text, value), value
    ends = [end for span in found for end in span]
    assert ends == sorted(ends) and all(a[1] < before(b[0]) for a, b in pairwise(found))


def test_levels_stay_apart_where_numbers_that_touch_are_one():
    assert single_spans(Levels((0, 1, 3))) == ((0.0, 0.0), (1.0, 1.0), (3.0, 3.0))
    touching = parse_condition("in [1..2), [2..3]", ASH)
    assert single_spans(touching) == ((1.0, 3.0),) and len(touching.spans) == 1


DAYS = [None, date(2025, 1, 1), date(2025, 1, 2), date(2025, 1, 3)]


def test_a_stretch_holds_from_its_first_day_to_the_one_before_its_end():
    for a, b, c, d in product(DAYS, repeat=4):
        one, two = Validity(a, b), Validity(c, d)
        days = [day for day in DAYS if day and (not a or a <= day) and (not b or day < b)]
        assert [day for day in DAYS if day and one.holds(day)] == days
        both = [day for day in days if two.holds(day)]
        assert [day for day in DAYS if day and one.within(two).holds(day)] == both
        assert one.empty == bool(a and b and b <= a)


@pytest.mark.parametrize(
    ("read", "taken", "value", "refused", "message"),
    [
        (parse_confidence, "1", 1.0, "1.01", r"between 0 and 1, got '1.01' \(0.0101 is 1.01 %\)"),
        (parse_confidence, "100 %", 1.0, "100.5 %", "between 0 and 1, got '100.5 %'"),
        (parse_confidence, "1", 1.0, "100", r"got '100' \(1 is 100 %\)"),
        (parse_confidence, "1", 1.0, "101", "got '101'$"),
        (parse_confidence, "0.001", 0.001, "0", "never holds"),
        (parse_confidence, "0,5 %", 0.005, "-0.5", "is the share of cases"),
        (parse_confidence, "in 1 out of 8 cases", 0.125, "0 of 9", "never holds"),
        (parse_confidence, "3/4", 0.75, "3 of 0", "is the share of cases"),
        (parse_confidence, "-", 1.0, "often", "is the share of cases .* 'often'"),
        (parse_day, "2024-02-29", date(2024, 2, 29), "2025-02-29", "not a date: write it as"),
        (parse_day, "2025-06-01", date(2025, 6, 1), "20250601", "not a date"),
        (parse_set, "-", ((-math.inf, math.inf),), "> 8", "have their ends: .* got '> 8'"),
        (parse_set, ">= 8", ((8.0, math.inf),), "< 8", "have their ends"),
        (parse_set, "[8..12]", ((8.0, 12.0),), "(8..12]", "have their ends"),
        (parse_set, "in 5..6, 8..9", ((5.0, 6.0), (8.0, 9.0)), "[8..12)", "have their ends"),
        (parse_set, "in <= 5, 8..9", ((-math.inf, 5.0), (8.0, 9.0)), "not 3", "have their ends"),
    ],
)
def test_the_last_that_is_taken_stands_beside_the_first_that_is_refused(
    read, taken, value, refused, message
):
    assert read(taken) == value
    with pytest.raises(KnowledgeError, match=message):
        read(refused)


def test_a_cell_is_as_long_and_a_list_as_many_as_they_may_be():
    assert parse_condition("> 1" + " " * (LONGEST - 3), ASH) is not None
    with pytest.raises(KnowledgeError, match="may have 1000 characters, .* has 1001"):
        parse_condition("> 1" + " " * (LONGEST - 2), ASH)
    many = [str(i) for i in range(MOST_ITEMS)]
    assert len(parse_condition("in " + ", ".join(many), ASH).spans) == MOST_ITEMS
    with pytest.raises(KnowledgeError, match="may have 100 entries"):
        parse_condition("in " + ", ".join([*many, "-1"]), ASH)
    quoted = [short("x" * n) for n in (60, 61)]
    assert [len(one) for one in quoted] == [62, 62] and quoted[1].endswith("xxx...'")


@pytest.mark.parametrize(
    ("outcome", "names", "text"),
    [
        ((0, 1), GRADES, "I, II"),
        ((0, 1, 2), GRADES, "I..III"),
        ((0, 2, 3), GRADES, "not II, V"),
        ((0, 1, 3, 4), GRADES, "not III"),
        ((0, 1, 2, 3, 4), GRADES, "all"),
        ((0, 1, 2), ("all", "b", "c"), "all..c"),
        ((1, 2), ("in a", "b", "c"), 'not "in a"'),
        ((2,), GRADES, "III"),
        ((0, 1, 2), ("a..b", "c", "d", "e"), "not e"),
    ],
)
def test_an_outcome_is_written_in_the_shortest_way(outcome, names, text):
    assert format_outcome(outcome, names, "range") == text
    assert parse_outcome(text, names, "range") == outcome


@pytest.mark.parametrize(
    "text",
    ["> 12", ">= 12", "< 12", "<= 12", "= 3", "[8..12)", "(8..12]", "in 3, 5", "in <= 0, > 0",
     "in < 3, > 3", "in [1..2], 5, > 9"],
)  # fmt: skip
def test_a_cell_in_its_own_words_is_written_as_it_was(text):
    assert format_condition(parse_condition(text, ASH), ASH) == text


def test_even_edges_and_the_pieces_of_a_line_are_those_of_a_ruler():
    assert even_edges(1, 3, 4) == (1.0, 1.5, 2.0, 2.5, 3.0)
    found = cut_line([2, math.inf, 1, 2]).tolist()
    assert found == [[-math.inf, 1], [1, 1], [1, 2], [2, 2], [2, math.inf]]
