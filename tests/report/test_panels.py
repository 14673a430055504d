"""What stands beside what, and over which seeds."""

import pytest

from fedlore.report.panels import cases, label, panel_margins, read_scores

from .rows import row, table


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
