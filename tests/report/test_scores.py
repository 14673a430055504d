"""Rows at the door of a report."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore import FedloreError
from fedlore.report.panels import by_convention, plain_text, read_scores

from .rows import row


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"ta": 85.8}, r"row 2: ta must lie in \[0, 1\], got 85.8"),
        ({"ta": math.nan}, "ta must lie in"),
        ({"ta": None}, "'ta' is missing"),
        ({"approach": None}, "'approach' is missing"),
        ({"pov": -0.1}, "pov must lie in"),
        ({"pov": True}, "pov must lie in"),
        ({"share": 30}, r"share must lie in \[0, 1\], got 30"),
        ({"trust": 1.3}, "trust must lie in"),
        ({"width": math.inf, "coverage": 2}, "coverage must lie in"),
        ({"seed": "0"}, "seed must be a whole number, got '0'"),
        ({"seed": True}, "seed must be a whole number"),
    ],
)
def test_a_row_that_cannot_be_is_refused(bad, message):
    with pytest.raises(FedloreError, match=message):
        read_scores([row(), row() | bad])


def test_no_rows_make_no_report():
    with pytest.raises(FedloreError, match="at least one row"):
        read_scores([])


def test_a_later_row_replaces_an_earlier_one_of_the_same_cell():
    assert [s.ta for s in read_scores([row(ta=0.1), row(ta=0.2), row(seed=1, ta=0.3)])] == [
        0.2,
        0.3,
    ]


def test_a_trust_in_words_is_no_number_to_plot():
    assert read_scores([row(trust="auto")])[0].trust is None


def test_approaches_keep_their_order_and_strangers_come_last():
    assert by_convention(["new", "lore", "ML", "lore"]) == ["ML", "lore", "new"]


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_written(text):
    shown = plain_text(text)
    shown.encode("utf-8")
    assert len(shown.splitlines()) <= 1


def test_plain_text_stays_what_it_is():
    assert plain_text("焦化厂 λ=0.3 & co") == "焦化厂 λ=0.3 & co"
    assert plain_text("a\x00b\ud800\u2028c\u202ed") == "a b? c d"
