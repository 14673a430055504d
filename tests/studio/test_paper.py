"""knowledge.toml edited by key: values change, what people wrote around them does not."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore.errors import KnowledgeError
from fedlore.studio.edits import edit_toml

from .sites import TOML


def remarks(text):
    return [line.partition("#")[2] for line in text.splitlines() if "#" in line]


def test_remarks_survive_every_kind_of_edit():
    text = TOML
    for path, value in (
        (["trust"], 0.5),
        (["features", 0, "unit"], "g"),
        (["features", 0, "high"], None),
        (["predict", "sources", 1], {"formula": "ash", "edges": [8.0, 12.0]}),
        (["range", "combine"], "any"),
        (["card", "owner"], "Ann"),
        (["predict", "sources", 0], None),
        (["classes"], ["I", "II"]),
    ):
        text = edit_toml(text, path, value)
    assert remarks(text) == remarks(TOML)
    said = tomllib.loads(text)
    assert (said["trust"], said["card"], said["classes"]) == (0.5, {"owner": "Ann"}, ["I", "II"])
    assert said["features"][0] == {"name": "ash", "unit": "g", "low": 5}
    assert said["predict"]["sources"] == [{"formula": "ash", "edges": [8.0, 12.0]}]
    assert said["range"] == {"combine": "any", "sources": [{"table": "range.csv"}]}


def test_the_last_source_taken_away_leaves_no_empty_list():
    said = tomllib.loads(edit_toml(TOML, ["range", "sources", 0], None))
    assert "sources" not in said.get("range", {})


_NUMBER = st.floats(allow_nan=False)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(st.booleans(), st.integers(-(2**53), 2**53), _NUMBER, _TEXT, st.lists(_NUMBER))
PATHS = [["trust"], ["card", "note"], ["features", 1, "levels"], ["range", "sources", 0, "hit"]]


@given(value=VALUES, path=st.sampled_from(PATHS))
def test_the_reader_finds_what_was_put_and_nothing_else_changed(path, value):
    before, after = tomllib.loads(TOML), tomllib.loads(edit_toml(TOML, path, value))
    at, been = after, before
    for step in path[:-1]:
        been = been.setdefault(step, {}) if isinstance(been, dict) else been[step]
        at = at[step]
    assert at[path[-1]] == value
    been[path[-1]] = value
    assert after == before


@pytest.mark.parametrize("path", [[], ["a"] * 9, ["features", 9, "unit"], ["trust", "x"], ["no"]])
def test_an_edit_that_cannot_be_is_refused_in_a_sentence(path):
    with pytest.raises(KnowledgeError):
        edit_toml(TOML, path, None)


def test_a_broken_file_is_left_alone():
    with pytest.raises(KnowledgeError, match="cannot be changed at trust"):
        edit_toml("trust = = 3", ["trust"], 0.5)
