"""The whole case from the command line: plants, lint, training, bundle, answers, a blend."""

import csv
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from fedlore import checker
from fedlore_coke.experts import COKE

from ..conftest import shorten_recipe
from .spoken import typed

COALS = Path(__file__).parents[2] / "examples" / "coke"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Four plants, trained, with a bundle of one of them."""
    folder = tmp_path_factory.mktemp("case")
    typed("new", folder / "plants")
    config = folder / "plants" / "federation.toml"
    text = re.sub(r"approaches = \[.*\]", 'approaches = ["FL+mask", "lore"]', config.read_text())
    config.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        shorten_recipe(patch)
        typed("run", config, "--out", folder / "results")
    typed("export", folder / "results", "--client", "plant-1", "--out", folder / "plant.lore")
    return folder


def sites(home: Path) -> Path:
    return home / "plants" / "sites"


def test_what_the_experts_wrote_passes_the_lint(home):
    for site in sorted(sites(home).iterdir()):
        assert "0 errors" in typed("lint", site / "knowledge.toml")


def test_predictions_stay_inside_the_range_and_say_why(home):
    typed("predict", home / "plant.lore", sites(home) / "plant-1" / "test.csv",
            "--out", home / "graded.csv", "--why")  # fmt: skip
    with open(home / "graded.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 150
    for row in rows:
        allowed = row["allowed"].split("|")
        assert row["grade"] in allowed and "row" in row["why"]
        assert all(float(row[f"p_{c}"]) == 0.0 for c in COKE.classes if c not in allowed)


def test_the_range_is_certified_and_an_independent_checker_agrees(home):
    assert "verdict: proved" in typed("certify", home / "plant.lore", "--out", home / "c.json")
    done = subprocess.run(
        [sys.executable, Path(checker.__file__).parent, home / "c.json", home / "plant.lore"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr  # of a bundle, rows are tested
    assert "on 3000 rows" in done.stdout


@pytest.mark.slow
def test_a_blend_is_planned(home):
    typed("blend", COALS / "coals.csv", "--mixing", COALS / "mixing.toml", "--target",
            "grade>=CSR40", "--confidence", "0.6", "--max-coals", "4", "--beyond-scope",
            "--model", home / "plant.lore", "--out", home / "plan")  # fmt: skip
    plan = json.loads((home / "plan" / "plan.json").read_text())
    assert plan["feasible"] and sum(plan["blend"]["shares"].values()) == pytest.approx(1.0)


@pytest.mark.slow
def test_the_bundle_is_served(home):
    with open(sites(home) / "plant-1" / "test.csv", newline="", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    features = {f.name: float(row[f.name]) for f in COKE.features}
    server = subprocess.Popen(
        [sys.executable, "-m", "fedlore", "serve", home / "plant.lore", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert server.stdout is not None
        where = next(m.group() for line in server.stdout if (m := re.search(r"http://\S+\d", line)))
        ask = urllib.request.Request(
            f"{where}/predict",
            json.dumps([features]).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(ask, timeout=60) as answer:
            (found,) = json.load(answer)["answers"]
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert found["predicted"] in found["allowed"]
