"""Examples: kept beside the rules, run by lint, told before a change that breaks one is saved."""

import pytest

from fedlore.knowledge.findings.checkup import check_file
from fedlore.studio import make_studio

from ..bundle.serve.asking import ask
from .sites import FILES, TOML, desk

NAMED = {"knowledge.toml": b'examples = "examples.csv"\n' + TOML.encode()}
HEAD = "ash [%],seam,expect,allowed,note\n"


def found(text, **files):
    """What the checkup says of some examples."""
    members = {**FILES, **NAMED, "examples.csv": (HEAD + text).encode(), **files}
    return [f for f in check_file(members).findings if f.kind == "example"]


def test_examples_that_come_out_as_expected_say_nothing():
    assert found("15,A,III,III..II,\n10,A,silent,all,\n14,C,II,,the edge\n7,B,,II..I,\n") == []


def test_each_that_comes_out_otherwise_is_named_with_its_row():
    one, two = found("15,A,II,,as in 2019\n10,A,,I,\n")
    assert (one.place.row, one.place.column, one.severity) == (2, "expect", "error")
    assert one.message == "expected II, but the expert says III (as in 2019)"
    assert one.counterexample == {"ash": 15.0, "seam": "A"}
    assert (two.place.row, two.message) == (3, "allowed should be I, but is all")


def test_a_contradiction_breaks_an_example():
    members = {"range.csv": b"ash,then\n> 12,III\n> 12,I\n"}
    (one,) = found("15,A,III,,\n", **members)
    assert "leave no class" in one.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,A,I,,\n", "'x' is not a number"),
        ("1,5,A,I,\n", "unknown level of 'seam'"),
        (",A,I,,\n", "'ash' is missing"),
        ("7,B,IV,,\n", "unknown class 'IV'"),
        ("7,B,,V..I,\n", "unknown class 'V'"),
    ],
)
def test_an_example_that_cannot_be_read_is_said(text, said):
    assert any(said in f.message for f in found(text))


def test_a_wrong_file_is_said():
    text = FILES | NAMED
    assert "which is missing" in _only({**text})[0].message
    assert (
        "did you mean 'seam'"
        in _only({**text, "examples.csv": b"ash,saem,expect\n1,A,I\n"})[0].message
    )
    assert "twice" in _only({**text, "examples.csv": b"ash,ash\n1,1\n"})[0].message


def _only(members):
    return [f for f in check_file(members).findings if f.kind == "example"]


def test_a_number_is_expected_within_little():
    toml = """examples = "examples.csv"
[target]\nlower = 0\nupper = 10\nname = "y"
[[features]]\nname = "a"\nlow = 0\nhigh = 4
[[predict.sources]]\nformula = "2*a"
[[range.sources]]\nlower = "a"\nupper = "3*a"\n"""
    rows = b"a,expect,allowed\n1,2,3\n2,4.0001,\n3,7,1\n"
    wrong = _only({"knowledge.toml": toml.encode(), "examples.csv": rows})
    assert [f.message for f in wrong] == [
        "expected 7, but the expert says 6",
        "1 should be possible, but is not",
    ]


def test_the_studio_begins_proposes_and_asks_before_it_breaks_one(tmp_path):
    app = make_studio(desk(tmp_path))

    def post(path, **said):
        token = ask(app, "GET", "/api/desk").json()["token"]
        return ask(app, "POST", path, json={"token": token, **said})

    said = post("/api/examples").json()
    assert said["grids"][2]["header"] == ["ash [%]", "seam", "expect", "allowed", "note"]
    rows = ask(app, "POST", "/api/examples/propose", json={}).json()["rows"]
    assert ["14", "A", "silent", "not I", ""] in rows
    assert ["14.1", "A", "III", "not I", ""] in rows
    table = {"grid": 2, "header": said["grids"][2]["header"], "rows": rows}
    kept = ask(app, "PUT", "/api/table", json={"token": said["token"], **table}).json()
    assert [f for f in kept["findings"] if f["kind"] == "example"] == []
    assert post("/api/save").status_code == 200
    rules = {"grid": 0, "header": ["ash [%]", "then"], "rows": [["> 15", "III"]]}
    token = ask(app, "GET", "/api/desk").json()["token"]
    broken = ask(app, "PUT", "/api/table", json={"token": token, **rules}).json()["findings"]
    assert broken[-1]["kind"] == "example" and broken[-1]["cell"]["grid"] == 2
    refused = post("/api/save")
    assert refused.status_code == 422 and "expected III" in refused.json()["error"]
    assert "> 14" in (tmp_path / "predict.csv").read_text()
    assert post("/api/save", anyway=True).status_code == 200
    assert "> 15" in (tmp_path / "predict.csv").read_text()
    assert 'examples = "examples.csv"' in (tmp_path / "knowledge.toml").read_text()


def test_a_tried_row_becomes_an_example_with_its_answer(tmp_path):
    app = make_studio(desk(tmp_path))
    said = ask(app, "POST", "/api/examples/rows", json={"rows": [{"ash": "14,5", "seam": "B"}]})
    assert said.json() == {"rows": [["14.5", "B", "III", "not I", ""]]}


def test_tables_and_examples_take_titles_of_the_data_and_blanks_that_nobody_looks_at():
    feature = '[[features]]\nname = "{}"\ncolumn = "{}"\nunit = "g/l"\nlow = 0\nhigh = 9\n'.format
    text = 'classes = ["A", "B"]\nexamples = "e.csv"\n[[predict.sources]]\ntable = "p.csv"\n'
    text += feature("acid", "Malic acid") + feature("mg", "Mg²⁺")
    files = {
        "knowledge.toml": text.encode(),
        "p.csv": b"Malic acid (g/l),then\n> 3,A\n",
        "e.csv": "Malic acid (g/l),Mg²⁺,expect\n5,,A\n,1,silent\n".encode(),
    }
    found = [(f.place.row, f.message) for f in check_file(files).findings if f.severity == "error"]
    assert found == [(3, "'acid' is missing")]  # what a rule looks at is needed
