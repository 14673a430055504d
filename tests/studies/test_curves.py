"""The curves' table and figures, from rows; and the page that shows them."""

from pathlib import Path

import pytest

from fedlore.algorithms import make
from fedlore.core.history import read_rows
from fedlore.core.nets import mlp
from studies.curve_figures import draw, points, table
from studies.curves import ENTRIES, traffic

ROWS = [
    {"algorithm": name, "range": "oracle", "seed": seed, "round": r, "bytes": r * sent, "ta": ta}
    for name, sent, base in (("FedAvg", 1e6, 0.5), ("SCAFFOLD", 2e6, 0.6), ("alone", 0, 0.4))
    for seed in (0, 1)
    for r, ta in ((15, base), (30, base + 0.1 + 0.02 * seed * (name == "SCAFFOLD")))
]


def test_points_are_means_over_seeds():
    assert points(ROWS, "SCAFFOLD", "oracle", "round") == [(15, 60.0), (30, pytest.approx(71.0))]
    assert points(ROWS, "SCAFFOLD", "oracle", "bytes")[1][0] == 60.0


def test_the_table_pairs_differences_by_seed():
    lines = table(ROWS, ["FedAvg", "SCAFFOLD", "alone"]).splitlines()
    assert lines[0] == "| algorithm | MB | oracle, 15 rounds | 30 rounds | against FedAvg |"
    assert lines[2] == "| FedAvg | 30.0 | 50.0 | 60.0 |  |"
    assert lines[3] == "| SCAFFOLD | 60.0 | 60.0 | 71.0 | +11.0 (+10.0 to +12.0) |"
    assert lines[4] == "| alone | 0.0 | 40.0 | 50.0 | -10.0 (-10.0 to -10.0) |"


def test_figures_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    made = draw(ROWS, ["FedAvg", "SCAFFOLD"], ["alone"], tmp_path)
    assert [p.name for p in made] == ["accuracy-by-round.png", "accuracy-by-bytes.png"]
    assert all(p.stat().st_size > 10_000 for p in made)


def test_traffic_is_what_travels():
    params = {name: p.detach() for name, p in mlp(6, 4, hidden=(5,)).named_parameters()}
    size = 4 * sum(p.numel() for p in params.values())
    head = 4 * (5 * 4 + 4)
    wanted = {"fedavg": 2 * size, "fedopt": 2 * size, "scaffold": 4 * size, "alone": 0}
    wanted["fedper"] = 2 * (size - head)
    for name, bytes in wanted.items():
        assert traffic(make(name), make(name).init(params)) == bytes


def test_every_entry_makes_its_algorithm():
    assert len({e.label for e in ENTRIES}) == len(ENTRIES)
    for entry in ENTRIES:
        entry.algorithm()
        for name, values in entry.grid.items():
            for value in values:
                entry.with_(name, value).algorithm()


def test_the_page_shows_the_table_of_the_kept_rows():
    folder = Path(__file__).parents[2] / "docs" / "explain"
    kept = table(read_rows(folder / "img" / "curves.jsonl"), [e.label for e in ENTRIES])
    assert kept in (folder / "algorithms.md").read_text(encoding="utf-8")
