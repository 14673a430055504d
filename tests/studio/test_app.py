"""What the page asks and is answered: guards, changes, findings at their cells, bad input."""

import pytest

from fedlore.studio import make_studio

from ..bundle.serve.asking import ask
from .sites import FILES, PREDICT, TOML, desk

TOKEN = "a-token-of-some-length"
HEAD = ["ash [%]", "seam", "then"]
ROWS = [["> 14", "", "III"], ["<= 14", "C", "II"], ["< 9", "", "I"]]


@pytest.fixture
def app(tmp_path):
    return make_studio(desk(tmp_path))


def whole(app):
    return ask(app, "GET", "/api/desk").json()


def put(app, rows, *, token=None, **more):
    said = {"token": token or whole(app)["token"], "grid": 0, "header": HEAD, "rows": rows, **more}
    return ask(app, "PUT", "/api/table", json=said)


def test_the_page_comes_under_a_strict_policy_and_names_nothing_from_elsewhere(app):
    for path in ("/", "/page/start.js", "/page/page.css", "/page/theme.css"):
        answer = ask(app, "GET", path)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in answer.text and "innerHTML" not in answer.text
    assert ask(app, "GET", "/page/..%2fapp.py").status_code == 404
    assert ask(app, "GET", "/page/secret").status_code == 404


def test_the_desk_tells_tables_schema_and_findings(app):
    said = whole(app)
    assert [g["file"] for g in said["grids"]] == ["predict.csv", "range.csv"]
    assert [f["name"] for f in said["schema"]["features"]] == ["ash", "seam"]
    assert said["draft"] == [] and said["data"] == "train.csv"
    assert {f["kind"] for f in said["findings"]} >= {"gap"}


def test_a_typed_fault_is_found_at_its_cell(app):
    said = put(app, [["> 14%", "", "III"], *ROWS[1:]]).json()
    assert said["draft"] == ["predict.csv"]
    (found,) = [f for f in said["findings"] if f["kind"] == "cell"]
    assert found["cell"] == {"grid": 0, "row": 0, "column": 0}
    assert "cannot read '> 14%' as a condition on 'ash'" in found["message"]


def test_a_contradiction_is_found_with_a_row_that_shows_it(app):
    said = put(app, [["> 14", "", "I"], *ROWS[1:]]).json()
    (found,) = [f for f in said["findings"] if f["kind"] == "outside-range"]
    assert found["cell"]["row"] == 0 and found["counterexample"]["ash"] > 14
    tried = ask(app, "POST", "/api/try", json={"row": found["counterexample"]}).json()
    assert tried["expert"] is None and tried["allowed"] == ["III", "II"]
    assert [r["state"] for r in tried["rules"]] == ["unheard", "limits"]
    assert tried["forbidden"] == "I" and tried["rules"][0]["because"] == "range.csv row 2"


def test_saved_files_are_what_lint_reads(app, tmp_path):
    put(app, ROWS[:2])
    said = ask(app, "POST", "/api/save", json={"token": whole(app)["token"], "who": "Ann"}).json()
    assert said["draft"] == []
    assert (tmp_path / "predict.csv").read_text() == "".join(
        line + "\n" for line in PREDICT.splitlines()[:3]
    )
    assert (tmp_path / "knowledge.toml").read_text() == TOML


def test_a_draft_can_be_discarded(app, tmp_path):
    put(app, ROWS[:1])
    ask(app, "POST", "/api/discard", json={"token": whole(app)["token"]})
    assert whole(app)["draft"] == [] and (tmp_path / "predict.csv").read_text() == PREDICT


def test_settings_change_by_key_and_a_new_table_is_named(app):
    edit = {"path": ["range", "sources", 0, "hit"], "value": "union"}
    said = {"token": whole(app)["token"], "edits": [edit]}
    assert ask(app, "PUT", "/api/document", json=said).json()["grids"][1]["hit"] == "union"
    new = {"token": whole(app)["token"], "side": "range", "file": "more.csv", "columns": ["seam"]}
    said = ask(app, "POST", "/api/table", json=new).json()
    assert said["grids"][2]["header"] == ["seam", "then"]
    assert [f["kind"] for f in said["findings"]] == ["size"]  # it has no rules yet
    new["token"] = said["token"]
    assert "there already" in ask(app, "POST", "/api/table", json=new).json()["error"]


@pytest.mark.parametrize("name", ["../x.csv", "x.toml", "a b.csv", ".csv", "x.csv\n"])
def test_a_table_is_called_like_a_file(app, name):
    new = {"token": whole(app)["token"], "side": "range", "file": name, "columns": []}
    assert ask(app, "POST", "/api/table", json=new).status_code == 422


def test_a_formula_is_marked_where_it_goes_wrong(app):
    def look(text):
        return ask(app, "POST", "/api/formula", json={"text": text}).json()

    assert look("2*ash + 1") == {"ok": True, "features": ["ash"], "low": 11.0, "high": 33.0}
    bad = look("2*ash + system(1)")
    assert (bad["ok"], bad["position"]) == (False, 8) and "unknown function" in bad["message"]
    assert look("ash + " * 5_000)["ok"] is False
    assert look("")["ok"] is False


def test_a_first_file_comes_from_rows(tmp_path):
    for name in ("knowledge.toml", "predict.csv", "range.csv"):
        (tmp_path / name).unlink(missing_ok=True)
    app = make_studio(desk(tmp_path))
    for name in FILES:
        (tmp_path / name).unlink()
    assert whole(app)["exists"] is False
    assert ask(app, "GET", "/api/columns").json() == ["ash", "seam", "grade"]
    said = {"token": whole(app)["token"], "label": "grade"}
    found = ask(app, "POST", "/api/start", json=said).json()
    assert found["schema"]["classes"] == ["I", "II", "III"] and found["draft"] == ["knowledge.toml"]
    again = ask(app, "POST", "/api/start", json={**said, "token": found["token"]})
    assert again.status_code == 422


def test_curves_maps_and_the_nearest_row(app):
    row = {"ash": 10, "seam": "A"}
    curve = ask(app, "POST", "/api/curve", json={"row": row, "features": ["ash"]}).json()
    classes = ["III", "II", "I"]
    for value, bits in zip(curve["axis"]["values"], curve["favoured"], strict=True):
        wanted = ["III"] if value > 14 else ["I"] if value < 9 else []
        assert [name for name, bit in zip(classes, bits, strict=True) if bit == "1"] == wanted
    drawn = ask(app, "POST", "/api/map", json={"row": row, "features": ["ash", "seam"]}).json()
    wide = len(drawn["across"]["values"])
    assert len(drawn["favoured"]) == 3 * wide and not any(drawn["refused"])
    assert 14.0 in drawn["across"]["edges"] and 12.0 in drawn["across"]["edges"]
    near = ask(app, "POST", "/api/nearest", json={"row": row, "wanted": "III"}).json()["change"]
    assert list(near) == ["ash"] and 14 < near["ash"] < 14.1
    near = ask(app, "POST", "/api/nearest", json={"row": row, "wanted": "II"}).json()["change"]
    assert near == {"seam": "C"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, "'ash' is missing"),
        ({"ash": "x", "seam": "A"}, "must be a number"),
        ({"ash": 1, "seam": "Z"}, "must be one of A, B, C"),
        ({"ash": 1, "seam": "A", "b": 1}, "no column 'b'"),
        ({"ash": "1e99", "seam": "A"}, "must lie within"),
    ],
)
def test_a_row_that_cannot_be_tried_is_said(app, row, said):
    answer = ask(app, "POST", "/api/try", json={"row": row})
    assert answer.status_code == 422 and said in answer.json()["error"]


def test_a_decimal_comma_is_a_point(app):
    row = {"ash": "14,5", "seam": "A"}
    assert ask(app, "POST", "/api/try", json={"row": row}).json()["expert"] == "III"


def test_a_file_that_is_none_is_a_finding_not_a_failure(tmp_path):
    app = make_studio(desk(tmp_path, knowledge="classes = ["))
    said = whole(app)
    assert "is not valid TOML" in said["fault"] and said["grids"] == []
    app = make_studio(desk(tmp_path, knowledge=TOML.replace('label = "grade"', 'lable = "grade"')))
    assert "did you mean 'label'" in whole(app)["findings"][0]["message"]


def test_only_json_of_this_host_is_taken_and_a_token_where_there_is_one(tmp_path):
    place = desk(tmp_path)
    app = make_studio(place, hosts=("127.0.0.1",))
    text = {"content": b"{}", "headers": {"content-type": "text/plain"}}
    assert ask(app, "POST", "/api/formula", **text).status_code == 415
    assert ask(app, "GET", "/api/desk", base="http://evil.example").status_code == 421
    locked = make_studio(place, token=TOKEN)
    assert ask(locked, "GET", "/api/desk").status_code == 401
    assert (
        ask(locked, "GET", "/").status_code
        == ask(locked, "GET", "/page/grid.js").status_code
        == 200
    )
    held = {"headers": {"Authorization": f"Bearer {TOKEN}"}}
    assert ask(locked, "GET", "/api/desk", **held).status_code == 200


@pytest.mark.parametrize("body", [{}, {"token": 3}, {"token": "x", "grid": -1}, [], {"extra": 1}])
def test_a_body_of_another_shape_changes_nothing(app, body):
    assert ask(app, "PUT", "/api/table", json=body).status_code == 422
    assert whole(app)["draft"] == []
