"""knowledge.toml: read, write, read; what is wrong is said with its place."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import Examples, Knowledge, KnowledgeError
from fedlore.kernel.schema import Feature
from fedlore.knowledge.content import dump
from fedlore.knowledge.files import fingerprint

FILE = """
classes = ["III", "II", "I"]
edges = [55, 60]
trust = 0.3
label = "grade"
features = [
    {name = "ash", unit = "%", low = 5, high = 16},
    {name = "Ro", unit = "%", low = 0.7, high = 1.7},
    {name = "seam", levels = ["A", "B", "C"]},
]

[card]
owner = "Plant 2"
version = "3"
date = "2026-05-01"

[[predict.sources]]
table = "predict.csv"

[[predict.sources]]
formula = "20 + 40*Ro - ash"

[[range.sources]]
table = "range.csv"

[[range.sources]]
lower = "10 + 40*Ro - ash"
upper = "35 + 40*Ro - ash"

[[range.sources]]
[range.sources.conformal]
alpha = 0.1
thresholds = [0.99, 0.99, inf]
[range.sources.conformal.scorer]
formula = "20 + 40*Ro - ash"
spread = 4
"""
PREDICT = 'ash [%],Ro,seam,then\n> 14,< 1.2,,III\n<= 10,> 1.4,"in A, B",I\n'
RANGE = 'ash,then\n> 12,"III, II"\n'


def folder(path: Path, file: str = FILE, predict: str = PREDICT, limits: str = RANGE) -> Path:
    (path / "knowledge.toml").write_text(file)
    (path / "predict.csv").write_text(predict)
    (path / "range.csv").write_text(limits)
    return path / "knowledge.toml"


def test_all_sources_speak_together(tmp_path):
    knowledge = Knowledge.read(folder(tmp_path))
    x = torch.tensor([[15.0, 1.0, 0.0], [9.0, 1.5, 1.0], [9.0, 1.05, 2.0]])
    known = knowledge.annotate(Examples(x))
    # a rule of the table, another, and where the table is silent the formula: 20 + 42 - 9 = 53
    assert known.prior.argmax(1).tolist() == [0, 2, 0]
    # 10 + 40 - 15 = 35 to 60 and not I; 61 to 86; 43 to 68: all
    assert known.allowed.tolist()[0][2] is False
    assert known.allowed.tolist()[1] == [False, False, True]
    assert knowledge.card.owner == "Plant 2" and knowledge.schema.label == "grade"


@pytest.mark.parametrize(
    "change",
    [
        {"predict": PREDICT.replace("> 14", "> 13")},
        {"limits": RANGE.replace("III, II", "III")},
        {"file": FILE.replace("20 + 40*Ro - ash", "21 + 40*Ro - ash")},
        {"file": FILE.replace("trust = 0.3", "trust = 0.2")},
        {"file": FILE.replace("trust = 0.3", "trust = 0.3\nfloor = 0.1")},
        {"file": FILE.replace("high = 16", "high = 17")},
        {"file": FILE.replace("0.99, 0.99", "0.98, 0.99")},
    ],
)
def test_the_hash_changes_with_every_rule(tmp_path, change):
    before = Knowledge.read(folder(tmp_path)).fingerprint
    assert Knowledge.read(folder(tmp_path, **change)).fingerprint != before


def test_the_hash_does_not_change_with_the_card_or_the_layout(tmp_path):
    before = Knowledge.read(folder(tmp_path)).fingerprint
    spaced = PREDICT.replace("> 14", " >14 ")
    file = FILE.replace("Plant 2", "Plant II")
    assert Knowledge.read(folder(tmp_path, file, spaced)).fingerprint == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file": FILE.replace("trust", "turst")}, "unknown key 'turst'; did you mean 'trust'"),
        ({"file": FILE.replace("trust = 0.3", "trust = 1.3")}, r"trust must lie in \[0, 1\]"),
        ({"file": FILE.replace("spread = 4", "spred = 4")}, "unknown key 'spred'"),
        ({"file": FILE.replace("40*Ro - ash", "40*Rho - ash", 1)}, "unknown feature 'Rho'"),
        ({"file": FILE.replace("[55, 60]", "[55, 60, 65]")}, "3 classes need 2 edges"),
        ({"file": FILE.replace("low = 5", "low = 50")}, "low < high"),
        ({"file": FILE.replace("classes = ", "classes = 3 #")}, "classes must be"),
        ({"file": FILE.replace('table = "range.csv"', 'table = "absent.csv"')}, "absent.csv"),
        (
            {"file": FILE.replace('table = "range.csv"', 'formula = "ash"')},
            "'formula' is not a source of a range",
        ),
        (
            {"file": FILE.replace('table = "range.csv"', 'onnx = "a"\nentry = "b"')},
            "a source has one of",
        ),
        (
            {"file": FILE.replace('table = "range.csv"', 'entry = "os:system"')},
            "only where the site's own file allows entry points",
        ),
        ({"file": FILE.replace("thresholds = [0.99, 0.99, inf]", "")}, "fedlore calibrate"),
        ({"predict": PREDICT.replace("> 14", "> fourteen")}, "row 2, column 'ash"),
        ({"file": "classes = ["}, "not valid TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, change, message):
    with pytest.raises(KnowledgeError, match=message) as error:
        Knowledge.read(folder(tmp_path, **change))
    assert "knowledge.toml" in str(error.value)


def test_entry_points_run_where_the_file_allows_them(tmp_path, monkeypatch):
    (tmp_path / "oven.py").write_text(
        "import torch\ndef best(x): return torch.eye(3)[torch.full((len(x),), 2)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    file = "entry_points = true\n" + FILE.replace('table = "predict.csv"', 'entry = "oven:best"')
    knowledge = Knowledge.read(folder(tmp_path, file))
    assert knowledge.prediction(torch.zeros(1, 3)).tolist() == [[0.0, 0.0, 1.0]]
    knowledge.write(tmp_path / "copy" / "knowledge.toml")
    assert Knowledge.read(tmp_path / "copy" / "knowledge.toml") == knowledge


def test_knowledge_made_of_functions_cannot_be_written(tmp_path):
    knowledge = Knowledge.read(folder(tmp_path))
    with pytest.raises(KnowledgeError, match="a function cannot be written"):
        replace(knowledge, prediction=lambda x: x).write(tmp_path / "copy" / "knowledge.toml")
    with pytest.raises(KnowledgeError, match="without a schema"):
        fingerprint(Knowledge())
    assert not (tmp_path / "copy").exists()


words = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | words
lists = st.lists(scalars | st.lists(scalars, max_size=2), max_size=3)
tables = st.recursive(
    st.dictionaries(words, scalars | lists, max_size=3),
    lambda inner: st.dictionaries(
        words, inner | st.lists(inner, min_size=1, max_size=2), max_size=3
    ),
    max_leaves=6,
)


@given(tables)
def test_toml_comes_back_as_it_went(values):
    assert tomllib.loads(dump(values)) == values


def test_slips_in_toml_are_explained(tmp_path):
    with pytest.raises(KnowledgeError, match=r"a number has a point and no comma: trust = 0\.3"):
        Knowledge.read(folder(tmp_path, f"trust = 0,3\n{FILE}"))
    below = "[trust]\nvalue = 0.2\n"
    with pytest.raises(KnowledgeError, match=r"'classes' stands below the line \[trust\]"):
        Knowledge.read(folder(tmp_path, below + FILE.replace("trust = 0.3\n", "")))


def test_a_model_that_sees_all_columns_sees_those_of_its_own_file(tmp_path, monkeypatch):
    """A federation's features that the file leaves out are none of them."""
    (tmp_path / "wide.py").write_text(
        "import torch\n"
        "def say(x):\n"
        "    return torch.eye(2)[(x.sum(1) > 3).long()] if x.shape[1] == 2 else 1 / 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "knowledge.toml").write_text(
        'classes = ["A", "B"]\nentry_points = true\n'
        '[[features]]\nname = "ash"\n[[features]]\nname = "Ro"\n'
        '[[predict.sources]]\nentry = "wide:say"\n'
    )
    asked = tuple(Feature(name) for name in ("ash", "logMF", "Ro"))
    known = Knowledge.read(tmp_path / "knowledge.toml", asked)
    assert known.schema.absent == ("logMF",) and known.schema.names == ("ash", "logMF", "Ro")
    x = torch.tensor([[1.0, torch.nan, 1.0], [1.0, torch.nan, 4.0]])
    assert known.annotate(Examples(x)).prior.argmax(1).tolist() == [0, 1]
    turned = Knowledge.read(tmp_path / "knowledge.toml", asked[::-1])
    assert turned.schema.names == ("ash", "Ro")  # another order is refused where sites meet


@pytest.mark.parametrize("line", ['trust = "auto"', 'trust = 0.3\nreliance = "auto"'])
def test_trust_left_to_rows_is_refused_with_what_to_write(tmp_path, line):
    said = r"remove the line for the recipe lore, .* fedlore tune --write enters a number"
    with pytest.raises(KnowledgeError, match=said) as found:
        Knowledge.read(folder(tmp_path, FILE.replace("trust = 0.3", line)))
    assert found.value.code == "trust"


def test_knowledge_is_shown_in_one_short_line(tmp_path):
    shown = repr(Knowledge.read(folder(tmp_path)))
    assert shown.startswith("Knowledge(prediction=FirstOf(Table, ") and len(shown) < 150
    assert shown.endswith("ConformalRange), trust=0.3, 3 features, 3 classes)")
    assert repr(Knowledge(range=lambda x: x)) == "Knowledge(range=<lambda>, trust=0)"
