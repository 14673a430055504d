"""A deployed federation in which a site has soft rules: heard at home, not a word on the wire."""

import pytest

from fedlore.federation.household import local_sites
from fedlore.federation.site.export import bundle_of_kit
from fedlore.knowledge.soft import has_soft

from .inside import Inside, small

RULES = "Ro [%],then,confidence,rule\n> 1.1,CSR56..CSR68,90 %,secretly high rank\n"


@pytest.mark.slow
def test_a_site_keeps_its_soft_rules_and_tells_nobody(tmp_path, monkeypatch):
    folder = small(tmp_path / "fed", rounds=2)
    home = local_sites(folder)[0]
    known = home / "knowledge.toml"
    known.write_text(known.read_text() + '\n[[range.sources]]\ntable = "habits.csv"\n')
    (home / "habits.csv").write_text(RULES)
    inside = Inside(folder, monkeypatch)
    inside.train()
    found = bundle_of_kit(home)
    assert has_soft(found.personal.knowledge.prediction)
    assert "soft rules" in found.card
    assert not any(b"secretly" in part or b"confidence" in part for part in inside.wire)
