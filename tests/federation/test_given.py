"""What a coordinator gives a site: weighed by the site's own rows before it takes a place."""

import json
from dataclasses import replace

import pytest
import torch

from fedlore.federation.household import local_sites
from fedlore.federation.journal import read_state
from fedlore.federation.remote import Refusal
from fedlore.federation.settings import read_deployed
from fedlore.federation.site import audit
from fedlore.federation.site.folder import read_kit
from fedlore.federation.terms import read_terms
from fedlore.models.own import OwnMember, baseline

from .inside import Inside, around
from .test_chosen import MENU, chosen, own_models

OWN = MENU.replace("own = false", "own = true")
HOSTILE = 50.0  # a network that is sure of what is wrong


@pytest.fixture(scope="module", autouse=True)
def without_trees():
    """Own models in a moment: none of these tests is about trees."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baseline, "has_trees", lambda: False)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished training, and the last task that its first site was given."""
    patch = pytest.MonkeyPatch()
    folder = chosen(tmp_path_factory.mktemp("given") / "fed", sites=3, search_space=OWN)
    inside, asked = Inside(folder, patch), []
    inside.wrap["plant-1"] = around(lambda task: asked.append(task))
    inside.train()
    patch.undo()
    (task,) = (task for task in asked if task.kind == "ensemble")
    return folder, inside.workers["plant-1"], task


def given(task, change, *, folds=True):
    """The same task with other networks, or without those of the folds."""
    kept = {k: b for k, b in task.sent.items() if folds or k.startswith(("main", "one_shot"))}
    return replace(task, sent={k: change(b) if k.startswith("main") else b
                               for k, b in kept.items()})  # fmt: skip


def turned(bundle):
    return {n: -HOSTILE * t if t.is_floating_point() else t for n, t in bundle.items()}


def accuracy(folder):
    kit = read_kit(folder / "sites" / "plant-1")
    rows = kit.client(read_deployed(folder).schema).test
    return float((own_models(folder)["plant-1"].predict_proba(rows.x).argmax(1) == rows.y)
                 .double().mean())  # fmt: skip


@pytest.mark.parametrize("folds", [True, False], ids=["with good folds", "without folds"])
def test_a_network_that_is_wrong_of_the_sites_own_rows_gets_no_weight(finished, folds):
    folder, worker, task = finished
    path = local_sites(folder)[0] / "personal.weights"
    text, before = read_state(path)[0]["terms"], accuracy(folder)
    worker(given(task, turned, folds=folds), text)
    assert own_models(folder)["plant-1"].ensemble.network < 0.01
    assert accuracy(folder) > before - 0.15  # 30 test rows
    worker(task, text)  # the honest network has its weight again
    assert own_models(folder)["plant-1"].ensemble.network > 0.0
    assert accuracy(folder) == before


def test_what_a_hostile_coordinator_gives_never_takes_the_place_of_a_better_local_model(
    finished, monkeypatch
):
    """Networks that are sure of what is wrong, folds included, and a start without own models."""
    folder, worker, task = finished
    home = local_sites(folder)[0]
    text, before = read_state(home / "personal.weights")[0]["terms"], accuracy(folder)
    sent = {k: b if k == "one_shot" else turned(b) for k, b in task.sent.items()}
    start = {"shares": torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)}
    hostile = replace(task, sent=sent | {"start": start})
    monkeypatch.setattr(audit, "REPEATS", 9)  # else the fourth is refused
    worker(hostile, text)
    model, page = own_models(folder)["plant-1"], json.loads((home / "benefit.json").read_text())
    said = {line["name"]: line["value"] for line in page["lines"]}
    assert said["mixture"] < said["local best"] - 0.2  # what the attack would have brought
    assert model.ensemble.network == 0.0
    assert all(isinstance(member, OwnMember) for member in model.ensemble.members)
    assert "does not pay" in page["sentence"] and "keeps its local best" in page["sentence"]
    worker(task, text)  # the honest ones have their place again
    assert accuracy(folder) == before


def test_a_network_that_is_not_finite_is_refused_and_the_old_one_stays(finished):
    folder, worker, task = finished
    path = local_sites(folder)[0] / "personal.weights"
    before, text = path.read_bytes(), read_state(path)[0]["terms"]
    nan = given(task, lambda b: {n: torch.full_like(t, torch.nan) for n, t in b.items()})
    with pytest.raises(Refusal, match="values that are not finite"):
        worker(nan, text)
    assert path.read_bytes() == before and read_terms(text).search_space is not None
