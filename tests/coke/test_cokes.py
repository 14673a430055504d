"""Real cokes: every row used or counted, and the simulated plants beside them."""

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from fedlore.errors import FedloreError
from fedlore_coke.coal import FEWEST, real_cokes

from .measure import SEEDS, column, over_seeds, plants, pooled, regress


@pytest.fixture(scope="module")
def cokes():
    try:
        return real_cokes()
    except FedloreError:
        pytest.skip("coke_quality_342.csv.gz is not here; FEDLORE_DATA names its folder")


def test_every_row_is_used_or_counted(cokes):
    used = {name: len(site.csr) for name, site in cokes.sites.items()}
    assert used == {"1+2": 45, "3": 68, "4": 94, "CHN": 16}
    assert sum(used.values()) + sum(cokes.left_out.values()) == 342
    assert min(used.values()) >= FEWEST


def test_blanks_are_filled_and_marked(cokes):
    site = cokes.sites["3"]  # measured reflectance and its histogram, but no caking
    assert site.x.shape[1] == 16 and site.x.isfinite().all()
    mt, std, ro, v9, g, x, y = site.x[:, 9:].mean(0).tolist()
    assert (ro, v9) == (1.0, 1.0) and (mt, std, g, x, y) == (0.0,) * 5
    assert (site.x[:, 6] == 80.0).all()  # the typical G


def test_no_coke_is_there_twice(cokes):
    marks = [
        (round(float(x[0]), 2), round(float(x[1]), 2), round(float(csr), 2))
        for site in cokes.sites.values()
        for x, csr in zip(site.x, site.csr, strict=True)
    ]
    assert len(set(marks)) == len(marks)


def test_absent_file_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FedloreError, match="coke_quality_342.csv.gz .*licence.*FEDLORE_DATA"):
        real_cokes(tmp_path)


REAL = Path(os.environ.get("FEDLORE_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture(scope="module")
def real() -> list[dict[str, str]]:
    path = REAL / "coke_quality_342.csv.gz"
    if not path.exists():
        pytest.skip("coke_quality_342.csv.gz is not here; FEDLORE_DATA names its folder")
    with gzip.open(path, "rt", newline="") as lines:
        return list(csv.DictReader(lines))


def numbers(rows: list[dict[str, str]], *names: str) -> np.ndarray:
    """The rows in which all of the names were measured."""
    kept = [[float(r[name]) for name in names] for r in rows if all(r[name] for name in names)]
    return np.array(kept)


def test_line_of_csr_on_cri_is_that_of_real_cokes(real: list[dict[str, str]]) -> None:
    cri, csr = numbers(real, "CRI", "CSR").T
    (_, truth), _, s = regress(cri[:, None], csr)
    slopes, spreads = [], []
    for seed in SEEDS:
        _, mine, other = pooled(seed)
        (_, slope), _, spread = regress(other[:, None], mine)
        slopes.append(slope)
        spreads.append(spread)
    assert abs(float(np.mean(slopes)) - truth) < 0.25
    assert abs(float(np.mean(spreads)) - s) < 1.0


def test_plants_have_the_levels_of_real_sources(real: list[dict[str, str]]) -> None:
    for plant, source in enumerate(("2", "3", "4", "CHN")):
        rows = [r for r in real if r["source"] == source]
        cri, csr = numbers(rows, "CRI", "CSR").mean(0)
        assert abs(over_seeds(plant, lambda p: float(p.test_coke.csr.mean())) - csr) < 2.5
        assert abs(over_seeds(plant, lambda p: float(p.test_coke.cri.mean())) - cri) < 2.5


def test_narrow_plant_is_like_source_four(real: list[dict[str, str]]) -> None:
    rows = [r for r in real if r["source"] == "4"]
    for name in ("Mt", "Ad", "Vdaf", "G", "X", "Y"):
        values = numbers(rows, name)
        level = np.mean([column(plants(seed)[2].test.x, name).mean() for seed in SEEDS])
        assert abs(level - values.mean()) < 2.0 * values.std(), name


def test_most_simulated_blends_lie_within_what_was_measured(real: list[dict[str, str]]) -> None:
    for name in ("Vdaf", "Ad", "Ro", "G", "Y"):
        low, high = np.quantile(numbers(real, name), (0.01, 0.99))
        values = np.concatenate([column(p.test.x, name) for p in plants(0)])
        assert ((values >= low) & (values <= high)).mean() > 0.9, name
