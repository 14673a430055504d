"""fedlore demo ends in a report."""

import sys

from typer.testing import CliRunner

from fedlore.cli.app import app

from ..cli.test_demo import SMALL


def test_without_matplotlib_the_demo_says_what_to_install(tmp_path, monkeypatch, short_recipe):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    done = CliRunner().invoke(app, ["demo", "--config", "small.toml", "--out", "o"])
    assert done.exit_code == 0, done.exception
    assert "pip install 'fedlore[plot]'" in done.stdout
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == ["results.jsonl"]
