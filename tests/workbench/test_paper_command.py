"""fedlore paper: rows, tables and one-line errors."""

import pytest
from typer.testing import CliRunner

from fedlore.core.history import read_rows
from fedlore.errors import FedloreError
from fedlore_lab.cli import paper as command
from fedlore_lab.paper import realcoke
from fedlore_lab.paper.case import run_measured, run_simulated
from fedlore_lab.paper.report import distinct
from fedlore_lab.paper.tasks import PAPER_TASKS

from .small import FEW, QUICK, protocol, small_task, some_cokes


@pytest.mark.slow
def test_approaches_are_written_as_rows_and_a_table(tmp_path, monkeypatch):
    monkeypatch.setitem(PAPER_TASKS, "covtype", small_task())
    arguments = ["approaches", "--protocol", protocol(tmp_path), "--out", str(tmp_path)]
    result = CliRunner().invoke(
        command.paper_app, [*arguments, "--seeds", "1", "--range", "oracle"]
    )
    assert result.exit_code == 0, result.output
    text = (tmp_path / "approaches-covtype-small.md").read_text()
    assert "FLwKM" in text and "label inside" in text and "100.00" in text
    assert len(read_rows(tmp_path / "approaches-covtype-small.jsonl")) == 8 * 5
    page = (tmp_path / "report-covtype-small" / "report.html").read_text()
    assert "Accuracy over the rounds" in page and "onfusion" in page


def test_a_row_that_two_tables_hold_is_shown_once():
    row = {"dataset": "a", "approach": "FL", "client": "1", "seed": 0, "trust": None, "ta": 0.5}
    other = row | {"seed": 1}
    assert distinct([row, other, dict(row)]) == [row, other]


@pytest.mark.slow
def test_the_case_goes_on_without_the_real_cokes(tmp_path, monkeypatch):
    def absent(seeds, out, **settings):
        raise FedloreError("no such file")

    monkeypatch.setattr(command, "run_simulated", lambda n, o, **k: run_simulated(n, o, demo=QUICK))
    monkeypatch.setattr(command, "run_measured", absent)
    result = CliRunner().invoke(command.paper_app, ["case", "--seeds", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "The real cokes are left out: no such file" in result.output
    text = (tmp_path / "case-coke.md").read_text()
    assert "The paper's own coking case" in text and "imulated" in text


@pytest.mark.slow
def test_real_cokes_are_told_with_the_uncertainty_of_few_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(realcoke, "real_cokes", lambda folder: some_cokes())
    monkeypatch.setattr(command, "run_simulated", lambda n, o, **k: run_simulated(n, o, demo=QUICK))
    monkeypatch.setattr(command, "run_measured", lambda n, o, **k: run_measured(n, o, case=FEW))
    result = CliRunner().invoke(command.paper_app, ["case", "--seeds", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "seeds do not narrow it" in (tmp_path / "case-coke-real.md").read_text()
