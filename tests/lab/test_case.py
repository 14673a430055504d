"""The coking case: experts refitted at home, honest bands, and runs that go on."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedlore.cli.app import app
from fedlore.core.history import read_rows
from fedlore.experiments import APPROACHES
from fedlore_coke import coal
from fedlore_coke.coal import MeasuredCokes
from fedlore_lab.paper import realcoke
from fedlore_lab.paper.realcoke import (
    VOLATILE,
    CsrBand,
    Rank,
    over_rows,
    refit_equation,
    run_measured,
    run_simulated,
    site,
)

from .small import FEW, QUICK, coals, some_cokes


@given(st.integers(0, 10_000), st.booleans())
def test_leave_one_out_residuals_are_those_of_fits_without_the_row(seed, reflectance):
    rows = coals(9, seed, reflectance=reflectance)
    rank, apart = refit_equation(rows.x, rows.csr)
    assert len(rank.numbers) == (3 if reflectance else 2)
    for i in (0, 8):
        others = torch.arange(9) != i
        without, _ = refit_equation(rows.x[others], rows.csr[others])
        error = float(rows.csr[i] - without(rows.x[i : i + 1])[0])
        assert float(apart[i]) == pytest.approx(error, rel=1e-5, abs=1e-5)


def test_a_line_is_found_again():
    x = coals(20, 0, reflectance=False).x
    rank, apart = refit_equation(x, 94.9 - 1.72 * x[:, VOLATILE].double())
    assert rank.numbers == pytest.approx((94.9, -1.72)) and apart.abs().max() < 1e-6


def test_a_band_allows_the_grades_it_touches():
    x = torch.zeros(1, 16)
    x[0, VOLATILE] = 25.0
    rank = Rank(VOLATILE, (94.9, -1.72))  # 51.9
    edges = (30.0, 40.0, 50.0, 60.0)
    assert CsrBand(rank, 1.0, edges)(x).tolist() == [[False, False, False, True, False]]
    assert CsrBand(rank, 2.0, edges)(x).tolist() == [[False, False, True, True, False]]
    assert CsrBand(rank, float("inf"), edges)(x).all()


def test_a_site_does_not_see_what_it_is_tested_on():
    rows = coals(30, 1)
    out = torch.tensor([0, 1, 2])
    changed = MeasuredCokes(rows.x, rows.csr.index_fill(0, out, 99.0))
    one, other = (site("a", r, out, FEW) for r in (rows, changed))
    assert torch.equal(one.test.prior, other.test.prior)
    assert torch.equal(one.test.allowed, other.test.allowed)
    assert len(one.data) == 27 and len(one.test) == 3


@pytest.fixture
def cokes(monkeypatch):
    monkeypatch.setattr(realcoke, "real_cokes", lambda folder: some_cokes())


@pytest.mark.slow
def test_every_real_row_is_tested_once(cokes, tmp_path):
    rows = run_measured(1, tmp_path, case=FEW)
    assert {(r["client"], r["test_rows"]) for r in rows} == {("a", 20), ("b", 15)}
    assert all(r["pov"] == 0.0 for r in rows if r["approach"] not in ("ML", "FL"))
    for row in rows:
        right = row["ta"] * row["test_rows"]
        assert right == pytest.approx(round(right))
        assert (row["dataset"], row["range"], row["share"]) == ("coke-real", "conformal90", 1.0)
        assert 0.5 < row["coverage"] <= 1.0


@pytest.mark.slow
def test_finished_seeds_are_not_computed_again(tmp_path, monkeypatch):
    first = run_simulated(1, tmp_path, demo=QUICK)
    assert {(r["dataset"], r["range"]) for r in first} == {("coke", "expert")}
    asked = []

    def counted(demo, *, seed):
        asked.append(seed)
        return real(demo, seed=seed)

    real = realcoke.run_demo
    monkeypatch.setattr(realcoke, "run_demo", counted)
    both = run_simulated(2, tmp_path, demo=QUICK)
    assert asked == [1] and both[: len(first)] == first


def test_the_command_tells_each_seed_and_leaves_out_what_is_not_there(tmp_path, monkeypatch):
    row = {"client": "a", "ta": 0.5, "pov": 0.0}
    rows = [row | {"approach": approach.name} for approach in APPROACHES]
    monkeypatch.setattr(
        realcoke, "run_demo", lambda demo, *, seed: [r | {"seed": seed} for r in rows]
    )
    monkeypatch.setattr(coal, "places", lambda folder: [tmp_path])
    done = CliRunner().invoke(app, ["paper", "case", "--seeds", "2", "--out", str(tmp_path / "o")])
    assert done.exit_code == 0, done.exception
    assert "The real cokes are left out" in done.output
    assert len(read_rows(tmp_path / "o" / "case-coke.jsonl")) == 2 * len(APPROACHES)


def test_intervals_of_few_rows_do_not_shrink_with_seeds():
    row = {"client": "a", "ta": 0.5, "test_rows": 100}
    one, many = over_rows([row]), over_rows([row] * 10)
    assert one == many and one.half == pytest.approx(1.96 * 0.05)
