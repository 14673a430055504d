"""A deployed federation in which a site has shapes: an agreed network, and nothing on the wire."""

import json

import pytest
import torch

from fedlore.core.lipschitz import Lipschitz
from fedlore.core.rng import stream
from fedlore.federation.household import local_sites
from fedlore.federation.site.export import bundle_of_kit
from fedlore.federation.site.settled import BROUGHT

from .inside import Inside, edited, small

SHAPE = '\n[[shape.sources]]\nfeature = "MBI"\neffect = "lowers"\n'


MENU = """
[menu]
folds = 2
finishes = [0]
[[menu.candidates]]
head = "shaped"
hidden = [4]

[model]"""


@pytest.mark.slow
def test_the_sites_of_lore_keep_theirs_in_a_deployed_federation(tmp_path, monkeypatch):
    folder = small(tmp_path / "fed", rounds=2)
    home, other, *_ = local_sites(folder)
    known = home / "knowledge.toml"
    known.write_text(known.read_text() + SHAPE)
    edited(
        folder / "federation.toml",
        ("hidden = [6]", "hidden = [6]\nlipschitz = true"),
        ('recipe = "none"', 'recipe = "lore"'),
        ("\n[model]", MENU),
    )
    inside = Inside(folder, monkeypatch)
    inside.train()
    personal, free = (bundle_of_kit(site).personal for site in (home, other))
    assert personal.knowledge.shapes is not None and personal.beside is not None
    column = personal.knowledge.schema.column("MBI")
    ends = [(f.low, f.high) for f in personal.knowledge.schema.features]
    low, high = (torch.tensor(end) for end in zip(*ends, strict=True))
    x = low + (high - low) * torch.rand(200, len(ends), generator=stream("rows"))
    more = x.clone()
    more[:, column] += 0.5 * (high[column] - x[:, column])
    rows = [personal.annotate(t).allowed for t in (x, more)]
    same = (rows[0] == rows[1]).all(1)
    below, above = (personal.predict_proba(t).double().cumsum(1) for t in (x, more))
    assert same.sum() > 20 and (above >= below - 1e-5)[same].all()
    names = [[member.name for member in p.beside.members] for p in (personal, free)]
    assert not any(name.startswith("quadratic") for name in names[0])
    told = json.loads((home / BROUGHT).read_text())
    assert told["left out"].startswith("Left out so that the shapes hold for sure (MBI lowers)")
    assert not any(b"lowers" in part for part in inside.wire)


def test_a_site_keeps_its_shapes_and_tells_nobody(tmp_path, monkeypatch):
    folder = small(tmp_path / "fed", rounds=2)
    edited(folder / "federation.toml", ("hidden = [6]", "hidden = [6]\nlipschitz = true"))
    home = local_sites(folder)[0]
    known = home / "knowledge.toml"
    known.write_text(known.read_text() + SHAPE)
    inside = Inside(folder, monkeypatch)
    inside.train()
    found = bundle_of_kit(home)
    personal = found.personal
    assert isinstance(personal.inner.model, Lipschitz)
    assert personal.knowledge.shapes is not None
    column = found.schema.column("MBI")
    feature = found.schema.features[column]
    low = torch.tensor([[f.low + 0.4 * (f.high - f.low) for f in found.schema.features]])
    low = low.repeat(20, 1)
    low[:, column] = torch.linspace(feature.low, feature.high, 20)
    allowed = personal.annotate(low).allowed
    same = torch.ones(19, dtype=torch.bool)
    if allowed is not None and not personal.knowledge.orders.ranges[0].kept:
        same = (allowed[1:] == allowed[:-1]).all(1)
    said = personal.predict(low)
    assert (said[1:] <= said[:-1])[same].all()
    assert not any(word in part for part in inside.wire for word in (b"lowers", b"MBI lowers"))
