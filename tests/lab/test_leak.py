"""The audit from end to end, small: rows, resuming, the recommendation, the command."""

from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from fedlore import FedloreError, Plan
from fedlore.cli.app import app
from fedlore.core.history import read_rows
from fedlore.core.rng import stream
from fedlore_lab.leak import audit as leak_module
from fedlore_lab.leak import observe as leak_observe
from fedlore_lab.leak.attacks import ATTACKS, attack
from fedlore_lab.leak.audit import audit, draw_case
from fedlore_lab.leak.observe import Observed
from fedlore_lab.leak.page import (
    KNOWLEDGE,
    leak_plots,
    leak_tables,
    leak_verdict,
    lines,
    recommend,
    write_leaks,
)
from fedlore_lab.leak.score import score_leak
from fedlore_lab.leak.settings import settings_named

QUICK = """
rounds = 2
[model]
hidden = [6]
[plan]
epochs = 1
"""

CHOSEN = settings_named(
    [
        *("plain", "private head", "mask", "lore 1", "sum", "sum, collusion", "sum of 2"),
        *("mask, sum", "lore 1, sum", "DP 100, sum"),
    ]
)


@pytest.fixture(autouse=True, scope="module")
def few_looks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leak_observe, "PROBES", 3)
        patch.setattr(leak_observe, "DRAWINGS", 1)
        patch.setitem(leak_module.ELSEWHERE, "coke", 2)
        yield


def small(seed):
    """The simulated plants, trained a little."""
    it = draw_case("coke")(seed)
    return replace(it, rounds=2, plan=Plan(epochs=1, batch=32, lr=0.05))


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    out = tmp_path_factory.mktemp("audit")
    return audit("coke", small, settings=CHOSEN, seeds=range(3), out=out), out


@pytest.fixture
def by_name(rows):
    return {line.setting.name: line for line in lines(rows[0])}


def shorter(seed):
    return replace(small(seed), rounds=1)


def test_every_setting_seed_and_site_has_a_row(rows):
    found, out = rows
    assert len({(r["setting"], r["seed"], r["site"]) for r in found}) == len(found)
    assert len(found) == len(CHOSEN) * 3 * 4
    assert read_rows(out / "leak-coke.jsonl") == found
    assert all(0 <= r["ta"] <= 1 for r in found)


def test_the_known_leak_is_found_exactly_and_only_where_uploads_are_seen(by_name):
    assert by_name["plain"].leaks["union"].score == 1.0
    assert by_name["lore 1"].leaks["union"].score == 1.0
    assert by_name["plain"].leaks["row range"].score > 0.8
    assert by_name["private head"].leaks["row range"].score > 0.8
    for name in ("sum", "lore 1, sum"):
        assert by_name[name].leaks["union"].score < 0.5
        right = by_name[name].leaks["row right"]
        assert right is None or right.at_chance


def test_what_is_not_in_the_training_is_not_attacked(by_name):
    assert by_name["mask"].leaks["trust"] is None
    assert by_name["lore 1"].leaks["row right"] is None
    assert by_name["plain"].leaks["trust"] is not None


def test_views_of_one_training_have_one_accuracy(by_name):
    assert by_name["plain"].ta == by_name["sum"].ta == by_name["sum, collusion"].ta
    assert by_name["sum"].loss.mean == 0.0


def test_the_control_says_what_the_labels_told(by_name):
    assert by_name["plain"].beyond.score == 1.0
    assert by_name["mask"].beyond is None
    assert by_name["sum, collusion"].beyond is None


def test_a_finished_cell_is_not_computed_again(tmp_path, monkeypatch):
    chosen = settings_named(["plain"])
    first = audit("coke", small, settings=chosen, seeds=range(3), out=tmp_path)

    def never(*_):
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(leak_module.Watchtower, "observe", never)
        assert audit("coke", small, settings=chosen, seeds=range(3), out=tmp_path) == first
        with pytest.raises(AssertionError, match="computed again"):  # another plan, another cell
            audit("coke", shorter, settings=chosen, seeds=range(3), out=tmp_path)
    (tmp_path / "cells" / "coke-0-plain.npz").write_bytes(b"no archive")
    with pytest.raises(FedloreError, match="not a cell of an audit"):
        audit("coke", small, settings=chosen, seeds=range(3), out=tmp_path)


def row(setting, ta, error=0.5):
    scores = {f"{a} {w}": v for a in ATTACKS for w, v in (("error", error), ("chance", 0.5))}
    return {"case": "c", "setting": setting, "seed": 0, "site": "s", "ta": ta, **scores}


def test_only_quiet_settings_that_cost_little_are_recommended():
    found = lines([row("plain", 0.8, 0.0), row("sum", 0.795, 0.5), row("mask, sum", 0.7, 0.5)])
    assert [line.setting.name for line in recommend(found)] == ["sum"]
    assert "under: sum (79.5 %)" in leak_verdict(found)
    assert "No setting" in leak_verdict(found[:1])


@pytest.mark.slow
def test_the_page_has_tables_and_a_plot_for_every_site(rows, tmp_path):
    found, _ = rows
    page = write_leaks(found, tmp_path, title="Leak audit: coke", facts={"seeds": "0, 1, 2"})
    assert {p.name for p in leak_plots(found)} == {"leak-coke"} | {
        f"leak-coke-plant-{i}" for i in range(1, 5)
    }
    assert (tmp_path / "plots" / "leak-coke-plant-3.png").exists()
    assert "1.00 [1.00, 1.00]" in page.read_text()
    table = leak_tables(lines(found))[0]
    assert table.head[3:-1] == KNOWLEDGE and len(table.body) == len(CHOSEN)
    assert "private head" in (tmp_path / "leak-coke.md").read_text()


def test_the_command_audits_given_sites(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    runner = CliRunner()
    assert runner.invoke(app, ["new", "d"]).exit_code == 0
    (tmp_path / "d" / "federation.toml").write_text(QUICK)
    arguments = ["leak", "--sites", "d/federation.toml", "--seeds", "1", "--out", "o"]
    done = runner.invoke(app, [*arguments, "--settings", "plain; sum"])
    assert done.exit_code == 0, done.exception
    assert "sites: leaks and accuracy" in done.output and "1.00" in done.output
    assert len(read_rows(tmp_path / "o" / "leak-sites.jsonl")) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--case", "fmnist"], "case must be one of coke, covtype, got 'fmnist'"),
        (["--settings", "plan"], "unknown setting 'plan'; did you mean 'plain'"),
        (["--sites", "nowhere"], "there is no 'nowhere'"),
    ],
)
def test_bad_input_is_named(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in str(CliRunner().invoke(app, ["leak", *arguments]).exception)


def observed(draw, *, m=5, k=7):
    """A federation whose uploads are noise: every site allows five of seven classes at random."""
    allowed = torch.rand(m, k, generator=draw).argsort(1).argsort(1) < 5
    noise = torch.randn(m, k, 6, generator=draw, dtype=torch.float64)
    nan = torch.full((m,), torch.nan, dtype=torch.float64)
    union = allowed.double()
    return Observed(
        tuple(f"site-{i}" for i in range(m)),
        together=torch.zeros(m),
        ta=nan,
        still=torch.zeros(m, k, dtype=torch.bool),
        classes=noise,
        whole=noise[:, 0],
        member=torch.full((m, 2), 0.5, dtype=torch.float64),
        row_range=nan,
        row_right=nan,
        row_truth=torch.ones(m, 2, k, dtype=torch.bool),
        trust_signs=torch.zeros(0, 0, dtype=torch.float64),
        trust=torch.zeros(0, dtype=torch.float64),
        union=union,
        frequency=union / 2,
        labels=union / 5,
        right=torch.rand(m, generator=draw, dtype=torch.float64),
    )


@pytest.mark.slow
def test_attacks_on_noise_are_at_chance():
    draw = stream("noise")
    seen = [observed(draw) for _ in range(30)]
    even = torch.ones(7, dtype=torch.float64)
    usual = {"union": 5 / 7 * even, "frequency": 2.5 / 7 * even, "labels": even / 7}
    found = attack(seen, [[i] * 5 for i in range(30)], usual)
    for name in ("union", "own union", "frequency", "labels", "right"):
        score = score_leak(*found[name])
        assert score.at_chance and abs(score.score) < 0.1, name
