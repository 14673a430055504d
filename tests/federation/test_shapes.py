"""A deployed federation in which a site has shapes: an agreed network, and nothing on the wire."""

import torch

from fedlore.coke.trial import trial_sites
from fedlore.core.lipschitz import Lipschitz
from fedlore.federation.site.export import bundle_of_kit

from .inside import Inside, edited, small

SHAPE = '\n[[shape.sources]]\nfeature = "MBI"\neffect = "lowers"\n'


def test_a_site_keeps_its_shapes_and_tells_nobody(tmp_path, monkeypatch):
    folder = small(tmp_path / "fed", rounds=2)
    edited(folder / "federation.toml", ("hidden = [6]", "hidden = [6]\nlipschitz = true"))
    home = trial_sites(folder)[0]
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
