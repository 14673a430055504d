"""The site's model under other rules and another λ; numbers against data; forms that measure."""

import math

import pytest
import torch

from fedlore import Knowledge, Personal, bundle
from fedlore.bundle.update import update_bundle
from fedlore.core.nets import mlp
from fedlore.data import read_table
from fedlore.errors import KnowledgeError
from fedlore.studio import Workspace, make_studio
from fedlore.studio.checks import judge
from fedlore.studio.compare import compare_answers
from fedlore.studio.draft import find_workplace
from fedlore.studio.site_model import TRUSTS, draw_trust, list_moves

from ..bundle.serve.asking import ask
from .sites import FILES, PREDICT, ROWS, desk, site

NUMBER = """trust = 0.5
[[features]]
name = "ash"
unit = "%"
low = 5
high = 16
[target]
name = "csr"
unit = "%"
lower = 0
upper = 100
bins = 20
[[predict.sources]]
formula = "90 - 2 * ash"
[[range.sources]]
lower = "60 - 2 * ash"
upper = "99 - ash"
"""
MEASURED = "ash,csr\n6,77\n8,74\n10,69\n12,90\n14,61\n15,\n"


def lore(folder, name="plant.lore"):
    """The site's folder with a bundle of a network that nobody trained."""
    known = Knowledge.read(folder / "knowledge.toml")
    model = Personal(mlp(2, 3, hidden=(4,), seed=0), known)
    made = bundle.bundle_of(model, "plant", schema=known.schema)
    bundle.write_bundle(made, folder / name)
    return made


def test_the_curve_over_trust_is_what_update_would_score(tmp_path):
    made = lore(site(tmp_path))
    app = make_studio(desk(tmp_path))
    said = ask(app, "POST", "/api/trust", json={}).json()
    rows = read_table(tmp_path / "train.csv", made.schema, label="grade")
    for place in (0, 5, 20):
        right = update_bundle(made, trust=said["trust"][place]).personal.predict(rows.x) == rows.y
        assert said["scores"][place] == pytest.approx(float(right.double().mean()))
    assert (said["score"], said["rows"], said["now"]) == ("accuracy", 6, 0.3)
    assert said["scores"][TRUSTS.index(said["best"])] == max(said["scores"])


def test_the_curve_leaves_out_rows_that_rules_contradict(tmp_path):
    made = lore(site(tmp_path))
    clash = FILES["range.csv"] + b"> 14,I\n"
    checkup = judge({**FILES, "range.csv": clash})
    rows = read_table(tmp_path / "train.csv", made.schema, label="grade")
    assert draw_trust(made, checkup, rows)["rows"] == 5


def test_without_a_model_there_is_a_sentence(tmp_path):
    answer = ask(make_studio(desk(tmp_path)), "POST", "/api/trust", json={})
    assert answer.status_code == 422 and "no model in this folder" in answer.json()["error"]


def test_predictions_that_move_are_told_row_by_row(tmp_path):
    made = lore(site(tmp_path, knowledge=FILES["knowledge.toml"].decode().replace("0.3", "1.0")))
    old = {**FILES, "knowledge.toml": (tmp_path / "knowledge.toml").read_bytes()}
    new = {**old, "predict.csv": PREDICT.replace("<= 14,C,II", "<= 14,C,III").encode()}
    x = torch.tensor([[15.0, 0.0], [10.0, 2.0], [7.0, 1.0]])
    told = list_moves(made, judge(old), judge(new), x)
    assert told == {"all": 3, "moved": 1, "rows": [{"line": 3, "before": "II", "after": "III"}]}
    one = desk(tmp_path, knowledge=old["knowledge.toml"].decode())
    one.change(one.token, {"predict.csv": new["predict.csv"]}, who="", what="rules")
    asked = {"before": "saved", "after": "draft"}
    said = ask(make_studio(one), "POST", "/api/compare", json=asked).json()
    assert said["model"]["rows"][0] == {"line": 3, "before": "II", "after": "III"}


def test_a_model_of_other_answers_is_told_not_asked(tmp_path):
    lore(site(tmp_path))
    four = FILES["knowledge.toml"].decode().replace('"III", "II", "I"', '"IV", "III", "II", "I"')
    answer = ask(make_studio(desk(tmp_path, knowledge=four)), "POST", "/api/trust", json={})
    assert answer.status_code == 422 and "other answers" in answer.json()["error"]


@pytest.fixture
def numbers(tmp_path):
    (tmp_path / "knowledge.toml").write_text(NUMBER)
    (tmp_path / "train.csv").write_text(MEASURED.replace("15,\n", ""))
    return tmp_path


def opened(folder):
    return Workspace(find_workplace(folder))


def test_a_number_is_held_against_rows(numbers):
    said = ask(make_studio(opened(numbers)), "POST", "/api/data", json={}).json()
    off = [77 - 78, 74 - 74, 69 - 70, 90 - 66, 61 - 62]
    assert said["rmse"] == pytest.approx(math.sqrt(sum(o * o for o in off) / 5))
    assert [one["line"] for one in said["outside"]] == [5] and said["outside"][0]["label"] == 90
    assert (said["number"], said["spoken"], said["silent"]) == (True, 5, 0)
    assert "for classes" in ask(make_studio(opened(numbers)), "POST", "/api/suggest", json={}).text


def test_versions_about_a_number_are_compared_by_what_rose_and_fell():
    old = {"knowledge.toml": NUMBER.encode()}
    new = {"knowledge.toml": NUMBER.replace("90 - 2 * ash", "94 - 2.5 * ash").encode()}
    told = compare_answers(old, new, torch.tensor([[6.0], [8.0], [10.0]]))
    counted = {key: told["rows"][key] for key in ("all", "changed")}
    assert not told["exact"] and counted == {"all": 3, "changed": 2}  # they cross at 8
    rising = [r for r in told["regions"] if r["example"]["ash"] < 8]
    falling = [r for r in told["regions"] if r["example"]["ash"] > 8]
    for region, sign in [*((r, 1) for r in rising), *((r, -1) for r in falling)]:
        before, after = (float(region[key].split(" ")[0]) for key in ("before", "after"))
        assert (after - before) * sign > 0
    assert rising and falling and compare_answers(old, old)["changed"] == 0
    other = {"knowledge.toml": NUMBER.replace("upper = 100", "upper = 90").encode()}
    with pytest.raises(KnowledgeError, match="other features or answers"):
        compare_answers(old, other)


def test_a_curve_and_a_map_of_a_number(numbers):
    app = make_studio(opened(numbers))
    said = ask(app, "POST", "/api/curve", json={"row": {"ash": 10}, "features": ["ash"]}).json()
    at = said["axis"]["values"]
    assert said["expert"] == pytest.approx([90 - 2 * v for v in at], rel=1e-5)
    assert said["low"] == pytest.approx([60 - 2 * v for v in at], rel=1e-5)


def test_a_range_is_calibrated_on_the_rows_by_a_form(numbers):
    one = opened(numbers)
    asked = {"token": one.token, "who": "Ann", "alpha": 0.4}
    said = ask(make_studio(one), "POST", "/api/calibrate", json=asked).json()
    (limits, found) = said["sources"]["range"]
    assert "lower" in limits and found["conformal"]["rows"] == 5
    assert found["conformal"]["thresholds"] == [pytest.approx(1.0)]
    again = {**asked, "token": said["token"], "alpha": 0.2}
    said = ask(make_studio(one), "POST", "/api/calibrate", json=again).json()
    assert len(said["sources"]["range"]) == 2 and said["settings"]["outside"] == "widen"
    assert not [f for f in said["findings"] if f["severity"] == "error"]


def test_a_range_of_classes_is_calibrated_on_a_formula_with_doubt(tmp_path):
    soft = (
        FILES["knowledge.toml"]
        .decode()
        .replace('table = "predict.csv"', 'formula = "-ash"\nedges = [-14, -9]\nspread = 2')
    )
    one = desk(tmp_path, knowledge=soft, train=ROWS + "9,A,II\n8,A,I\n14,C,III\n" * 5)
    asked = {"token": one.token, "alpha": 0.2, "per_class": False}
    said = ask(make_studio(one), "POST", "/api/calibrate", json=asked).json()
    assert said["settings"]["conflict"] == "restrict"
    assert "conformal" in said["sources"]["range"][1]
    assert "# physics" in one.members["knowledge.toml"].decode()  # remarks survive
    refused = ask(make_studio(one), "POST", "/api/calibrate", json={**asked, "alpha": 1.5})
    assert refused.status_code == 422


def test_two_experts_are_not_calibrated_together(tmp_path):
    two = (
        FILES["knowledge.toml"].decode() + '[[predict.sources]]\nformula = "ash"\nedges = [1, 2]\n'
    )
    one = desk(tmp_path, knowledge=two)
    answer = ask(
        make_studio(one), "POST", "/api/calibrate", json={"token": one.token, "alpha": 0.1}
    )
    assert answer.status_code == 422 and "there are 2" in answer.json()["error"]


@pytest.mark.slow  # matplotlib alone takes seconds to load
def test_the_rule_book_draws_formulas(numbers):
    pytest.importorskip("matplotlib")
    html = ask(make_studio(opened(numbers)), "GET", "/api/book").json()["html"]
    assert "<svg" in html and "Along ash" in html and "90 - 2 * ash" in html
