"""The command as a newcomer runs it, right and wrong."""

import subprocess
from contextlib import chdir

import pytest
from typer.testing import CliRunner

from fedlore.cli.app import app
from fedlore.core.history import read_rows
from fedlore.experiments import APPROACHES

from .spoken import spoken

SMALL = "rounds = 2\nhidden = [8]\nrows = [10, 11, 12, 13]\ntest_rows = 30\n[plan]\nepochs = 1\n"


def fedlore(*arguments, cwd) -> subprocess.CompletedProcess:
    """The command in a folder, in this process: a new one would load torch for seconds."""
    with chdir(cwd):
        done = spoken(*arguments)
    return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)


@pytest.mark.slow
def test_the_demo_prints_a_table_and_writes_flat_rows(tmp_path, monkeypatch, short_recipe):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    arguments = ["demo", "--config", "small.toml", "--seeds", "2", "--out", "o"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.exception
    assert "On its own, a site's best model is right on" in done.stdout
    assert "extra trees and boosted trees are not installed" in done.stdout
    assert all(name in done.stdout for name in (*(a.name for a in APPROACHES), "simulated"))
    assert "lore minus the others" in done.stdout and "95 % interval" in done.stdout
    rows = read_rows(tmp_path / "o" / "results.jsonl")
    assert len(rows) == 2 * 8 * 4
    assert all(type(v) in (str, int, float) for row in rows for v in row.values())
    html = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    for words in ("no plant measured any of this", "best model is right on", "Confusion matrix"):
        assert words in html
    assert (tmp_path / "o" / "plots" / "simulated-coke-experts-ranges-rounds.png").exists()


def test_a_wrong_key_names_the_near_miss(tmp_path):
    (tmp_path / "bad.toml").write_text("round = 3\n")
    done = fedlore("demo", "--config", "bad.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown key 'round'; did you mean 'rounds'? [setting]")
