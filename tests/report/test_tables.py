"""Tables by hand."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore.look.markdown import markdown
from fedlore.report import tables

from .rows import row, table


def texts(found, title, line):
    """The cells of one line of the first table with this in its title."""
    one = next(t for t in found if title in t.title)
    return [cell.text for cell in next(r for r in one.body if r[0].text == line)]


def test_accuracy_has_clients_mean_interval_and_the_papers_mean():
    found = tables(table())
    assert found[0].head == ("approach", "model", "a", "b", "mean", "the paper's mean")
    # ML: 0.50 and 0.51 at a, so the mean is 50.5 and half the interval 12.706 * 0.5 = 6.4
    assert texts(found, "Test accuracy", "ML") == [
        *("ML", "own", "50.5 ± 6.4", "60.5 ± 6.4", "55.5 ± 6.4", "77.0")
    ]
    assert texts(found, "Test accuracy", "lore")[-1] == "–"


def test_the_best_is_marked_and_so_is_what_reads_the_same():
    rows = [row("ML", ta=0.7), row("FL", ta=0.80001), row("lore", ta=0.80004)]
    body = tables(rows)[0].body
    assert [line[-1].best for line in body] == [False, True, True]
    assert not tables([row()])[0].body[0][-1].best  # alone, nobody is best


def test_no_violation_is_an_exact_zero():
    found = tables(table())
    assert texts(found, "POV", "lore") == ["lore", "0", "0", "0"]
    assert texts(found, "POV", "FL") == ["FL", "10.0 ± 0.0", "10.0 ± 0.0", "10.0 ± 0.0"]
    rare = tables([row(pov=0.0001)])
    assert texts(rare, "POV", "FL") == ["FL", "0.0", "0.0"]
    assert [t.title for t in tables([row()])] == ["Test accuracy (TA), %"]  # no range, no POV


def test_differences_are_read_in_words():
    rows = [
        row(name, seed=s, ta=ta + wobble * s)
        for name, ta, wobble in (("lore", 0.5, 0.02), ("ML", 0.4, 0.02), ("FL", 0.5, 0.0))
        for s in range(3)
    ]
    found = tables(rows)
    assert texts(found, "lore minus", "ML") == [
        *("ML", "42.0", "+10.0", "+10.0 to +10.0", "lore is better")
    ]
    assert texts(found, "lore minus", "FL")[-1] == "may be chance"
    assert not any("minus" in t.title for t in tables([row("lore"), row("FL")]))  # one seed


def test_the_papers_numbers_stand_beside_its_own_data_only():
    assert texts(tables(table()), "paper's own", "FLwKM") == [
        *("FLwKM", "92", "71", "93", "79", "94", "85.8", "0")
    ]
    assert texts(tables(table(dataset="fmnist")), "paper's own", "ML")[-1] == "–"
    for other in ({"dataset": "coke"}, {"protocol": "mine"}):
        found = tables(table(**other))
        assert not any("paper" in name for t in found for name in (t.title, *t.head))
    honest = tables(table(kind="conformal99"))
    assert honest[0].head[-1] == "the paper's mean (oracle ranges)"


def test_shares_have_their_table_beside_the_papers():
    rows = [r for s in (0.01, 0.3) for r in table(share=s) if r["approach"] == "FLwKM"]
    found = tables(rows)
    shares = next(t for t in found if "by share" in t.title)
    assert [(line[1].text, line[-1].text) for line in shares.body] == [
        *(("1 %", "85.8"), ("30 %", "92.6"))
    ]


def test_the_papers_mean_stands_at_its_own_trust_only():
    rows = [r for t in (0.0, 0.3) for r in table(trust=t) if r["approach"] == "FLwKM"]
    assert [line[-1].text for line in tables(rows)[0].body] == ["–", "85.8"]


@pytest.mark.parametrize(
    ("given_row", "words"),
    [
        ({"range": "oracle"}, "built from its true label"),
        ({"range": "conformal95"}, "Conformal ranges at 95 %"),
        ({"dataset": "coke"}, "no plant measured any of this"),
        ({"dataset": "simulated ovens"}, "no plant measured any of this"),
        ({"abstained": 0.25}, "gave no answer on 25.0 % of rows"),
        ({"coverage": 0.989, "width": 2.5}, "98.9 % of the test rows and allow 2.5 classes"),
    ],
)
def test_a_table_that_travels_alone_carries_its_warning(given_row, words):
    assert words in " ".join(tables([row(**given_row)])[0].notes)
    assert words not in " ".join(tables([row(range="expert")])[0].notes)


def test_an_incomplete_table_says_so():
    assert "Incomplete: 1 scores are missing" in " ".join(tables(table()[:-1])[0].notes)


def test_several_cases_are_told_apart_by_their_titles():
    titles = [t.title for t in tables(table() + table(kind="conformal95"))]
    assert sum(t.startswith("Covertype · fair protocol · oracle ranges: ") for t in titles) == 4
    assert sum("conformal ranges at 95 %: " in t for t in titles) == 3


@given(st.text(), st.text())
def test_markdown_keeps_its_columns_whatever_the_names(approach, client):
    text = markdown(tables([row(approach or "x", client or "y")]))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 3 and text.startswith("### Test accuracy")
    bars = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines]
    assert bars == [5, 5, 5]


def test_markdown_takes_names_literally():
    text = markdown(tables([row("<script>*x*", "a|b")]))
    assert r"\<script\>\*x\*" in text and r"a\|b" in text
