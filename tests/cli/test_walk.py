"""Four public tables as nobody prepared them, from rows to a certificate, by command line alone.

Each is made awkward in its own way; the knowledge file is drafted, and a rule is written into it
as an expert would. Four tables by nine commands, none skipped.
"""

import csv
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from fedlore.core.history import read_rows

from ..bundle.serve.process import serving
from .spoken import typed

COMMANDS = ("draft", "lint", "run", "export", "predict", "serve", "certify", "onnx", "update")
QUICK = """\
name = "walk"
rounds = 2
[run]
approaches = ["FLwKM"]
[model]
hidden = [8]
[plan]
epochs = 1
"""
Table = tuple[list[str], list[list[str]]]


def sets():
    return pytest.importorskip("sklearn.datasets")


def table(name: str) -> Table:
    """A table of scikit-learn with its own column names, its label by name or measured."""
    found = getattr(sets(), f"load_{name}")()
    names = [str(column) for column in found.feature_names]
    words = None if name == "diabetes" else [str(word) for word in found.target_names]
    rows = [
        [*(repr(float(v)) for v in x), repr(float(y)) if words is None else words[int(y)]]
        for x, y in zip(found.data, found.target, strict=True)
    ]
    random.Random(0).shuffle(rows)
    return [*names, "target"], rows[:240]


def commas(path: Path, titles: list[str], rows: list[list[str]]) -> Path:
    """As European spreadsheets write: `;`, decimal comma, a byte order mark."""
    lines = [";".join(titles), *(";".join(v.replace(".", ",") for v in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return path


def book(path: Path, titles: list[str], rows: list[list[str]]) -> Path:
    """A workbook, numbers as numbers."""
    path = path.with_suffix(".xlsx")
    made = pytest.importorskip("openpyxl").Workbook()
    made.active.append(titles)
    for row in rows:
        made.active.append([*map(float, row[:-1]), row[-1]])
    made.save(path)
    return path


def plain(path: Path, titles: list[str], rows: list[list[str]]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([titles, *rows])
    return path


def words(found: Table) -> Table:
    """The column `sex` in words."""
    titles, rows = found
    at = titles.index("sex")
    return titles, [[*r[:at], "f" if float(r[at]) < 0 else "m", *r[at + 1 :]] for r in rows]


def split(found: Table, *, lost: str | None = None) -> list[list[list[str]]]:
    """The rows of three sites; the last has none of one class."""
    rows = found[1]
    parts = [rows[0::3], rows[1::3], rows[2::3]]
    parts[2] = [row for row in parts[2] if row[-1] != lost]
    return parts


def blanks(found: Table, title: str = "ash", every: int = 10) -> Table:
    """Every tenth row without its `ash`, as a laboratory leaves it out."""
    titles, rows = found
    at = titles.index(title)
    return titles, [
        [*r[:at], "" if i % every == 0 else r[at], *r[at + 1 :]] for i, r in enumerate(rows)
    ]


def words_and_blanks(found: Table) -> Table:
    """`sex` in words, some of them lost, and gaps in two columns that a rule and no rule reads."""
    return blanks(blanks(blanks(words(found), "bmi", 9), "s5", 7), "sex", 11)


#: How each table is awkward: its file, what is done to it, a class missing at a site, a rule.
AWKWARD: dict[str, tuple[Callable[..., Path], Callable[[Table], Table], str | None, str]] = {
    "wine": (
        *(commas, blanks, "class_2"),
        'alcohol,then,confidence\n< 12,"class_1, class_2",\n> 13,class_0,90 %\n< 13,class_1,0.7\n',
    ),
    "breast_cancer": (book, lambda t: t, None, "mean_radius,then\n> 18,malignant\n"),
    "diabetes": (commas, words_and_blanks, None, "bmi,sex,then\n> 0.05,f,>= 50\n"),
    "digits": (plain, lambda t: t, "7", 'pixel_0_2,then\n> 14,"in 0, 2, 3, 5, 7"\n'),
}


def walk(name: str, home: Path) -> set[str]:
    """All nine commands over one table; returns those that did what they should."""
    write, change, lost, rule = AWKWARD[name]
    titles, rows = change(table(name))
    sites = [home / "sites" / site for site in ("a", "b", "c")]
    for folder, part in zip(sites, split((titles, rows), lost=lost), strict=True):
        folder.mkdir(parents=True)
        write(folder / "train.csv", titles, part)
    whole = write(home / "rows.csv", titles, rows)
    done = set()
    known = sites[0] / "knowledge.toml"
    typed("draft", whole, "--label", "target", "--out", known)
    done.add("draft")
    with open(known, "a", encoding="utf-8") as file:  # the expert's own file, not a data file
        file.write('\n[[range.sources]]\ntable = "range.csv"\n')
    (sites[0] / "range.csv").write_text(rule)
    (sites[1] / "knowledge.toml").write_text(known.read_text())
    (sites[1] / "range.csv").write_text(rule)  # and the third site has none at all
    assert "0 errors" in typed("lint", known, "--data", whole)
    done.add("lint")
    (home / "federation.toml").write_text(QUICK)
    said = typed("run", home / "federation.toml", "--out", home / "out")
    assert len(read_rows(home / "out" / "results.jsonl")) == 3 and "Report written" in said
    done.add("run")
    typed("export", home / "out", "--client", "a", "--out", home / "a.lore")
    typed("export", home / "out", "--client", "c", "--out", home / "c.lore")
    done.add("export")
    typed("predict", home / "a.lore", whole, "--out", home / "answers.csv", "--score", "--why")
    answers = list(csv.DictReader((home / "answers.csv").read_text().splitlines()))
    assert len(answers) == len(rows) and all(row["target"] for row in answers)
    assert any("(in 90 % of cases)" in row["why"] for row in answers) == ("90 %" in rule)
    done.add("predict")
    with serving(home / "a.lore") as (_, port, _):
        done |= _serve(port)
    said = typed("certify", home / "a.lore", "--out", home / "c.json")
    assert "verdict: proved" in said
    done.add("certify")
    assert "graph written" in typed("export", home / "a.lore", "--onnx", home / "a.onnx")
    done.add("onnx")
    typed("update", home / "c.lore", known, "--out", home / "n.lore", "--client", "c")
    done.add("update")
    return done


def _serve(port: int) -> set[str]:
    httpx = pytest.importorskip("httpx")
    place = f"http://127.0.0.1:{port}"
    form = httpx.get(f"{place}/schema").json()
    row = {
        f["name"]: f["levels"][0] if f["levels"] else (f["low"] + f["high"]) / 2
        for f in form["features"]
    }
    answer = httpx.post(f"{place}/predict", json=row)
    assert answer.status_code == 200 and answer.json()["answers"][0]["predicted"] is not None
    return {"serve"}


@pytest.mark.parametrize(
    "name", ["wine", *(pytest.param(n, marks=pytest.mark.slow) for n in list(AWKWARD)[1:])]
)
def test_every_command_takes_the_table_as_it_is(name, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert walk(name, tmp_path) == set(COMMANDS)
