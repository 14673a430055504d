"""Reports show whether probabilities mean what they say, and what is not known is called so."""

import pytest

from fedlore.report.benefit import benefit_page
from fedlore.report.reliability import coverages_of, diagrams_of, probability_table
from fedlore.report.write import write_report

from .rows import row
from .test_benefit import told

SURE = "0.5000 0.5000 100; 0.9000 0.6000 100"  # 30 points too sure in one half: 15 % in all


def test_the_error_is_of_all_clients_together_and_the_best_is_marked():
    rows = [
        row("lore", "a", diagram="0.5000 0.4000 100", nll=1.0, brier=0.5),
        row("lore", "b", diagram="0.5000 0.6000 100", nll=2.0, brier=0.5),
        row("FL", "a", diagram=SURE, nll=3.0, brier=0.6),
        row("P-KM", "a"),
    ]
    (table,) = probability_table(rows)
    cells = {line[0].text: [cell.text for cell in line[1:]] for line in table.body}
    assert cells["P-KM"] == ["not known", "–", "–", "–"]
    assert cells["FL"][0] == "15.0" and cells["FL"][2:] == ["3.000", "0.600"]
    assert cells["lore"][2:] == ["1.500", "0.500"]
    low, high = (float(end) for end in cells["FL"][1].split(" to "))
    assert 5 < low < 15 < high < 25
    assert probability_table([row("FL")]) == []


def test_bins_of_equal_confidence_cancel_only_where_they_merge():
    rows = [row("lore", "a", diagram="0.5 0.4 100"), row("lore", "b", diagram="0.5 0.6 100")]
    assert [part.rows for part in diagrams_of(rows)["lore"]] == [100, 100]  # half the mass each


def test_the_report_draws_the_diagram_and_keeps_what_rows_say_as_text(tmp_path):
    rows = [row(name, "a", diagram=SURE, nll=1.0, brier=0.5) for name in ("FL", "lore<i>")]
    page = write_report(rows, tmp_path, title="t", facts={}).read_text()
    assert "How sure, and how often right" in page and "calibration error" in page
    assert "<i>" not in page.replace("<i></i>", "")
    assert (tmp_path / "plots" / "results-reliability.svg").exists()
    assert "Do probabilities mean what they say" in (tmp_path / "tables.md").read_text()


def test_of_a_number_intervals_are_held_against_their_levels(tmp_path):
    rows = [
        {"approach": "lore", "client": c, "rmse": 1.0, "diagram": f"0.5 {a} 10; 0.9 {b} 10"}
        for c, a, b in (("a", 0.4, 0.8), ("b", 0.6, 1.0))
    ]
    (half, most) = coverages_of(rows)["lore"]
    assert (half.right, most.right, half.rows) == (pytest.approx(0.5), pytest.approx(0.9), 20)
    page = write_report(rows, tmp_path, title="t", facts={}, unit="t").read_text()
    assert "90 % promised" in page and (tmp_path / "plots" / "coverage.svg").exists()


@pytest.mark.parametrize("measure", ["accuracy", "rmse"])
def test_a_sites_page_shows_its_own_diagram_and_one_of_before_has_none(measure):
    parts = [
        {"confidence": 0.5, "right": 0.4, "rows": 20},
        {"confidence": 0.9, "right": 0.9, "rows": 20},
    ]
    scores = {"ece": 0.05, "ece low": 0.01, "ece high": 0.1, "nll": 1.2, "brier": 0.6}
    page = benefit_page(told(measure) | {"diagram": parts, "probabilities": scores})
    words = "5.0 % (1.0 to 10.0)" if measure == "accuracy" else "90 %"
    assert words in page and "<svg" in page
    assert "<svg" not in benefit_page(told(measure))
