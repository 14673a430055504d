"""fedlore demo ends in a report."""

import sys

import pytest
from typer.testing import CliRunner

from fedlore.cli.app import app
from fedlore.core.history import read_rows

from ..cli.test_demo import SMALL, fedlore


@pytest.mark.slow
def test_the_demo_writes_its_report_beside_its_rows(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    done = fedlore("demo", "--config", "small.toml", "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Report written to o/report.html" in done.stdout
    html = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    for words in ("no plant measured any of this", "best model is right on", "Confusion matrix"):
        assert words in html
    assert (tmp_path / "o" / "plots" / "simulated-coke-experts-ranges-rounds.png").exists()
    assert {r["dataset"] for r in read_rows(tmp_path / "o" / "results.jsonl")} == {"coke"}


def test_without_matplotlib_the_demo_says_what_to_install(tmp_path, monkeypatch, short_recipe):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    done = CliRunner().invoke(app, ["demo", "--config", "small.toml", "--out", "o"])
    assert done.exit_code == 0, done.exception
    assert "pip install 'fedlore[plot]'" in done.stdout
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == ["results.jsonl"]
