"""The regression study: honest splits, the guarantee in every row, tables one can redo by hand."""

import json

import pytest
import torch
from typer.testing import CliRunner

from fedlore import ConfigError, FedloreError, Plan
from fedlore.answers import Bins, Line, Measured
from fedlore.answers.measured import rmse
from fedlore.core.rng import stream
from fedlore.data.public import first_found, places
from fedlore.look.tables import Cell
from fedlore_lab.paper import command as command
from fedlore_lab.paper import number_sets as regression_data
from fedlore_lab.paper import number_study as regression
from fedlore_lab.paper import number_study as regression_tables
from fedlore_lab.paper.number_sets import SOURCES, NumberRows, load_numbers, oracle_sets, sites
from fedlore_lab.paper.number_study import NumberStudy, run_regression, train_direct

TINY = {"rounds": 2, "hidden": (8,), "plan": Plan(steps=4, batch=16, lr=0.1)}


def made(n: int = 600) -> NumberRows:
    """A stand-in with the bounds of concrete: y = 40 + 10·x0 + 5·x1·x2 + noise."""
    g = stream("made")
    x = torch.rand(n, 6, generator=g) * 2 - 1
    noise = torch.rand(n, generator=g)
    y = (40 + 10 * x[:, 0] + 5 * x[:, 1] * x[:, 2] + noise).double()
    return NumberRows("concrete", tuple(f"c{i}" for i in range(6)), x, y, x[:, 0].double())


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(regression, "load_numbers", lambda name, folder=None: made())


def test_an_oracle_set_holds_the_label_and_the_experts_number():
    cut, g = Bins(0.0, 10.0, 2), stream("oracle")
    y, said = 10 * torch.rand(2, 500, generator=g, dtype=torch.float64)
    sets = oracle_sets(y, said, cut, g)
    assert sets.holds(y).all() and sets.holds(said).all()
    assert (sets.lower[~sets.lower.isnan()] >= 0).all() and float(sets.length.max()) <= 3.0 + 1e-9
    assert float(sets.length.mean()) < 3.0


def test_clients_differ_and_no_row_has_two_roles():
    rows = made()
    own = sites(rows, seed=0)
    assert [s.id for s in own] == [f"site-{i}" for i in range(1, 6)]
    spans = [(float(s.train.x[:, 0].min()), float(s.train.x[:, 0].max())) for s in own]
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    seen = torch.cat([part.x for s in own for part in (s.train, s.test)])
    assert len(torch.unique(seen, dim=0)) == len(seen)
    assert len(seen) < 0.7 * len(rows.x)  # the rest made the experts
    for site in own:
        told = site.knowledge["oracle"].annotate(
            site.test, Line(Bins(0.0, 85.0, 2)), training=False
        )
        assert not told.missed.any() and told.conflicts == 0


def test_the_same_seed_deals_the_same_rows_and_another_one_others():
    a, b, c = (sites(made(), seed=s)[0].test.x for s in (0, 0, 1))
    assert torch.equal(a, b) and not torch.equal(a, c)


@pytest.mark.slow
def test_every_approach_that_carries_the_range_stays_in_it(stand_in):
    rows = run_regression(NumberStudy("concrete", bins=(5,), seeds=1, **TINY))
    names = [r["approach"] for r in rows if r["range"] == "honest" and r["client"] == "site-1"]
    assert set(regression_tables.SEVEN) | set(regression_tables.WITHOUT_BINS) == set(names)
    assert regression_tables.worst_violation(rows) == 0.0
    free = [r["pov"] for r in rows if r["approach"] in ("ML", "FL") and r["range"] == "oracle"]
    assert max(free) > 0
    keys = {"dataset", "range", "k", "approach", "client", "seed", "rmse", "mae", "r2", "pov"}
    assert all(keys | {"coverage", "width"} <= set(row) for row in rows)
    assert all(json.dumps(dict(row), allow_nan=False) for row in rows)


@pytest.mark.slow
def test_what_is_there_is_not_run_again(stand_in, monkeypatch):
    study = NumberStudy("concrete", bins=(5,), seeds=1, **TINY)
    before: list = []
    rows = run_regression(study, on_rows=lambda found, part: before.append(part))
    parts = ["no bins, local best", "no bins, direct FL", "5 bins, FLwKM", "5 bins, lore"]
    assert before == [f"concrete, seed 0, {part}" for part in parts]
    again = run_regression(study, done=rows, on_rows=lambda *_: pytest.fail("ran again"))
    assert again == rows


def test_the_network_without_bins_learns_a_line_alone_and_together():
    g = stream("line")
    data = []
    for shift in (-0.5, 0.5):
        x = torch.randn(80, 2, generator=g) + shift
        data.append(Measured(x, (5 + x[:, 0]).clamp(0, 10).double()))
    for alone in (True, False):
        plan = Plan(steps=20, batch=16, lr=0.1)
        models = train_direct(
            data, Bins(0.0, 10.0, 2), hidden=(8,), plan=plan, rounds=10, seed=0, alone=alone
        )
        predicted = models[0].predict(data[0].x)
        assert rmse(predicted, data[0].y) < 0.3
        assert ((predicted >= 0) & (predicted <= 10)).all()
        same = torch.equal(models[0].predict(data[1].x), models[1].predict(data[1].x))
        assert same is not alone


def row(approach, k, seed, value, client="a", kind="honest", pov=0.0):
    return {
        "dataset": "concrete", "approach": approach, "k": k, "seed": seed, "client": client,
        "range": kind, "rmse": value, "mae": value, "r2": 0.5, "pov": pov, "coverage": 0.9,
        "width": 3.0,
    }  # fmt: skip


def test_tables_one_can_redo_by_hand():
    rows = [row("lore", 10, s, 1.0 + s, client=c) for s in (0, 1) for c in ("a", "b")]
    rows += [row(n, 10, s, 3.0 + s) for n in ("P-KM", "ML", "MLwKM", "FL") for s in (0, 1)]
    rows += [row("local best", 0, s, 2.0 + s) for s in (0, 1)]
    rows += [row("direct FL", 0, s, 0.5) for s in (0, 1)]
    table = regression_tables.rmse_table(rows, "honest", "MPa")
    assert table.head == ("approach", "k = 10") and table.body[0][0].text == "local best"
    assert (Cell("direct FL"), Cell("0.500 ± 0.000", True)) in table.body
    assert regression_tables.beats(rows, k=10, kind="honest")
    won = [r for r in rows if r["approach"] != "local best"]
    won += [row("local best", 0, s, 0.9 + s) for s in (0, 1)]
    assert not regression_tables.beats(won, k=10, kind="honest")  # the honest baseline counts
    gap = regression_tables.number_margins(rows, k=10, kind="honest")["direct FL"]
    assert gap.mean == 1.0
    page = regression_tables.report(rows, unit="MPa")
    assert "| lore | 1.500 | 1.500 | 0.500 | 0 | 90.0 | 3.000 |" in page
    assert regression_tables.worst_violation([row("lore", 10, 0, 1.0, pov=0.1)]) == 0.1


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="unknown data set 'concret'; did you mean 'concrete'"):
        NumberStudy("concret")
    with pytest.raises(FedloreError, match="at least 2 bins, got 1"):
        NumberStudy("coal", bins=(1,))
    with pytest.raises(ConfigError, match="seeds must be at least 1, got 0"):
        NumberStudy("coal", seeds=0)


@pytest.mark.slow
def test_the_command_writes_rows_and_tables(stand_in, monkeypatch, tmp_path):
    import typer

    def small(dataset, bins, seeds):
        return NumberStudy(dataset, bins=bins, seeds=seeds, **TINY)

    monkeypatch.setattr(command, "NumberStudy", small)
    app = typer.Typer()
    app.command()(command.regression)
    options = ["--dataset", "concrete", "--bins", "5", "--seeds", "1", "--out", str(tmp_path)]
    found = CliRunner().invoke(app, options)
    assert found.exit_code == 0, found.output
    assert "no prediction left its set" in found.output
    lines = (tmp_path / "regression-concrete.jsonl").read_text().splitlines()
    assert {json.loads(line)["k"] for line in lines} == {0, 5}
    page = (tmp_path / "regression-concrete.md").read_text()
    assert "| lore |" in page and page.index("| local best |") < page.index("| P-KM |")
    html = (tmp_path / "regression-concrete.html").read_text()
    assert "made from the labels" in html and ">lore</th>" in html
    again = CliRunner().invoke(app, [*options[:2], "--bins", "five"])
    assert isinstance(again.exception, ConfigError)


@pytest.mark.parametrize("name", SOURCES)
def test_the_real_files(name):
    if first_found(SOURCES[name].file, places()) is None:
        pytest.skip(f"{SOURCES[name].file.name} is not in FEDLORE_DATA")
    rows, source = load_numbers(name), SOURCES[name]
    assert ((rows.y >= source.lower) & (rows.y <= source.upper)).all()
    together = torch.cat([rows.x.double(), rows.y.unsqueeze(1)], 1)
    assert len(together) > 1000 and rows.x.isfinite().all()
    own = sites(rows, seed=0)
    cut = Bins(source.lower, source.upper, 10)
    held = [1 - float(_told(s, cut).missed.double().mean()) for s in own]
    assert sum(held) / len(held) > 0.95
    if name == "coal":  # the defect of the published column is undone
        missed = [rmse(_told(s, cut).said, s.test.y) for s in own]
        assert sum(missed) / len(missed) < 0.5


def _told(site, cut):
    return site.knowledge["honest"].annotate(site.test, Line(cut), training=False)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FedloreError, match="concrete was not found .* concrete.npz .sha256"):
        regression_data.load_numbers("concrete", tmp_path)
