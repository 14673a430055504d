"""The seven approaches as values, compared on equal terms."""

from dataclasses import replace

import pytest
import torch

from fedlore import Client, FedloreError, Lookup, Plan
from fedlore.core.history import Row
from fedlore.core.nets import mlp
from fedlore.engine import Training
from fedlore.engine.tuning import Candidate, Trials, lore
from fedlore.workbench import approaches
from fedlore.workbench.approaches import APPROACHES, CHOSEN, FL, FL_MASK, ML, PKM, compare

from ..engine.federation import CLASSES, FEATURES, federation

PLAN = Plan(epochs=1, batch=16)


def run(chosen=APPROACHES, clients=None, seed=0) -> list[Row]:
    return compare(
        clients or with_models(),
        lambda hears: mlp(FEATURES, CLASSES, hidden=(8,), hears=hears),
        plan=PLAN,
        rounds=2,
        seed=seed,
        approaches=chosen,
    )


def with_models() -> list[Client]:
    """The test federation with its knowledge as lookups, so that it can be asked again."""

    def written(*parts):
        return Lookup.of(torch.cat([x for x, _ in parts]), torch.cat([rows for _, rows in parts]))

    made = []
    for client in federation():
        data, test = client.data, client.test
        prior = written((data.x, data.prior), (test.x, test.prior))
        allowed = written((data.x, data.allowed), (test.x, test.allowed))
        made.append(replace(client, knowledge=replace(client.knowledge, pkm=prior, rkm=allowed)))
    return made


def test_names_are_the_fixed_ones_in_order():
    names = [a.name for a in APPROACHES]
    assert names == ["ML", "P-KM", "MLwKM", "FL", "FLwKM", "FL+mask", "lore"]


def test_every_approach_and_client_has_one_flat_row():
    rows = run()
    assert [(r["approach"], r["client"]) for r in rows] == [
        (a.name, f"site-{i}") for a in APPROACHES for i in range(3)
    ]
    assert all(0 <= r["ta"] <= 1 and r["seed"] == 0 for r in rows)


def test_whoever_carries_the_range_never_leaves_it():
    rows = run()
    guarded = {a.name for a in APPROACHES if a.guarded}
    assert guarded == {"P-KM", "MLwKM", "FLwKM", "FL+mask", "lore"}
    assert all(r["pov"] == 0.0 for r in rows if r["approach"] in guarded)
    assert any(r["pov"] > 0 for r in rows if r["approach"] in {"ML", "FL"})


def test_fl_and_fl_mask_score_the_same_training(monkeypatch):
    trained = []
    real = approaches.fit
    monkeypatch.setattr(approaches, "fit", lambda *a, **k: trained.append(1) or real(*a, **k))
    run((FL, FL_MASK, ML))
    assert len(trained) == 2


def test_the_expert_alone_is_scored_as_it_speaks():
    clients = with_models()
    rows = run((PKM,), clients)
    test = clients[0].test
    assert rows[0]["ta"] == (test.prior.argmax(1) == test.y).double().mean()
    silent = replace(test, prior=test.prior * 0)
    rows = run((PKM,), [replace(clients[0], test=silent)])
    assert (rows[0]["ta"], rows[0]["abstained"], rows[0]["pov"]) == (0.0, 1.0, 0.0)


def test_same_seed_same_rows():
    assert run((FL,)) == run((FL,))


def test_a_client_without_test_rows_cannot_be_scored():
    with pytest.raises(FedloreError, match="'site-0' has no test rows"):
        run((FL,), [replace(with_models()[0], test=None)])


@pytest.mark.parametrize("reread", [False, True])
def test_the_chosen_recipe_is_scored_with_what_each_client_chose(monkeypatch, reread):
    few = Trials(candidates=(Candidate(True, 0.5, reread),), folds=2, finishes=(0, 2))
    monkeypatch.setattr(approaches, "lore", lambda *a, **k: lore(*a, **k, trials=few))
    clients = with_models()
    rows = run((CHOSEN,), clients)
    assert [(r["approach"], r["pov"]) for r in rows] == [("lore", 0.0)] * 3
    found = lore(
        clients,
        lambda hears: mlp(FEATURES, CLASSES, hidden=(8,), hears=hears),
        Training(plan=PLAN, rounds=2),
        trials=few,
    )
    for client, row in zip(clients, rows, strict=True):
        # the personal model, asked from raw rows, predicts what was scored
        predicted = found.fitted.predict(client.id, client.test.x)
        assert row["ta"] == (predicted == client.test.y).double().mean()
