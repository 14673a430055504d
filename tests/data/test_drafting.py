"""A first knowledge file: what is read off a table, and that every example in it can be used."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedlore import FedloreError
from fedlore.cli.app import app
from fedlore.data import read_table
from fedlore.data.draft import draft_knowledge, read_cells
from fedlore.experiments.sites import gather
from fedlore.knowledge import Knowledge
from fedlore.knowledge.findings.checkup import check_file

HEAD = "sample;mean radius [mm];oven;class"


def semicolons(path, label="word"):
    """40 rows as a European spreadsheet writes them; `class` holds words or measured numbers."""
    words = ("good", "bad", "fair")
    lines = [HEAD]
    for i in range(40):
        said = words[i % 3] if label == "word" else f"{20 + i * 1.25:.2f}".replace(".", ",")
        lines.append(f"S{i};{i / 4:.2f};{'old' if i % 2 else 'new oven'};{said}".replace(".", ","))
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")
    return path


def drafted(tmp_path, label="word"):
    rows = semicolons(tmp_path / "rows.csv", label)
    draft = draft_knowledge(read_cells(rows), "class", name="rows.csv")
    (tmp_path / "knowledge.toml").write_text(draft.text)
    return draft, tmp_path / "knowledge.toml"


def test_columns_levels_units_and_scope(tmp_path):
    draft, path = drafted(tmp_path)
    assert (draft.task, draft.features, draft.classes) == (
        "classification", 2, ("bad", "fair", "good"))  # fmt: skip
    assert draft.left_out == {"sample": "it holds 40 different words"}
    radius, oven = Knowledge.read(path).schema.features
    assert (radius.name, radius.column, radius.unit) == ("mean_radius", "mean radius", "mm")
    assert radius.low == 0.0 and 9.75 < radius.high < 12.0
    assert oven.levels == ("new oven", "old")


@given(st.floats(0.01, 1e6), st.floats(0.001, 1e6), st.booleans())
def test_a_scope_is_round_and_a_tenth_wider_than_the_rows(tmp_path_factory, low, span, below):
    """By a tenth of the span and at most one step more, a step being its second digit."""
    ends = sorted((low - (2 * low + span) * below, low + span))
    text = "a,y\n" + "".join(f"{end!r},{word}\n" for word in ("x", "z") for end in ends)
    rows = tmp_path_factory.mktemp("round") / "rows.csv"
    rows.write_text(text)
    draft = draft_knowledge(read_cells(rows), "y", name="rows.csv")
    first, last = (float(re.search(rf"^{k} = (.*)$", draft.text, re.M)[1]) for k in ("low", "high"))
    span = ends[1] - ends[0]
    step = 10 ** (math.floor(math.log10(span)) - 1)
    for room in (last - ends[1], ends[0] - first if below else 0.1 * span):
        assert 0.1 * span * (1 - 1e-9) <= room <= (0.1 * span + step) * (1 + 1e-9)
    assert below or first == max(first, 0.0) <= ends[0]
    assert last / step == pytest.approx(round(last / step), rel=1e-9)


def test_a_measured_label_becomes_a_target_whose_bounds_hold_all(tmp_path):
    draft, path = drafted(tmp_path, "number")
    held = Knowledge.read(path)
    assert draft.task == "regression" and held.bins is not None
    assert held.bins.lower < 20.0 and held.bins.upper > 68.75
    assert held.schema.label == "class"


@pytest.mark.parametrize("label", ["word", "number"])
def test_a_drafted_file_takes_its_rows_with_their_blanks_and_without_a_heap_of_warnings(
    tmp_path, label
):
    rows = semicolons(tmp_path / "rows.csv", label)
    lines = rows.read_text(encoding="latin-1").splitlines()
    lines[7] = ";".join(["S6", "", *lines[7].split(";")[2:]])
    lines[9] = f"S8;99999;;{lines[9].split(';')[3]}"
    rows.write_text("\n".join(lines) + "\n", encoding="latin-1")
    path = tmp_path / "knowledge.toml"
    path.write_text(draft_knowledge(read_cells(rows), "class").text)
    radius, oven = Knowledge.read(path).schema.features
    assert (radius.missing, oven.missing) == ("median", "level")
    assert radius.high < 20.0  # a slip of the keyboard is no part of the scope
    said = CliRunner().invoke(app, ["lint", str(path), "--data", str(rows)]).output
    assert "1 row has 'mean_radius' outside its scope" in said
    assert "0 errors, 1 warning, 0 remarks" in said


@pytest.mark.parametrize("label", ["word", "number"])
def test_every_example_can_be_switched_on(tmp_path, label):
    _, path = drafted(tmp_path, label)
    text = path.read_text()
    begin = text.index("# [[range.sources]]")
    lines = [line.removeprefix("# ") for line in text[begin:].splitlines()]
    names = re.findall(r'table = "(.*?)"', text[begin:])
    rows = re.findall(r"with the lines +(.*)\n# +# +(.*)", text[begin:])
    assert len(names) == len(rows) > 0
    for name, (head, line) in zip(names, rows, strict=True):
        (tmp_path / name).write_text(f"{head}\n{line}\n")
    path.write_text(text[:begin] + "\n".join(line for line in lines if line != "#"))
    found = check_file(path)
    assert not [f for f in found.findings if f.severity == "error"]
    assert found.knowledge.prediction is not None and found.knowledge.range is not None


@pytest.mark.parametrize("label", ["word", "number"])
def test_a_federation_like_the_rows(tmp_path, label):
    rows = semicolons(tmp_path / "rows.csv", label)
    arguments = ["new", str(tmp_path / "f"), "--like", str(rows), "--label", "class"]
    done = CliRunner().invoke(app, [*arguments, "--sites", "3"])
    assert done.exit_code == 0, done.exception
    found = gather(tmp_path / "f" / "federation.toml")
    assert [c.id for c in found.clients] == ["site-1", "site-2", "site-3"]
    assert sum(len(c.data) + len(c.test) for c in found.clients) == 40
    assert (found.bins is not None) == (label == "number")
    again = CliRunner().invoke(app, arguments)
    assert "is not empty: name a new folder" in str(again.exception)


@pytest.mark.parametrize(
    ("text", "label", "error"),
    [
        ("a,b\n1,x\n2,y\n", "c", "unknown column 'c'; known: a, b"),
        ("a,b\n1,x\n2,x\n", "b", "says the same in every row"),
        ("b\nx\ny\n", "b", "has no column to predict 'b' from"),
        ("a,b\n", "b", "has no rows"),
        ("a,b\n" + "".join(f"1,w{i}\n" for i in range(40)), "b", "has 40 different words"),
    ],
)
def test_what_cannot_be_drafted_says_why(tmp_path, text, label, error):
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(FedloreError, match=error):
        draft_knowledge(read_cells(tmp_path / "rows.csv"), label)


def test_blanks_in_other_words_leave_a_column_of_numbers_and_other_words_are_named(tmp_path):
    blanks = ["n/a", "-", "?", "#NV", "NULL", "None", "<NA>"]
    cells = [*blanks, *(f"{i}.5" for i in range(40))]
    lines = [f"{cell},{'ca. 7' if i == 9 else i + 0.25},{i % 2}" for i, cell in enumerate(cells)]
    (tmp_path / "rows.csv").write_text("\n".join(["ash,heat,class", *lines]) + "\n")
    draft = draft_knowledge(read_cells(tmp_path / "rows.csv"), "class")
    assert draft.left_out == {"heat": "1 of its cells are no numbers, the first is 'ca. 7'"}
    assert 'name = "ash"\nlow = ' in draft.text and 'missing = "median"' in draft.text


def test_a_draft_of_a_messy_table_passes_lint(tmp_path):
    """Ids, constants, copies and doubled titles are left out and named; no class is lost."""
    rows = ["id,long,a,a,b,const,copy,leak,again,stage"]
    for i in range(60):
        stage = ("NA", "None", "yes")[i // 2 % 3]
        b = f"{(i * 37) % 59 / 7:.3f}"
        long = 123456789012345678 + i
        rows.append(f"{i},{long},{i % 7},{i % 5},{b},7,{b},{len(stage)},{stage},{stage}")
    path = tmp_path / "t.csv"
    path.write_text("\n".join(rows) + "\n")
    draft = draft_knowledge(read_cells(path), "stage")
    assert draft.classes == ("NA", "None", "yes") and draft.features == 1
    assert "'NA' is taken for a class, not for a blank" in draft.text
    assert {name: why.split()[-1] for name, why in draft.left_out.items()} == {
        "id": "equal",
        "long": "equal",
        "a": "same",
        "const": "row",
        "copy": "'b'",
        "leak": "words",
        "again": "words",
    }
    (tmp_path / "k.toml").write_text(draft.text)
    done = CliRunner().invoke(app, ["lint", str(tmp_path / "k.toml"), "--data", str(path)])
    assert done.exit_code == 0 and "0 errors, 0 warnings" in done.output, done.output
    schema = Knowledge.read(tmp_path / "k.toml").schema
    assert len(read_table(path, schema, label="stage")) == 60


def test_an_order_that_names_give_is_written_down(tmp_path):
    text = "a,y\n" + "".join(f"{i / 7},stage {i % 4 + 1}\n" for i in range(30))
    (tmp_path / "rows.csv").write_text(text)
    assert "\nordered = true" in draft_knowledge(read_cells(tmp_path / "rows.csv"), "y").text


def test_a_column_with_an_infinite_number_is_left_out_and_says_so(tmp_path):
    rows = tmp_path / "rows.csv"
    lines = [f"{i / 7:.2f},{'inf' if i == 4 else i * i},{'uv'[i % 2]}" for i in range(40)]
    rows.write_text("\n".join(["a,b,y", *lines]) + "\n")
    draft = draft_knowledge(read_cells(rows), "y", name="rows.csv")
    assert draft.left_out == {"b": "1 of its cells are infinite"} and draft.features == 1


def test_a_label_in_other_letters_is_guessed(tmp_path):
    with pytest.raises(FedloreError, match="unknown column 'CLASS '; did you mean 'class'"):
        draft_knowledge(read_cells(semicolons(tmp_path / "rows.csv")), "CLASS ")


def test_a_new_federation_like_rows_needs_both_the_rows_and_the_label(tmp_path):
    for said in (["--label", "y"], ["--like", str(semicolons(tmp_path / "rows.csv"))]):
        done = CliRunner().invoke(app, ["new", str(tmp_path / "f"), *said])
        assert done.exit_code and "needs" in str(done.exception)
        assert not (tmp_path / "f").exists()
