"""fedlore algorithms: everything a reader needs to choose."""

import json

import pytest
from typer.testing import CliRunner

from fedlore.algorithms import ALGORITHMS, make, settings_of
from fedlore.cli.app import app


@pytest.fixture
def listing(monkeypatch):
    def run(*arguments, columns="160"):
        monkeypatch.setenv("COLUMNS", columns)
        result = CliRunner().invoke(app, ["algorithms", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    return run


def test_every_algorithm_is_listed_with_paper_settings_traffic_and_needs(listing):
    shown = listing()
    for name, kind in ALGORITHMS.items():
        assert name in shown and kind.facts.paper.split()[0] in shown
        for setting in settings_of(kind):
            assert setting.name in shown and setting.symbol in shown
            assert setting.meaning in shown
    assert "2 + 2" in shown and "0 + 0" in shown and "median" in shown
    assert "needs: memory at the clients, every client in every round" in shown


def test_it_fits_a_narrow_terminal(listing):
    assert all(len(line) <= 80 for line in listing(columns="80").splitlines())


def test_json_can_be_read_and_its_defaults_make_the_algorithms(listing):
    found = json.loads(listing("--json"))
    assert list(found) == list(ALGORITHMS)
    for name, about in found.items():
        assert make(name, **{s["name"]: s["default"] for s in about["settings"]}) == make(name)
        assert all(s["meaning"] for s in about["settings"])
    assert found["scaffold"]["down"] == found["scaffold"]["up"] == 2
    assert "every client in every round" in found["scaffnew"]["needs"]
