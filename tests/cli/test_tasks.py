"""Task by command: what works for classes works for a number, or says in a sentence why not."""

import csv
import json
import math
from functools import cache
from pathlib import Path

import pytest

from fedlore import read_bundle
from fedlore.checker import check
from fedlore.core.history import read_rows
from fedlore.knowledge import Knowledge

from .spoken import refused, typed
from .tasks import write_federation, write_knowledge, write_rows

TASKS = ("classes", "number")
LABEL = {"classes": "grade", "number": "strength"}


@cache
def made(root: Path, task: str) -> Path:
    """A federation that has run, with a bundle of its first site."""
    folder = root / f"task-{task}"
    write_federation(folder, task, "P-KM", "FLwKM", "FL+mask")
    typed("run", folder / "federation.toml", "--out", folder / "results")
    typed("export", folder / "results", "--client", "east", "--out", folder / "east.lore")
    return folder


@pytest.fixture(params=TASKS)
def task(request):
    return request.param


@pytest.fixture
def world(task, tmp_path_factory) -> Path:
    return made(tmp_path_factory.getbasetemp(), task)


def test_lint(world, task):
    known, rows = (world / "sites/east" / name for name in ("knowledge.toml", "train.csv"))
    found = json.loads(typed("lint", known, "--json", "--data", rows))
    assert found["audit"]["rows"] == 60
    assert not [f for f in found["findings"] if f["severity"] == "error"]


def test_run_gives_a_row_for_each_site_and_no_violation(world, task):
    rows = read_rows(world / "results/results.jsonl")
    assert len(rows) == 6
    scores = {"classes": {"ta", "balanced", "macro_f1", "kappa"}, "number": {"rmse", "mae", "r2"}}
    assert all(scores[task] <= set(row) and row["pov"] == 0 for row in rows)
    page = (world / "results/report.html").read_text()
    assert ("RMSE in MPa" in page) == (task == "number")


def test_tune(world, task, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    path = write_federation(tmp_path, task)
    typed("tune", path, "--folds", "2", "--write")
    known = Knowledge.read(tmp_path / "sites/east/knowledge.toml")
    assert known.reliance is not None and known.trust in (0.0, 0.3)


def test_calibrate(world, task, tmp_path):
    known = write_knowledge(tmp_path / "k", task)
    if task == "classes":  # of one class there is nothing to calibrate: give it a doubt
        soft = 'formula = "age"\nedges = [4.0, 7.0]\nspread = 2.0'
        text = known.read_text().replace('table = "predict.csv"', soft)
        known.write_text(text)
    rows = write_rows(tmp_path / "rows.csv", task, 7)
    said = typed("calibrate", known, "--data", rows, "--out", tmp_path / "n/knowledge.toml")
    assert "This range is statistical" in said
    found = typed("lint", tmp_path / "n/knowledge.toml", "--data", rows)
    assert "statistical" in found


def test_predict(world, task, tmp_path):
    rows = write_rows(tmp_path / "rows.csv", task, 9, rows=20)
    said = typed("predict", world / "east.lore", rows, "--out", tmp_path / "a.csv", "--why")
    assert "20 rows decided: " in said
    told = (tmp_path / "a.csv").read_text()
    assert "range.csv, row" in told and "table-" not in told  # as its expert calls it
    answers = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert len(answers) == 20
    if task == "number":
        for one in answers:
            low, first, value, last, high = (
                float(one[name])
                for name in ("low", "interval_low", "strength", "interval_high", "high")
            )
            assert low <= first <= value <= last <= high
            assert low >= 0.0 and high <= 20.0


def test_predict_scores_labels(world, task, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    rows = write_rows(tmp_path / "rows.csv", task, 9, rows=20)
    said = typed("predict", world / "east.lore", rows, "--out", tmp_path / "a.csv", "--score")
    wanted = {
        "classes": ("balanced", "macro_f1", "grade_error", "kappa", "precision", "recall"),
        "number": ("rmse", "mae", "r2", "coverage", "width"),
    }
    assert all(word in said for word in wanted[task])


def test_rows_without_a_score_are_counted_not_fatal(world, task, tmp_path):
    rows = write_rows(tmp_path / "rows.csv", task, 9, rows=40)
    lines = rows.read_text().splitlines()
    lines[4] = lines[4].rpartition(",")[0] + ","
    rows.write_text("\n".join(lines) + "\n")
    left_out = "rows.csv, row 5: 1 row cannot be scored and is left out: row 5"
    bundle, answers = world / "east.lore", tmp_path / "a.csv"
    assert left_out in typed("predict", bundle, rows, "--out", answers, "--score")
    held = tmp_path / "held.csv"
    typed("predict", bundle, rows, "--out", held, "--calibrate", rows, "--level", "0.8")
    changed = tmp_path / "n.lore"
    assert left_out in typed("update", bundle, "--trust", "0.5", "--data", rows, "--out", changed)


def test_labels_beyond_the_bounds_are_counted_by_all_that_read_labels(tmp_path_factory, tmp_path):
    world, rows = made(tmp_path_factory.getbasetemp(), "number"), tmp_path / "rows.csv"
    lines = write_rows(rows, "number", 9, rows=20).read_text().splitlines()
    lines[4] = lines[4].rpartition(",")[0] + ",99"
    rows.write_text("\n".join(lines) + "\n")
    bundle = world / "east.lore"
    for call in (
        ("predict", bundle, rows, "--out", tmp_path / "a.csv", "--score"),
        ("update", bundle, "--trust", "0.5", "--data", rows, "--out", tmp_path / "n.lore"),
        ("monitor", bundle, rows, "--record", tmp_path / "record.monitor"),
    ):
        assert "rows.csv: 1 label lies beyond the bounds 0 to 20, which no answer" in typed(*call)


def test_certify(world, task, tmp_path):
    said = typed("certify", world / "east.lore", "--out", tmp_path / "c.json")
    assert "verdict: proved" in said and "inside-range" in said
    lines = check(tmp_path / "c.json", world / "east.lore")
    assert all(line.holds for line in lines)


def test_update_looks_at_the_rules_and_scores_both(world, task, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    known = write_knowledge(tmp_path / "k", task)
    rows = write_rows(tmp_path / "rows.csv", task, 3)
    said = typed("update", world / "east.lore", known, "--trust", "0.5",
                 "--out", tmp_path / "n.lore", "--data", rows)  # fmt: skip
    assert "audit: 60 rows" in said
    assert ("rmse" in said) == (task == "number") and ("coverage" in said) == (task == "number")
    assert read_bundle(tmp_path / "n.lore").personal.knowledge.trust == 0.5


def test_calibrate_takes_values_that_may_be_missing(task, tmp_path):
    known = write_knowledge(tmp_path, task, holes=True)
    rows = write_rows(tmp_path / "rows.csv", task, 3, 80, holes=True)
    said = typed("calibrate", known, "--data", rows, "--out", tmp_path / "n" / "knowledge.toml")
    assert "Calibrated on" in said


def test_export_says_which_approach_it_took(world, task, tmp_path):
    said = typed("export", world / "results", "--client", "east", "--out", tmp_path / "e.lore")
    assert "Exporting FLwKM" in said
    said = refused("export", world / "results", "--out", tmp_path / "f.lore")
    assert "say which with --client: east, " in said


def test_update_says_that_a_file_sets_another_trust(world, task, tmp_path):
    """The λ that a site chose is not in the new file: that is said, and how to keep it."""
    typed("update", world / "east.lore", "--trust", "0.7", "--out", tmp_path / "o.lore")
    known = write_knowledge(tmp_path / "k", task)
    said = typed("update", tmp_path / "o.lore", known, "--out", tmp_path / "n.lore")
    assert "λ at prediction was 0.7 and is now 0.3, as the new file says (--trust" in said
    kept = typed("update", tmp_path / "o.lore", known, "--trust", "0.7",
                 "--out", tmp_path / "n.lore", "--force")  # fmt: skip
    assert "λ at prediction was" not in kept


def test_update_refuses_rules_that_leave_nothing(world, task, tmp_path):
    known = write_knowledge(tmp_path / "k", task)
    bad = {
        "classes": "age,then\n> 5,low\n> 6,top\n",
        "number": "age,oven,then\n> 5,,<= 3\n> 6,,>= 9\n",
    }
    (tmp_path / "k/range.csv").write_text(bad[task])
    said = refused("update", world / "east.lore", known, "--out", tmp_path / "n.lore")
    assert "error" in said and "is not used" in said
    assert not (tmp_path / "n.lore").exists()


def test_knowledge_of_the_other_task_is_refused(world, task, tmp_path):
    other = TASKS[1 - TASKS.index(task)]
    known = write_knowledge(tmp_path, other)
    said = refused("update", world / "east.lore", known, "--out", tmp_path / "n.lore")
    assert "is not for" in said


def test_sites_of_two_tasks_are_no_federation(tmp_path):
    path = write_federation(tmp_path, "classes")
    write_knowledge(tmp_path / "sites/west", "number")
    write_rows(tmp_path / "sites/west/train.csv", "number", 1)
    said = refused("run", path, "--out", tmp_path / "o")
    assert said.startswith("sites 'east' and 'west': one has classes to learn, the other a number ")


def test_sites_agree_on_bounds_and_bins(tmp_path):
    path = write_federation(tmp_path, "number")
    known = tmp_path / "sites/west/knowledge.toml"
    known.write_text(known.read_text().replace("upper = 20.0", "upper = 25.0"))
    said = refused("run", path, "--out", tmp_path / "o")
    assert said.startswith("sites 'east' and 'west' differ in the bounds or bins of their target ")
    known.write_text(known.read_text().replace("upper = 25.0", "upper = 20.0"))
    path.write_text(path.read_text() + "[target]\nlower = 0.0\nupper = 21.0\nbins = 10\n")
    said = refused("run", path, "--out", tmp_path / "o")
    assert "are not the [target] of the federation" in said


@pytest.mark.slow
def test_lore_and_own_best_on_a_number(tmp_path):
    path = write_federation(tmp_path, "number", "local best", "lore")
    said = typed("run", path, "--out", tmp_path / "o")
    assert "lore chose" in said
    rows = read_rows(tmp_path / "o/results.jsonl")
    assert all(math.isfinite(r["rmse"]) and r["pov"] == 0 for r in rows)
    told = json.loads((tmp_path / "o/sites/east/benefit.json").read_text())
    assert told["measure"] == "rmse"
    assert "federation without knowledge" in [line["name"] for line in told["lines"]]
