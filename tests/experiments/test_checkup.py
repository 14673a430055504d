"""A run begins with what lint would warn of, two lines a site."""

import json

import numpy as np
import pytest

from fedlore.knowledge.findings.data import find_columns

from ..cli.spoken import refused, spoken

TOP = 'outside = "widen"\nlabel = "y"\nclasses = ["A", "B"]\n'
NUMBER = 'outside = "widen"\n[target]\nname = "y"\nlower = 0\nupper = 30\nbins = 6\n'
FEATURES = "".join(f'[[features]]\nname = "{name}"\nlow = 0\nhigh = 50\n' for name in "abc")
RANGE = '[[range.sources]]\ntable = "range.csv"\n'


def site(home, name, row, *, top=TOP, then="A", rows=40):
    folder = home / "sites" / name
    folder.mkdir(parents=True)
    lines = [row(i) for i in range(rows)]
    (folder / "train.csv").write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    (folder / "knowledge.toml").write_text(top + FEATURES + RANGE)
    (folder / "range.csv").write_text(f"a,then\n<= 50,{then}\n")


def run(home, *options):
    text = 'rounds = 1\n[run]\nsites = "sites"\napproaches = ["ML"]\n[model]\nhidden = [2]\n'
    (home / "federation.toml").write_text(text)
    return spoken("run", home / "federation.toml", "--out", home / "out", *options)


@pytest.fixture
def federation(tmp_path):
    good = ["A", "A", "B"]
    site(tmp_path, "fine", lambda i: f"{i % 7},{i % 5},{i % 3},{good[i % 3]}", then='"A, B"')
    site(tmp_path, "wrong", lambda i: f"{i % 7},{1000 * (i % 5)},7,B")
    return tmp_path


def test_what_lint_warns_of_comes_before_the_first_round_and_in_the_report(federation):
    done = run(federation)
    assert done.code == 0
    before = done.out[: done.out.index("approach")].splitlines()
    lines = [line for line in before if line.startswith("wrong: ")]
    assert len(lines) == 2 and not any(line.startswith("fine: ") for line in before)
    assert "40 labels lie outside their range: rows 2, 3, 4" in lines[0]
    assert "all 40 labels are 'B'" in lines[1]
    assert "2 more: fedlore lint" in lines[1]  # a column out of scope, and a constant one
    page = (federation / "out" / "report.html").read_text()
    assert page.index("40 labels lie outside") < page.index("local best")
    given = json.loads(run(federation, "--json").out)["checkup"]
    kinds = [one["kind"] for one in given["wrong"]]
    assert kinds == ["label-outside", "one-class", "out-of-scope", "constant-column"]
    assert set(given) == {"wrong"}


def test_strict_stops(federation):
    home = federation
    run(home)
    said = refused("run", home / "federation.toml", "--out", home / "strict", "--strict")
    assert "--strict: the check-up warns of wrong" in said
    assert not (home / "strict" / "results.jsonl").exists()


def test_bounds_that_cap_test_rows_are_said(tmp_path):
    site(tmp_path, "a", lambda i: f"{i % 7},{i % 5},{i % 3},{i % 11}", top=NUMBER, then="<= 30")
    (tmp_path / "sites" / "a" / "test.csv").write_text("a,b,c,y\n" + "1,2,3,4\n" * 9 + "1,2,3,70\n")
    assert "a: test.csv: 1 label lies beyond the bounds 0 to 30" in run(tmp_path).out


def test_columns_that_teach_nothing_are_found():
    n = np.arange(30.0)
    columns = [n % 7, np.full(30, 3.0), n % 7, n + 100, n**2 + 1e6, n % 3, np.sqrt(n + 2)]
    found = list(find_columns(np.stack(columns, 1), n % 3, number=False))
    assert found == [
        (1, "constant-column", None),
        (2, "copied-column", 0),
        (3, "id-column", None),
        (4, "id-column", None),
        (5, "label-column", None),
    ]
    leak = list(find_columns(np.stack([n % 7, 3 - 2 * (n % 11)], 1), n % 11, number=True))
    assert leak == [(1, "label-column", None)]
    assert not list(find_columns(np.stack(columns, 1)[:19], None, number=False))  # too few


@pytest.mark.parametrize("number", [False, True])
def test_test_rows_that_cannot_be_scored_are_counted_not_fatal(tmp_path, number):
    answer = (lambda i: i % 11) if number else (lambda i: "AB"[i % 2])
    top, then = (NUMBER, "<= 30") if number else (TOP, '"A, B"')
    site(tmp_path, "a", lambda i: f"{i % 7},{i % 5},{i % 3},{answer(i)}", top=top, then=then)
    lines = [f"{i % 7},{i % 5},{i % 3},{answer(i)}" for i in range(9)]
    lines[2] = f"1,,3,{answer(2)}"
    lines[5] = "1,2,3,"
    test = tmp_path / "sites" / "a" / "test.csv"
    test.write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    done = run(tmp_path)
    assert done.code == 0, done.err
    assert "2 rows cannot be scored and are left out: rows 4, 7" in done.out
    assert (tmp_path / "out" / "results.jsonl").read_text()
    test.write_text("a,b,c,y\n1,,3,4\n")
    assert "no row can be scored; row 2" in refused("run", tmp_path / "federation.toml")


def test_labels_that_stop_a_training_are_named_by_the_line_of_their_file(tmp_path):
    top = TOP.replace("widen", "error")
    site(tmp_path, "a", lambda i: f"{i % 7},{i % 5},{i % 3},{'AB'[i == 9]}", top=top)
    text = '[run]\nsites = "sites"\napproaches = ["FLwKM"]\n'
    (tmp_path / "federation.toml").write_text(text)
    said = refused("run", tmp_path / "federation.toml", "--out", tmp_path / "out")
    assert "train.csv, row 11: 1 label lies outside its range: row 11" in said
