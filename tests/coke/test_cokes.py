"""The file of real cokes: found or not, cleaned and counted."""

import pytest

from fedlore.errors import FedloreError
from fedlore_coke.measured import FEWEST, real_cokes


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
