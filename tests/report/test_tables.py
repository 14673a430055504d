"""Rows as scores, panels and tables: what is counted, paired, marked and said."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore import FedloreError
from fedlore.look.tables import markdown
from fedlore.report import tables
from fedlore.report.panels import (
    by_convention,
    cases,
    label,
    panel_margins,
    plain_text,
    read_scores,
)

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
        *("ML", "local", "50.5 ± 6.4", "60.5 ± 6.4", "55.5 ± 6.4", "77.0")
    ]
    assert texts(found, "Test accuracy", "lore")[-1] == "–"


@pytest.mark.parametrize(("ahead", "marked"), [(0.1, [False, False, True]), (0.0, [False] * 3)])
def test_the_best_is_marked_only_where_it_can_be_told_from_the_others(ahead, marked):
    scores = {"ML": 0.7, "FL": 0.8, "lore": 0.8 + ahead}
    rows = [row(name, seed=s, ta=ta + 0.01 * s) for name, ta in scores.items() for s in range(3)]
    assert [line[-1].best for line in tables(rows)[0].body] == marked
    one_seed = [row for row in rows if row["seed"] == 0]  # of one site: nothing can be told
    assert not any(line[-1].best for line in tables(one_seed)[0].body)
    assert not tables([row()])[0].body[0][-1].best  # alone, nobody is best


def test_no_violation_is_an_exact_zero():
    found = tables(table())
    assert texts(found, "Predictions outside", "lore") == ["lore", "0", "0", "0"]
    assert texts(found, "Predictions outside", "FL") == [
        "FL",
        "10.0 ± 0.0",
        "10.0 ± 0.0",
        "10.0 ± 0.0",
    ]
    assert texts(tables([row(pov=0.0001)]), "Predictions outside", "FL") == ["FL", "0.0", "0.0"]
    assert [t.title for t in tables([row()])] == ["Test accuracy, %"]  # no range, no such table


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
    assert tables(table(kind="conformal99"))[0].head[-1] == "the paper's mean (oracle ranges)"


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


def case_of(rows):
    (case,) = cases(read_scores(rows))
    return case


def test_a_mean_counts_only_seeds_that_have_every_client():
    rows = [row(client="a", ta=0.2), row(client="b", ta=0.4), row(client="a", seed=1, ta=0.9)]
    (line,) = label(read_scores(rows))
    assert line.seeds("ta", ["a", "b"]) == {0: pytest.approx(0.3)}
    assert line.seeds("ta", ["a"]) == {0: 0.2, 1: 0.9}
    assert line.interval("pov", ["a"]) is None


def test_an_interrupted_run_is_noticed():
    rows = table()
    (panel,) = case_of(rows).panels()
    assert panel.missing == 0
    (panel,) = case_of(rows[:-3]).panels()
    assert panel.missing == 3


def test_differences_are_paired_by_the_seeds_that_both_have():
    ours = [row("lore", seed=s, ta=t) for s, t in ((0, 0.5), (1, 0.7), (2, 0.9))]
    theirs = [row("FL", seed=s, ta=t) for s, t in ((1, 0.6), (2, 0.7))]
    (panel,) = case_of(ours + theirs).panels()
    ((line, their, gap),) = panel_margins(panel)
    assert line.approach == "FL" and their.mean == pytest.approx(0.65)
    assert gap.mean == pytest.approx(0.15)  # (0.1 + 0.2) / 2


def test_a_varied_trust_makes_lines_and_a_private_one_does_not():
    varied = [row(trust=t, ta=0.5 + t) for t in (0.0, 0.3)]
    assert [l.label for l in label(read_scores(varied))] == ["FL, λ = 0", "FL, λ = 0.3"]
    private = [row(client="a", trust=0.1), row(client="b", trust=0.4)]
    assert [l.label for l in label(read_scores(private))] == ["FL"]


def test_two_models_of_one_approach_are_two_lines():
    rows = [row(model="shared"), row(model="tuned")]
    assert [l.label for l in label(read_scores(rows))] == ["FL, shared", "FL, tuned"]


def test_what_needs_no_range_stands_beside_every_range():
    rows = [row("ML", range="none"), row("lore", range="oracle"), row("lore", range="conformal95")]
    found = cases(read_scores(rows))
    assert [case.range for case in found] == ["oracle", "conformal95"]
    assert all([line.approach for line in label(case.scores)] == ["ML", "lore"] for case in found)


def test_a_range_of_none_alone_is_a_case():
    assert case_of([row(range="none")]).range == "none"


def test_shares_are_compared_apart_and_swept_together():
    rows = table(share=0.01) + [r for r in table(share=0.3) if r["approach"] == "FLwKM"]
    case = case_of(rows)
    assert [panel.share for panel in case.panels()] == [0.01]  # one line alone compares nothing
    ((low, high),) = case.swept("share")
    assert (low.label, high.label) == ("FLwKM, 1 % of the rows", "FLwKM, 30 % of the rows")
    assert case.swept("trust") == []


def test_the_reference_is_lore_then_the_papers_method_then_nobody():
    (panel,) = case_of(table()).panels()
    assert panel.reference.approach == "lore"
    (panel,) = case_of([r for r in table() if r["approach"] != "lore"]).panels()
    assert panel.reference.approach == "FLwKM"
    (panel,) = case_of([row("ML"), row("FL")]).panels()
    assert panel.reference is None and panel_margins(panel) == []
