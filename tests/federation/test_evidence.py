"""Evidence of the sites' watches in a deployed federation: by policy, in sums, under masks."""

import json

import pytest
import torch

from fedlore.bundle.watch import open_record
from fedlore.core.wire import Task
from fedlore.federation.coordinator.evidence import ask_evidence
from fedlore.federation.household import local_sites
from fedlore.federation.remote import QuorumLost, Refusal
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.agreed import find_breach
from fedlore.federation.site.evidence import answer_evidence
from fedlore.federation.site.export import bundle_of_kit
from fedlore.federation.site.folder import read_kit
from fedlore.federation.terms import terms_of

from ..bundle.making import SCHEMA
from .inside import Inside, edited, small


def watching(folder, *, shift, refusing=()):
    """Records of all sites over what they exported; the inputs of each move by a deviation."""
    for home in local_sites(folder):
        one = bundle_of_kit(home)
        data = read_kit(home).client(one.schema).data
        x, y = (t[torch.arange(60) % len(data)] for t in (data.x, data.y))
        record = open_record(home / "own.watch", one, reference=(data.x, data.y))
        record.append(one, x + shift * data.x.std(0) * torch.eye(x.shape[1])[0], y, [""] * 60)
        text = (home / "site.toml").read_text()
        said = "false" if home.name in refusing else "true"
        text = text.replace("evidence = false", f"evidence = {said}", 1)
        (home / "site.toml").write_text('watch = "own.watch"\n' + text)


def trained(folder, monkeypatch):
    inside, lines = Inside(folder, monkeypatch), []
    inside.train(line=lines.append)
    return inside, lines


def test_a_site_gives_evidence_only_where_its_policy_says_so(tmp_path, monkeypatch):
    folder = small(tmp_path / "fed", sites=3, rounds=1)
    trained(folder, monkeypatch)
    edited(folder / "federation.toml", ("evaluate = 0", "watch = true\nevaluate = 0"))
    _, lines = trained(folder, monkeypatch)
    assert any("no evidence of the sites' watches: round 0: 0 of 3" in line for line in lines)
    assert json.loads((folder / "status.json").read_text())["watch"] == []
    watching(folder, shift=2.0, refusing=("plant-1",))
    _, lines = trained(folder, monkeypatch)
    name = read_deployed(folder).schema.features[0].name
    assert any(f"2 sites together: input {name}: no longer as before" in x for x in lines)
    told = json.loads((folder / "status.json").read_text())["watch"]
    assert {one["question"] for one in told if one["alarm"]} >= {f"input {name}"}
    logs = [(home / "audit.jsonl").read_text() for home in local_sites(folder)]
    assert "evidence = false" in logs[0] and "evidence = false" not in logs[2].split("\n")[-3]


@pytest.mark.slow
def test_sums_of_evidence_are_the_same_under_masks(tmp_path, monkeypatch):
    found = []
    for secure in (False, True):
        folder = small(tmp_path / f"fed-{secure}", sites=4, rounds=1)
        trained(folder, monkeypatch)
        watching(folder, shift=0.4)
        for home in local_sites(folder):  # the same coin everywhere
            place = home / "own.watch"
            head, rest = place.read_text().split("\n", 1)
            place.write_text(json.dumps(json.loads(head) | {"seed": 7}) + "\n" + rest)
        changes = [("evaluate = 0", "watch = true\nevaluate = 0")]
        if secure:
            changes += [("secure_aggregation = false", "secure_aggregation = true")]
            changes += [("deadline = 1.0", "deadline = 20.0")]
        edited(folder / "federation.toml", *changes)
        trained(folder, monkeypatch)
        told = json.loads((folder / "status.json").read_text())["watch"]
        found.append([(one["mean"], one["product"]) for one in told])
    assert found[0] and any(mean > 1.5 for mean, _ in found[0])
    for plain, masked in zip(*found, strict=True):
        assert masked == pytest.approx(plain, rel=1e-3, abs=1e-3)


def test_what_is_asked_must_be_what_the_schema_has(tmp_path):
    folder = small(tmp_path / "fed", sites=2, rounds=1)
    terms = terms_of(read_deployed(folder), run="x", participants=2)
    kit = read_kit(local_sites(folder)[0])
    right = {"evidence": {"asked": torch.zeros(4 + len(terms.schema.features)).double()}}
    wrong = {"evidence": {"asked": torch.zeros(3).double()}}
    assert answer_evidence(kit, terms.schema, Task("evidence", 0, right))["plain"].eq(1).all()
    for sent in (wrong, {}):
        with pytest.raises(Refusal, match="about other questions"):
            answer_evidence(kit, terms.schema, Task("evidence", 0, sent))
    assert find_breach(terms, Task("evidence", 0, right)) is None
    assert "asked for once" in find_breach(terms, Task("evidence", 1, right))
    assert "belongs to no trial" in find_breach(terms, Task("evidence", 0, right, trial="0/main/1"))
    with pytest.raises(Refusal, match="not given away"):
        kit.file.policy.refuse(terms, Task("evidence", 0, right))


def test_too_few_answers_are_told_and_the_training_goes_on():
    class Empty:
        def clients(self):
            return ["a"]

        def exchange(self, task, to):
            raise QuorumLost("round 0: nobody")

    lines = []
    assert ask_evidence(Empty(), SCHEMA, lines.append) == ()
    assert lines == ["no evidence of the sites' watches: round 0: nobody"]
