"""A site's private page says what each way is worth, and escapes what it is told."""

import json

import pytest

from fedlore.errors import FedloreError
from fedlore.report.benefit import benefit_page, write_benefit


def told(measure: str = "accuracy") -> dict:
    line = {"low": 0.4, "high": 0.6}
    return {
        "site": "<b>plant</b>",
        "measure": measure,
        "rows": 40,
        "lines": [
            {"name": "local best", "value": 0.45, **line},
            {"name": "network", "value": 0.5, **line},
            {"name": "mixture", "value": 0.55, **line},
        ],
        "weights": {"network": 0.6, "ridge": 0.4},
        "costs": {"network": 0.05},
        "gain": {"name": "gain", "value": 0.1, "low": 0.0, "high": 0.2},
        "sentence": "said when it was measured, in the language of that day",
    }


def test_the_page_has_every_way_with_its_interval_and_every_member_with_its_cost():
    html = benefit_page(told())
    assert (
        "Taking part probably pays for this site, but with too few rows to be sure" in html
        and "<b>plant" not in html
    )
    assert "<td>55.0</td>" in html and "40.0 to 60.0" in html
    assert "federation with knowledge" in html and "+5.0" in html and "–" in html


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ("accuracy", "best model is right on 45.0 % of its rows; with the federation 55.0 %."),
        ("rmse", "best model misses by 0.45 (RMSE); with the federation by 0.55."),
    ],
)
def test_it_begins_with_the_answer_and_marks_nobody_among_ties(measure, said):
    html = benefit_page(told(measure))
    assert said in html and html.index(said) < html.index("<table>")
    assert 'class="best"' not in html
    # the gain of 0.1 has an interval of ±0.1: 5 % more than 40 rows
    assert "about 42 rows like these would settle it" in html
    assert "without federation with knowledge it would be" in html


def test_columns_that_a_site_may_lack_stand_with_what_they_are_worth_here():
    assert "Columns that a site may lack" not in benefit_page(told())
    one = {"name": "<i>logMF", "value": 0.05, "low": -0.01, "high": 0.11}
    html = benefit_page(told() | {"columns": [one]})
    assert "Columns that a site may lack" in html and "<i>" not in html
    assert "+5.0" in html and "-1.0 to +11.0" in html and "worth of a column" in html


def test_the_page_stands_beside_its_table_and_is_its_owners(tmp_path):
    path = tmp_path / "benefit.json"
    path.write_text(json.dumps(told()))
    page = write_benefit(path)
    assert page == tmp_path / "benefit.html" and page.stat().st_mode & 0o077 == 0
    path.write_text("{}")
    with pytest.raises(FedloreError, match="is not a table of a site"):
        write_benefit(path)
