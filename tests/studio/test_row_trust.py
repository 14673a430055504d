"""The studio says how far the expert is trusted in the row that is tried, and in the settings."""

import torch

from fedlore.knowledge.findings.checkup import check_file
from fedlore.studio.book import write_book
from fedlore.studio.checks import show_workspace
from fedlore.studio.edits import edit_toml
from fedlore.studio.verdict import judge_row

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
    assert told["settings"]["rows"] == "0.8 where mine != 'far'"
    changed = edit_toml(TOML, ["trust", "value"], 0.4)  # what the page's field writes
    assert check_file({"knowledge.toml": changed.encode()}).knowledge.trust == 0.4
    book = write_book(FILES, "plant", tmp_path / "knowledge.toml")
    assert "0.2; 0.8 where mine != &#x27;far&#x27;" in book
