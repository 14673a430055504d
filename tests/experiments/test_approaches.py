"""The approaches as values, compared on equal terms; history and confusions change nothing."""

from dataclasses import replace

import pytest
import torch

from fedlore import Client, FedloreError, Lookup, Plan
from fedlore.core.history import Row
from fedlore.core.metrics import decide
from fedlore.core.nets import mlp
from fedlore.engine import Training
from fedlore.engine.lore import Candidate, SearchSpace, train_lore
from fedlore.experiments import runner
from fedlore.experiments.approaches import (
    APPROACHES,
    FL,
    FL_MASK,
    FLWKM,
    LOCAL_BEST,
    LORE,
    LORE_1,
    ML,
    PKM,
    local_best_words,
)
from fedlore.experiments.runner import Drawing, compare
from fedlore.models.own import baseline as own_models
from fedlore.models.own.baseline import own_classes, own_order

from ..engine.federation import CLASSES, FEATURES, federation

PLAN = Plan(epochs=1, batch=16)


def run(chosen=APPROACHES, clients=None, **settings) -> list[Row]:
    return compare(drawn(clients or with_models(), **settings), chosen)


def drawn(clients, rounds=2, seed=0, **settings) -> Drawing:
    def make_model(hears):
        return mlp(FEATURES, CLASSES, hidden=(8,), hears=hears)

    return Drawing(clients, make_model, PLAN, rounds, seed, **settings)


def with_models() -> list[Client]:
    """The test federation with its knowledge as lookups, so that it can be asked again."""

    def written(*parts):
        return Lookup.of(torch.cat([x for x, _ in parts]), torch.cat([rows for _, rows in parts]))

    made = []
    for client in federation():
        data, test = client.data, client.test
        prior = written((data.x, data.prior), (test.x, test.prior))
        allowed = written((data.x, data.allowed), (test.x, test.allowed))
        made.append(
            replace(client, knowledge=replace(client.knowledge, prediction=prior, range=allowed))
        )
    return made


def test_names_are_the_fixed_ones_in_order():
    names = [a.name for a in APPROACHES]
    assert names == ["local best", "ML", "P-KM", "MLwKM", "FL", "FLwKM", "FL+mask", "lore"]


def test_every_approach_and_client_has_one_flat_row():
    rows = run()
    assert [(r["approach"], r["client"]) for r in rows] == [
        (a.name, f"site-{i}") for a in APPROACHES for i in range(3)
    ]
    assert all(0 <= r["ta"] <= 1 and r["seed"] == 0 for r in rows)
    # whoever carries the range never leaves it
    guarded = {a.name for a in APPROACHES if a.guarded}
    assert guarded == {"local best", "P-KM", "MLwKM", "FLwKM", "FL+mask", "lore"}
    assert all(r["pov"] == 0.0 for r in rows if r["approach"] in guarded)
    assert any(r["pov"] > 0 for r in rows if r["approach"] in {"ML", "FL"})


def test_fl_and_fl_mask_score_the_same_training(monkeypatch):
    trained = []
    real = runner.fit
    monkeypatch.setattr(runner, "fit", lambda *a, **k: trained.append(1) or real(*a, **k))
    run((FL, FL_MASK, ML))
    assert len(trained) == 2


def test_the_plans_share_of_ordinary_loss_is_an_approachs_where_it_names_none(monkeypatch):
    used, real = [], runner.fit
    monkeypatch.setattr(
        runner, "fit", lambda *a, **k: used.append(k["plan"].plain) or real(*a, **k)
    )
    compare(replace(drawn(with_models()), plan=replace(PLAN, plain=0.25)), (FLWKM, LORE_1))
    assert used == [0.25, 0.5]


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


@pytest.mark.parametrize("reread", [pytest.param(False, marks=pytest.mark.slow), True])
def test_lore_is_scored_with_the_mixture_of_each_client(reread):
    few = SearchSpace((Candidate(True, 0.5, reread),), folds=2, finishes=(0, 2))
    clients = with_models()
    rows = run((LORE,), clients, search_space=few)
    assert [(r["approach"], r["model"], r["pov"]) for r in rows] == [("lore", "ensemble", 0.0)] * 3
    assert {r["chosen"] for r in rows} == {str(few.candidates[0])}
    fitted = train_lore(
        clients,
        Training(plan=PLAN, rounds=2),
        model=lambda hears: mlp(FEATURES, CLASSES, hidden=(8,), hears=hears),
        search_space=few,
    )
    for client, row in zip(clients, rows, strict=True):
        # the personal model, asked from raw rows, predicts what was scored
        predicted = fitted.predict(client.id, client.test.x)
        assert row["ta"] == (predicted == client.test.y).double().mean()


@pytest.mark.parametrize("ordered", [pytest.param(False, marks=pytest.mark.slow), True])
def test_local_best_is_all_own_models_of_a_site_behind_the_range(ordered):
    clients = with_models()
    rows = run((LOCAL_BEST,), clients, ordered=ordered)
    make = own_order if ordered else own_classes
    for client, row in zip(clients, rows, strict=True):
        own = make(client.data, CLASSES, seed=0, site=client.id)
        best = own.local_best("", client.data.y)
        predicted = decide(best.log_probs(client.test), client.test.prior)
        assert row["ta"] == (predicted == client.test.y).double().mean()
        assert (row["pov"], row["chosen"], row["model"]) == (0.0, best.name, "local")
        assert "abstained" not in row


def test_own_best_and_lore_make_a_sites_own_models_once(monkeypatch):
    few = SearchSpace((Candidate(True, 0.5),), folds=2, finishes=(0,))
    made, real = [], own_models.fit_whole
    monkeypatch.setattr(own_models, "fit_whole", lambda *a: made.append(1) or real(*a))
    run((LOCAL_BEST,), search_space=few)
    alone = len(made)
    run((LOCAL_BEST, LORE), search_space=few)
    assert alone > 0 and len(made) == 2 * alone


def test_what_own_best_lacks_is_said(monkeypatch):
    monkeypatch.setattr(own_models, "has_trees", lambda: True)
    assert "extra trees and boosted trees, with" in local_best_words()
    monkeypatch.setattr(own_models, "has_trees", lambda: False)
    assert "not installed (pip install 'fedlore[sklearn]')" in local_best_words()
    assert "weaker than it should be" in local_best_words()


def watched(chosen, rounds=2):
    history, confusion = [], []
    rows = compare(
        drawn(with_models(), rounds),
        chosen,
        on_history=history.extend,
        on_confusion=confusion.extend,
    )
    return rows, history, confusion


def test_watching_does_not_change_the_scores():
    assert watched(APPROACHES)[0] == run(APPROACHES)


def test_the_diagonal_of_the_confusion_is_the_accuracy():
    rows, _, confusion = watched(APPROACHES)
    for row in rows:
        mine = [c for c in confusion if all(c[k] == row[k] for k in ("approach", "client", "seed"))]
        right = sum(c["count"] for c in mine if c["label"] == c["predicted"])
        assert right / sum(c["count"] for c in mine) == pytest.approx(row["ta"], abs=1e-12)


def test_the_history_ends_at_the_score_and_the_mask_has_none():
    rows, history, _ = watched((FL, FL_MASK, PKM))
    assert {(h["approach"], h["seed"]) for h in history} == {("FL", 0)}
    last = {h["client"]: h["ta"] for h in history if h["round"] == 2}
    assert last == {r["client"]: r["ta"] for r in rows if r["approach"] == "FL"}


def test_a_long_training_is_scored_at_no_more_than_20_points():
    _, history, _ = watched((FL,), rounds=41)
    assert sorted({h["round"] for h in history}) == [*range(3, 41, 3), 41]
