"""The one-shot model through the engines, and in a process of its own."""

from dataclasses import replace

import pytest
import torch

from fedlore import ConfigError, Examples, FedAvg, FedloreError
from fedlore.core.nets import mlp
from fedlore.core.one_shot import Basis, OneShot, OneShotModel
from fedlore.core.wire import Reply
from fedlore.engine import Client, Local, Recipe, Stacked
from fedlore.engine.one_shot import bend_sums, one_shot_rows, solve_sums
from fedlore.engine.training import scaler_of

from .federation import CLASSES, FEATURES, federation
from .sums import posterior_of

EXACT = OneShot(Basis("squares"))
GROUPS = EXACT.basis.groups(EXACT.columns(FEATURES))


def test_engines_give_the_posterior_of_the_rows():
    clients = federation()
    scaler = scaler_of(clients)
    rows = {c.id: one_shot_rows(c, EXACT, scaler, classes=CLASSES) for c in clients}
    wanted = posterior_of(rows, GROUPS)
    recipe = Recipe(mlp(FEATURES, CLASSES), FedAvg(), scaler=scaler, one_shot=EXACT)
    for engine in (Local, Stacked):  # of a deaf network as well
        found = solve_sums(engine(clients, recipe), GROUPS)
        assert torch.equal(found.mean, wanted.mean)
        assert torch.equal(found.covariance, wanted.covariance)


@pytest.mark.parametrize("engine", [Local, Stacked])
def test_engines_refuse_what_only_clients_of_lore_can_bend(engine):
    clients = federation()
    recipe = Recipe(mlp(FEATURES, CLASSES), FedAvg(), one_shot=EXACT)
    straight = solve_sums(engine(clients, recipe), GROUPS)
    with pytest.raises(ConfigError, match="only clients of lore"):
        bend_sums(engine(clients, recipe), GROUPS, straight, 1)


def test_a_bare_client_hears_nothing():
    client = federation()[0]
    told, bare = (
        one_shot_rows(c, EXACT, None, classes=CLASSES).features for c in (client, client.bare())
    )
    assert torch.equal(told[:, :FEATURES], bare[:, :FEATURES])
    assert (bare[:, FEATURES : FEATURES + 2] == 0).all()
    assert not (told[:, FEATURES : FEATURES + 2] == 0).all()


def test_many_sites_know_more_than_one():
    clients = federation((12,) * 12)
    rows = {c.id: one_shot_rows(c, EXACT, None, classes=CLASSES) for c in clients}
    together = posterior_of(rows, GROUPS)
    losses = {"alone": 0.0, "together": 0.0}
    for client in clients:
        mine = rows[client.id]
        alone = posterior_of({client.id: mine}, GROUPS)
        test = client.test
        for name, found in (("alone", alone), ("together", together)):
            logits = OneShotModel(EXACT, found, mine.home(found), CLASSES).logits(
                test.x, test.prior, test.allowed
            )
            losses[name] -= float(logits.gather(1, test.y[:, None]).mean())
    assert losses["together"] < losses["alone"] - 1.0


def test_rows_without_labels_teach_nothing():
    client = Client("s", Examples(torch.zeros(2, FEATURES)))
    with pytest.raises(FedloreError, match="client 's' has no labels"):
        one_shot_rows(client, EXACT, None, classes=CLASSES)


def test_noise_that_leaves_fewer_rows_than_none_is_taken_for_one():
    rows = {c.id: one_shot_rows(c, EXACT, None, classes=CLASSES) for c in federation()}

    class Noised:
        def __init__(self, free):
            self.free = free

        def clients(self):
            return ["all"]

        def exchange(self, task, to):
            each = [one.sums() for one in rows.values()]
            sums = {name: sum(one[name] for one in each) for name in each[0]}
            if self.free is not None:
                sums["free"] = torch.full_like(sums["free"], self.free)
            yield Reply("all", task.round, {"gram": sums})

    one = solve_sums(Noised(1.0), GROUPS, noised=True)
    assert torch.equal(solve_sums(Noised(-7.0), GROUPS, noised=True).mean, one.mean)
    assert torch.equal(solve_sums(Noised(1.0), GROUPS).mean, one.mean)
    plain = solve_sums(Noised(None), GROUPS)
    assert torch.equal(solve_sums(Noised(None), GROUPS, noised=True).mean, plain.mean)
    assert not torch.equal(plain.covariance, one.covariance)


def test_rows_without_labels_are_refused_with_their_client():
    client = federation()[0]
    bare = replace(client, data=replace(client.data, y=None))
    with pytest.raises(FedloreError, match=f"client '{client.id}' has no labels to learn from"):
        one_shot_rows(bare, EXACT, None, classes=CLASSES)
