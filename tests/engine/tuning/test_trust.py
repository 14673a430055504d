"""Private λ: chosen on the client's own held-out rows, and nothing about it leaves."""

from dataclasses import replace

import pytest
import torch

from fedlore import Client, ConfigError, Examples, Knowledge, Plan
from fedlore.core.nets import mlp
from fedlore.engine import Local, fit
from fedlore.engine.tuning import Tuning, tune, with_trust
from fedlore.engine.tuning.oof import cache_logits, fold_of, out_of_fold_parts

from ..federation import CLASSES, FEATURES, federation

PLAN = Plan(epochs=1, batch=16)
MODEL = mlp(FEATURES, CLASSES, hidden=(8,))


def train(clients):
    return fit(clients, MODEL, plan=PLAN, rounds=2)


def with_expert(client: Client, right: bool) -> Client:
    """The same client with an expert who is always right, or always wrong, and no range."""
    y = client.data.y if right else (client.data.y + 1) % CLASSES
    prior = torch.eye(CLASSES)[y]
    return replace(client, data=Examples(client.data.x, client.data.y, prior), test=None)


def test_folds_hold_every_row_once_and_every_class_evenly():
    client = federation((47,))[0]
    fold = fold_of(client, 3, 0)
    assert torch.bincount(fold).tolist() == [16, 16, 15]
    for label in client.data.y.unique():
        counts = torch.bincount(fold[client.data.y == label], minlength=3)
        assert int(counts.max() - counts.min()) <= 1


def test_held_out_rows_are_never_trained_on():
    clients = federation((20, 33))
    trained: list[set[tuple[float, ...]]] = []

    def spy(some):
        trained.append({tuple(row) for c in some for row in c.data.x.tolist()})
        assert all(c.test is None for c in some)
        return train(some)

    cached = out_of_fold_parts(clients, spy, cache_logits, folds=3, seed=0)
    for parts in cached.values():
        for seen, found in zip(trained, parts, strict=True):
            rows = {tuple(row) for row in found.known.x.tolist()}
            assert rows and not rows & seen
    assert {n: sum(map(len, p)) for n, p in cached.items()} == {"site-0": 20, "site-1": 33}


def test_each_client_learns_how_far_its_own_expert_can_be_trusted():
    a, b, _ = federation()
    found = tune([with_expert(a, True), with_expert(b, False)], train)
    assert found["site-0"].reliance > 0.1
    assert found["site-0"].ta == 1.0
    assert found["site-1"].reliance == 0.0
    assert found["site-1"].rows == 33


def test_trust_auto_trains_with_the_chosen_lambda():
    tuning = Tuning(training=(0.0, 0.4), folds=2)
    clients = federation()
    fitted = fit(clients, MODEL, plan=PLAN, rounds=2, trust=tuning)
    chosen = tune(clients, train, tuning=tuning)
    assert {k.trust for k in fitted.knowledge.values()} <= {0.0, 0.4}
    for name, mine in chosen.items():
        assert (fitted.knowledge[name].trust, fitted.knowledge[name].reliance) == (
            mine.trust,
            mine.reliance,
        )
    again = train(with_trust(clients, chosen))
    for name, value in again.run.state["model"].items():
        assert torch.equal(value, fitted.run.state["model"][name])


def test_training_lambda_can_be_left_alone():
    found = tune(federation(trust=0.25), train, tuning=Tuning(training=(), folds=2))
    assert {mine.trust for mine in found.values()} == {0.25}


def test_nothing_about_lambda_leaves_the_client(monkeypatch):
    """All that travels in every trial is the model, whatever the clients choose."""
    seen = []
    real = Local.exchange

    def spying(self, task, to):
        for reply in real(self, task, to):
            seen.append((task, reply))
            yield reply

    monkeypatch.setattr(Local, "exchange", spying)
    fit(federation(), MODEL, plan=PLAN, rounds=1, trust="auto", engine="local")
    shapes = {name: p.shape for name, p in MODEL.named_parameters()}
    assert len({id(task) for task, _ in seen}) > 6
    for task, reply in seen:
        assert task.kind in ("moments", "train")
        assert reply.metrics == {}
        if task.kind == "train":
            assert set(reply.upload) == set(task.sent) == {"model"}
            assert {n: t.shape for n, t in reply.upload["model"].items()} == shapes
        else:
            assert set(reply.upload["moments"]) == {"rows", "sum", "squares"}


def test_a_choice_at_prediction_changes_no_update():
    """λ at prediction is used after training: the shared weights do not depend on it."""
    clients = federation()
    one, two = (
        train([replace(c, knowledge=replace(c.knowledge, reliance=reliance)) for c in clients])
        for reliance in (0.0, 0.5)
    )
    for name, value in one.run.state["model"].items():
        assert torch.equal(value, two.run.state["model"][name])


def test_clients_without_expert_or_rows_keep_what_they_have():
    a, b, c = federation()
    silent = replace(b, data=replace(b.data, prior=None))
    tiny = replace(c, data=c.data[:2])
    clients = [a, silent, tiny]
    found = tune(clients, train)
    assert set(found) == {"site-0"}
    assert [k.knowledge.trust for k in with_trust(clients, found)][1:] == [0.3, 0.3]


def test_bad_settings_are_named():
    with pytest.raises(ConfigError, match="folds must be at least 2, got 1"):
        Tuning(folds=1)
    with pytest.raises(ConfigError, match=r"training must hold numbers in \[0, 1\), got 1.0"):
        Tuning(training=(1.0,))
    with pytest.raises(ConfigError, match="trust must be own, auto or a Tuning, got 'all'"):
        fit(federation(), MODEL, trust="all")
    with pytest.raises(ConfigError, match="only recipe = lore takes a function"):
        fit(federation(), lambda hears: MODEL)


def test_knowledge_of_a_site_is_left_as_it_was():
    clients = federation()
    fit(clients, MODEL, plan=PLAN, rounds=1, trust=Tuning(folds=2, training=(0.1,)))
    assert all(c.knowledge == Knowledge(trust=0.3) for c in clients)
