"""Rules counted on the site's own rows, and a rule that the rows suggest."""

import random

import pytest

from fedlore.data import read_table
from fedlore.studio import make_studio
from fedlore.studio.checks import judge
from fedlore.studio.data import suggest_rule

from ..bundle.serve.asking import ask
from .sites import FILES, ROWS, desk


def test_hits_right_and_wrong_are_counted_per_rule(tmp_path):
    app = make_studio(desk(tmp_path, train=ROWS + "15,B,I\n"))
    said = ask(app, "POST", "/api/data", json={}).json()
    first = said["rules"][0]
    assert (first["rule"], first["rows"], first["correct"], first["incorrect"]) == (
        "row 2",
        2,
        1,
        1,
    )
    assert said["rows"] == 7 and said["outside_count"] == 1
    assert said["outside"] == [{"line": 8, "label": "I", "row": {"ash": 15.0, "seam": "B"}}]
    assert (said["spoken"], said["silent"], said["contradicted"]) == (5, 2, 0)


@pytest.mark.parametrize("gone", ["train.csv", None])
def test_without_rows_or_with_bad_ones_there_is_a_sentence(tmp_path, gone):
    place = desk(tmp_path, train="ash,seam,grade\n15,A,IV\n")
    if gone:
        (tmp_path / gone).unlink()
    answer = ask(make_studio(place), "POST", "/api/data", json={})
    assert answer.status_code == 422 and answer.json()["error"]


@pytest.mark.slow  # scikit-learn alone takes seconds to load
def test_a_rule_is_suggested_in_the_tables_own_words(tmp_path):
    pytest.importorskip("sklearn")
    draw = random.Random(1)
    values = [(round(draw.uniform(9.5, 13.5), 2), draw.choice("AB")) for _ in range(60)]
    lines = "".join(f"{ash},{seam},{'II' if ash > 11 else 'I'}\n" for ash, seam in values)
    app = make_studio(desk(tmp_path, train="ash,seam,grade\n" + lines))
    rule = ask(app, "POST", "/api/suggest", json={}).json()["rule"]
    assert list(rule["cells"]) == ["ash"] and rule["right"] == rule["rows"]
    sign, cut = rule["cells"]["ash"].split()
    assert abs(float(cut) - 11) < 0.5 and (sign == ">") == (rule["then"] == "II")
    assert rule["rows"] == sum((ash > float(cut)) == (sign == ">") for ash, _ in values)


def test_a_rule_that_breaks_the_experts_own_range_is_not_accepted(tmp_path):
    """The rows say III below 8 % ash, where the range allows II and I only."""
    pytest.importorskip("sklearn")
    place = desk(tmp_path, predict="ash [%],then\n> 12,III\n", train="ash,seam,grade\n" + "".join(
        f"{5 + i / 10},A,III\n{9 + i / 10},A,II\n" for i in range(20)))  # fmt: skip
    app = make_studio(place)
    only = ask(app, "POST", "/api/suggest", json={}).json()["rule"]
    assert only["then"] == "II" and only["breaks"] == ""  # the other leaf is as pure, and breaks
    wrong = {"token": place.token, "cells": {"ash": "<= 7"}, "then": "III"}
    refused = ask(app, "POST", "/api/accept", json=wrong)
    assert refused.status_code == 422 and "range.csv" in refused.json()["error"]
    good = {"token": place.token, "cells": only["cells"], "then": "II"}
    shown = ask(app, "POST", "/api/accept", json=good).json()
    assert shown["grids"][0]["rows"][-1][-1] == "II" and shown["undo"] == "'predict.csv'"
    undone = ask(app, "POST", "/api/undo", json={"token": place.token}).json()
    assert len(undone["grids"][0]["rows"]) == 1 and undone["draft"] == []


def test_soft_rules_are_counted_and_wrong_rows_open(tmp_path):
    soft = "ash [%],then,confidence\n> 12,III,90 %\n"
    app = make_studio(desk(tmp_path, predict=soft))
    said = ask(app, "POST", "/api/data", json={}).json()
    first = said["rules"][0]
    assert (first["rows"], first["incorrect"], first["confidence"]) == (2, 1, 0.9)
    wrong = ask(app, "POST", "/api/data/wrong", json={"rule": 0}).json()
    row = {"line": 5, "label": "II", "row": {"ash": 13.0, "seam": "A"}}
    assert wrong == {"count": 1, "rows": [row]}
    assert ask(app, "POST", "/api/data/wrong", json={"rule": 99}).status_code == 422


def test_where_every_row_has_a_rule_nothing_is_suggested(tmp_path):
    pytest.importorskip("sklearn")
    all_ = {**FILES, "predict.csv": b"ash,then\n,II\n"}
    checkup = judge(all_)
    (tmp_path / "rows.csv").write_text(ROWS)
    rows = read_table(tmp_path / "rows.csv", checkup.knowledge.schema, label="grade")
    assert suggest_rule(all_, checkup, rows) is None
