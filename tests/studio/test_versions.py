"""Each save is a version, and two of them are compared by what they answer."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.errors import FedloreError, KnowledgeError
from fedlore.studio import make_studio
from fedlore.studio.answers import answer_draft
from fedlore.studio.checks import judge
from fedlore.studio.compare import compare_answers
from fedlore.studio.versions import keep_version, list_versions, named_files, version_files

from ..bundle.serve.asking import ask
from .sites import FILES, PREDICT, desk, place


def changed(old, new):
    """The files with another prediction table."""
    assert old in PREDICT
    return {**FILES, "predict.csv": PREDICT.replace(old, new).encode()}


def test_a_moved_threshold_is_a_region_with_its_answers_and_a_row():
    told = compare_answers(FILES, changed("> 14", "> 15"))
    assert told["exact"]
    (first,) = told["regions"]
    assert first["where"] == {"ash": "(14..15]"}
    assert (first["before"], first["after"]) == (
        "III (possible: not I)",
        "silent (possible: not I)",
    )
    assert 14 < first["example"]["ash"] <= 15
    assert compare_answers(FILES, FILES)["changed"] == 0


def test_a_bracket_that_closes_is_one_number():
    told = compare_answers(FILES, changed("> 14", ">= 14"))
    assert {r["where"]["ash"] for r in told["regions"]} == {"= 14"}


def test_own_rows_that_change_are_counted():
    rows = torch.tensor([[14.5, 0.0], [15.5, 0.0], [10.0, 0.0]])
    told = compare_answers(FILES, changed("> 14", "> 15"), rows)["rows"]
    assert (told["all"], told["changed"]) == (3, 1)
    assert [(one["line"], one["before"][:3], one["after"][:6]) for one in told["rows"]] == [
        (2, "III", "silent")
    ]


def test_another_formula_is_told_by_sampled_regions_and_the_rows_that_change():
    """One formula differs: 8 of 120 rows change, and no region claims to be everywhere."""
    head = FILES["knowledge.toml"].split(b"[[predict.sources]]")[0]
    text = head + b'[[predict.sources]]\nformula = "-ash"\nedges = [EDGE, -8]\n'
    before, after = (
        {"knowledge.toml": text.replace(b"EDGE", edge)} for edge in (b"-13.4", b"-12.6")
    )
    ash = torch.linspace(5.0, 16.0, 120)
    told = compare_answers(before, after, torch.stack([ash, torch.zeros(120)], 1))
    moved = [i + 2 for i, a in enumerate(ash.tolist()) if 12.6 < a < 13.4]
    assert told["rows"]["changed"] == len(moved) == 8
    assert [one["line"] for one in told["rows"]["rows"]] == moved
    assert not told["exact"] and all(region["where"] for region in told["regions"])


def test_a_rule_that_never_spoke_changes_nothing():
    more = {**FILES, "predict.csv": (PREDICT + "> 15,A,II\n").encode()}
    assert compare_answers(FILES, more)["changed"] == 0


def test_other_answers_are_not_compared():
    other = FILES["knowledge.toml"].replace(b'"III", "II", "I"', b'"III", "II", "I", "0"')
    with pytest.raises(KnowledgeError, match="other features or answers"):
        compare_answers(FILES, {**FILES, "knowledge.toml": other})


_CUT = st.sampled_from(["> 6", ">= 8", "< 9", "<= 12", "[8..12)", "(6..14]", ""])
_RULES = st.lists(
    st.tuples(_CUT, st.sampled_from(["", "A", "not B"]), st.sampled_from(["I", "II", "III"])),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@given(_RULES, _RULES, st.floats(5, 16, width=32), st.integers(0, 2))
def test_no_row_changes_outside_the_regions_that_are_told(one, two, ash, seam):
    """The told regions are all there is: a row drawn at random never differs elsewhere."""
    text = [
        "ash,seam,then\n" + "".join(",".join(row) + "\n" for row in rows) for rows in (one, two)
    ]
    files = [{**FILES, "predict.csv": t.encode()} for t in text]
    if any(judge(f).knowledge is None for f in files):
        return
    told = compare_answers(*files)
    x = torch.tensor([[ash, float(seam)]])
    a, b = (answer_draft(judge(f), x) for f in files)
    differs = bool((a.expert != b.expert).any() or (a.allowed != b.allowed).any())
    assert told["changed"] > 0 or not differs
    for region in told["regions"]:
        row = torch.tensor(
            [[region["example"]["ash"], float("ABC".index(region["example"]["seam"]))]]
        )
        a, b = (answer_draft(judge(f), row) for f in files)
        assert bool((a.expert != b.expert).any() or (a.allowed != b.allowed).any())


def test_saves_are_versions_with_author_and_reason(tmp_path):
    app = make_studio(desk(tmp_path))

    def save(cut, **said):
        token = ask(app, "GET", "/api/desk").json()["token"]
        table = {"grid": 0, "header": ["ash [%]", "then"], "rows": [[cut, "III"]]}
        kept = ask(app, "PUT", "/api/table", json={"token": token, **table}).json()
        return ask(app, "POST", "/api/save", json={"token": kept["token"], **said})

    save("> 13", who="Ann", why="new seam")
    save("> 15", who="Bob", why="too strict")
    found = ask(app, "GET", "/api/versions").json()
    assert [(v["number"], v["who"], v["why"]) for v in found] == [
        (1, "", "as it was found"), (2, "Ann", "new seam"), (3, "Bob", "too strict")]  # fmt: skip
    assert len({v["fingerprint"] for v in found}) == 3
    told = ask(app, "POST", "/api/compare", json={"before": "2", "after": "3"}).json()
    assert told["regions"][0]["where"] == {"ash": "(13..15]"}
    assert (told["rows"]["all"], told["rows"]["changed"]) == (6, 1)
    blamed = {one["file"]: one for one in ask(app, "GET", "/api/blame").json()}["predict.csv"]
    at = next(i for i, row in enumerate(blamed["rows"]) if "> 15" in row)
    column = blamed["rows"][at].index("> 15")
    assert blamed["versions"][at][column] == 3  # Bob wrote this cell, the others are as found
    blamed["versions"][at][column] = 1
    assert {number for row in blamed["versions"] for number in row} == {1}
    token = ask(app, "GET", "/api/desk").json()["token"]
    back = ask(app, "POST", "/api/restore", json={"token": token, "number": 1}).json()
    assert back["draft"] == ["predict.csv"] and len(back["grids"][0]["rows"]) == 3
    nothing = ask(app, "POST", "/api/compare", json={"before": "1", "after": "9"})
    assert nothing.status_code == 422 and "no version 9" in nothing.json()["error"]


def test_half_a_version_is_none(tmp_path):
    here = place(tmp_path)
    keep_version(here, FILES, who="Ann", why="", fingerprint="")
    (tmp_path / "studio" / "versions" / "0002" / "files").mkdir(parents=True)
    (tmp_path / "studio" / "versions" / "0003").mkdir()
    (tmp_path / "studio" / "versions" / "0003" / "version.json").write_text(
        json.dumps({"number": 7})
    )
    assert [v.number for v in list_versions(here)] == [1]
    assert version_files(here, 1) == FILES
    with pytest.raises(FedloreError, match="no version 2"):
        version_files(here, 2)


def test_only_files_that_the_knowledge_names_are_kept():
    assert named_files({**FILES, "train.csv": b"secret rows"}) == list(FILES)
    toml = b'examples = "e.csv"\n' + FILES["knowledge.toml"]
    assert named_files({**FILES, "knowledge.toml": toml, "e.csv": b""})[1] == "e.csv"


def test_the_rule_book_says_everything_and_runs_nothing(tmp_path):
    bad = "<script>alert(1)</script>"
    app = make_studio(desk(tmp_path, predict=f"ash,seam,then,note\n> 14,,III,{bad}\n"))
    html = ask(app, "GET", "/api/book").json()["html"]
    for said in (
        "Rule book: ",
        "predict.csv",
        "range.csv",
        "&gt; 14",
        "III..II",
        "nobody has signed",
    ):
        assert said in html, said
    assert "<script" not in html and "&lt;script&gt;" in html


SHAPE = b'\n[[shape.sources]]\nfeature = "ash"\neffect = "lowers"\n'


def test_a_version_that_adds_a_shape_is_no_equal_one():
    plain = {**FILES, "knowledge.toml": b"ordered = true\n" + FILES["knowledge.toml"]}
    more = {**plain, "knowledge.toml": plain["knowledge.toml"] + SHAPE}
    told = compare_answers(plain, more)
    assert told["changed"] == 0 and [one["key"] for one in told["settings"]] == ["shape"]


def test_regions_of_a_sample_are_told_by_the_box_around_them():
    """Twelve features with formulas: nobody can ask every cell, and no change is everywhere."""
    names = [f"f{i}" for i in range(12)]
    head = 'classes = ["III", "II", "I"]\n' + "".join(
        f'[[features]]\nname = "{name}"\nlow = 0\nhigh = 10\n' for name in names
    )
    text = head + '[[predict.sources]]\nformula = "{}"\nedges = [20, 40]\n'
    formula = " + ".join(names)
    before, after = (
        {"knowledge.toml": text.format(one).encode()}
        for one in (formula, f"{formula} + where(f0 > 8, 20, 0)")
    )
    told = compare_answers(before, after)
    assert not told["exact"] and told["regions"]
    assert all(region["where"]["f0"].endswith("..10]") for region in told["regions"])
    assert sum(region["cells"] for region in told["regions"]) == told["changed"] < told["cells"]
