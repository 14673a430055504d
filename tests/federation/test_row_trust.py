"""A deployed federation in which a site trusts its expert by region: nothing of it on the wire."""

import pytest
import torch

from fedlore.bundle.predict import answer_rows
from fedlore.federation.household import local_sites
from fedlore.federation.site.export import bundle_of_kit
from fedlore.federation.site.folder import read_kit

from .inside import Inside, small
from .test_chosen import chosen

TRUST = """
[trust]
value = 0.1
features = ["Ro"]
[[trust.regions]]
where = "MBI > 1.2"
trust = 0.9
"""


def by_region(folder):
    """The first site trusts its expert by region."""
    home = local_sites(folder)[0]
    known = home / "knowledge.toml"
    lines = [x for x in known.read_text().splitlines() if not x.startswith(("trust", "reliance"))]
    known.write_text("\n".join(lines) + TRUST)
    return home


def check_site(home, inside):
    found = bundle_of_kit(home)
    rows = read_kit(home).client(found.schema).data.x
    told = answer_rows(found, rows)
    column = found.schema.column("MBI")
    there = (rows[:, column] > 1.2) & (told.expert >= 0)
    assert there.any() and (told.trust[there] == torch.tensor(0.9)).all()
    assert not any(b"MBI > 1.2" in part for part in inside.wire)
    return found


def test_a_site_trusts_by_region_and_tells_nobody(tmp_path, monkeypatch):
    folder = small(tmp_path / "fed", rounds=1)
    home = by_region(folder)
    inside = Inside(folder, monkeypatch)
    inside.train()
    check_site(home, inside)


@pytest.mark.slow
def test_a_site_that_settles_keeps_what_its_owner_says(tmp_path, monkeypatch):
    folder = chosen(tmp_path / "fed")
    home = by_region(folder)
    inside = Inside(folder, monkeypatch)
    inside.train()
    assert check_site(home, inside).personal.beside is not None
