"""Shapes, soft rules and trust by region in a deployed federation stay at home."""

import json

import pytest
import torch

from fedlore.bundle import answer_rows
from fedlore.core.rng import stream
from fedlore.federation.household import local_sites
from fedlore.federation.site.export import bundle_of_kit
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.lore import BENEFIT
from fedlore.knowledge.soft import has_soft

from .inside import Inside, edited, small
from .test_chosen import chosen

SHAPE = '\n[[shape.sources]]\nfeature = "MBI"\neffect = "lowers"\n'
SOFT = '\n[[range.sources]]\ntable = "habits.csv"\n'
RULES = "Ro [%],then,confidence,rule\n> 1.1,CSR56..CSR68,90 %,secretly high rank\n"
TRUST = """
[trust]
value = 0.1
features = ["Ro"]
[[trust.regions]]
where = "MBI > 1.2"
trust = 0.9
"""
SHAPED = """
[search_space]
folds = 2
finishes = [0]
[[search_space.candidates]]
head = "shaped"
hidden = [4]

[model]"""


def check_shape(home, found):
    personal = found.personal
    column = found.schema.column("MBI")
    low, high = (
        torch.tensor([getattr(f, end) for f in found.schema.features]) for end in ("low", "high")
    )
    x = low + (high - low) * torch.rand(200, len(low), generator=stream("rows"))
    more = x.clone()
    more[:, column] += 0.5 * (high[column] - x[:, column])
    rows = [personal.annotate(t).allowed for t in (x, more)]
    same = (rows[0] == rows[1]).all(1)
    below, above = (personal.predict_proba(t).double().cumsum(1) for t in (x, more))
    assert same.sum() > 20 and (above >= below - 1e-5)[same].all()


def check_soft(home, found):
    assert has_soft(found.personal.knowledge.prediction) and "soft rules" in found.card


def check_trust(home, found):
    rows = read_kit(home).client(found.schema).data.x
    answers = answer_rows(found, rows)
    there = (rows[:, found.schema.column("MBI")] > 1.2) & (answers.expert >= 0)
    assert there.any() and (answers.trust[there] == torch.tensor(0.9)).all()


#: What the first site adds to its knowledge, words that must stay there, and how it shows.
KINDS = {
    "shape": (SHAPE, (b"lowers",), check_shape),
    "soft": (SOFT, (b"secretly", b"confidence"), check_soft),
    "trust": (TRUST, (b"MBI > 1.2",), check_trust),
}


@pytest.mark.parametrize("lore", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_site_keeps_its_knowledge_and_tells_nobody(kind, lore, tmp_path, monkeypatch):
    more, words, check = KINDS[kind]
    shaped = kind == "shape"
    folder = tmp_path / "fed"
    small(folder, rounds=2) if shaped or not lore else chosen(folder)
    if shaped:
        changes = [("hidden = [6]", "hidden = [6]\nlipschitz = true")]
        changes += [('recipe = "none"', 'recipe = "lore"'), ("\n[model]", SHAPED)] if lore else []
        edited(folder / "federation.toml", *changes)
    home, other, *_ = local_sites(folder)
    path = home / "knowledge.toml"
    lines = path.read_text().splitlines()
    kept = [line for line in lines if kind != "trust" or not line.startswith("trust")]
    path.write_text("\n".join(kept) + more)
    (home / "habits.csv").write_text(RULES)
    inside = Inside(folder, monkeypatch)
    inside.train()
    found = bundle_of_kit(home)
    check(home, found)
    assert not any(word in part for part in inside.wire for word in words)
    assert (found.personal.ensemble is not None) == lore
    if shaped and lore:
        names = [member.name for member in found.personal.ensemble.members]
        assert not any(name.startswith("quadratic") for name in names)
        left = json.loads((home / BENEFIT).read_text())["left out"]
        assert left.startswith("Left out so that the shapes hold for sure (MBI lowers)")
