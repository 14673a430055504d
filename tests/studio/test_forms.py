"""Everything that is no table is written by forms: shapes, trust by region, soft rules, models."""

import pytest
import torch

from fedlore.knowledge.findings.checkup import check_file
from fedlore.studio import make_studio
from fedlore.studio.book import write_book
from fedlore.studio.checks import show_workspace
from fedlore.studio.edits import edit_toml
from fedlore.studio.verdict import judge_row

from ..bundle.serve.asking import ask
from .sites import TOML as TABLES
from .sites import desk

TOML = """classes = ["A", "B", "C"]
[trust]
value = 0.2
[[trust.regions]]
where = "mine != 'far'"
trust = 0.8
[[features]]
name = "ash"
low = 0
high = 40
[[features]]
name = "mine"
levels = ["own", "far"]
[[predict.sources]]
formula = "ash"
edges = [10, 20]
"""
FILES = {"knowledge.toml": TOML.encode()}


def test_a_tried_row_says_how_far_the_expert_is_trusted():
    near, far = (
        judge_row(check_file(FILES), torch.tensor([[5.0, mine]]), [])["why"] for mine in (0.0, 1.0)
    )
    assert "trust 0.8 here, where mine != 'far'" in near
    assert not any("here" in line for line in far)


def test_settings_and_rule_book_tell_it(tmp_path):
    told = show_workspace(desk(tmp_path, knowledge=TOML))
    assert told["settings"]["trust"]["value"] == 0.2
    assert told["regions"] == [{"where": "mine != 'far'", "trust": 0.8}]
    changed = edit_toml(TOML, ["trust", "value"], 0.4)  # what the page's field writes
    assert check_file({"knowledge.toml": changed.encode()}).knowledge.trust == 0.4
    book = write_book(FILES, "plant", tmp_path / "knowledge.toml")
    assert "0.2; 0.8 where mine != &#x27;far&#x27;" in book


@pytest.mark.parametrize(
    ("edits", "wanted"),
    [
        ([(["trust"], {"value": 0.3, "regions": [{"where": "ash > 9", "trust": 0.7}]})], 0.7),
        ([(["trust"], {"value": 0.3, "regions": [{"where": "ash > 9"}]}), (["trust"], 0.7)], None),
    ],
)
def test_trust_becomes_a_table_and_one_number_again(edits, wanted):
    """Single keys stay above the tables, and remarks where they are."""
    text = TABLES
    for path, value in edits:
        text = edit_toml(text, path, value)
    assert "# careful" in text and "# from worst to best" in text and "# physics" in text
    known = check_file({"knowledge.toml": text.encode(), **TWO}).knowledge
    assert (known.row_trust.regions[0].trust if wanted else known.row_trust) == wanted
    assert known.trust == (0.3 if wanted else 0.7) and known.schema.label == "grade"


TWO = {"predict.csv": b"ash,then\n> 14,III\n", "range.csv": b"ash,then\n> 12,III..II\n"}


def test_regions_in_a_list_on_one_line_can_be_added_to():
    text = '[trust]\nvalue = 0.2\nregions = [{where = "ash > 9"}]\n'
    assert edit_toml(text, ["trust", "regions", 1], {"where": "ash < 5", "trust": 0.5}).endswith(
        'regions = [{where = "ash > 9"}, {where = "ash < 5", trust = 0.5}]\n'
    )


def test_the_rows_show_what_a_feature_does(tmp_path):
    """Twice forty rows: the mean grade falls with ash, and a fit says so with the seam equal."""
    rows = "ash,seam,grade\n" + "".join(
        f"{5 + i / 4},{'AB'[i % 2]},{['I', 'II', 'III'][min(i // 14, 2)]}\n" for i in range(40)
    )
    app = make_studio(desk(tmp_path, train=rows))
    said = ask(app, "POST", "/api/effect", json={"feature": "ash"}).json()
    means = [point["mean"] for point in said["points"]]
    assert len(means) == 8 and means == sorted(means, reverse=True)
    (fit,) = said["fits"]
    assert said["rows"] == 40 and fit["slope"] < -3 * fit["error"]
    some = ask(app, "POST", "/api/effect", json={"feature": "ash", "where": "ash > 10"}).json()
    assert some["rows"] == 19
    arch = {"feature": "ash", "effect": "arch", "turns_at": 10.0}
    left, right = ask(app, "POST", "/api/effect", json=arch).json()["fits"]
    assert (left["sign"], left["side"], right["sign"], right["turn"]) == (1, "<=", -1, 10.0)
    assert right["slope"] < 0  # of the right side alone
    open_ = arch | {"turns_at": None}  # the rows fall from the first on: no rise before a turn
    left, right = ask(app, "POST", "/api/effect", json=open_).json()["fits"]
    assert left["slope"] is None and 5 <= right["turn"] < 6 and right["slope"] < 0
    (bend,) = ask(
        app, "POST", "/api/effect", json=arch | {"effect": "concave", "turns_at": None}
    ).json()["fits"]
    assert (bend["sign"], bend["side"]) == (-1, "") and bend["error"] > 0  # of the square
    for wrong in (
        {"feature": "seam"},
        {"feature": "ash", "where": "ash >"},
        {"feature": "x"},
        arch | {"turns_at": [12.0, 9.0]},
        arch | {"effect": "raises"},
        arch | {"turns_at": "ten"},
    ):
        assert ask(app, "POST", "/api/effect", json=wrong).status_code == 422
