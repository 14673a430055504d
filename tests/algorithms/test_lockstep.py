"""Scaffnew counts on the same number of steps at every client, and on the same clients."""

from dataclasses import replace

import pytest
import torch

from fedlore import FedloreError, Plan, federate
from fedlore.algorithms import FedAvg, Scaffnew, Solo
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.core.wire import Task
from fedlore.engine import Local, Recipe

from ..engine.federation import CLASSES, FEATURES, federation

PLAN = Plan(epochs=1, lr=0.05, momentum=0.0)


def recipe(algorithm) -> Recipe:
    return Recipe(mlp(FEATURES, CLASSES, hidden=(5,)), algorithm, PLAN, seed=2)


class Stubborn:
    """One client flips a coin of its own."""

    def __init__(self, inner):
        self.inner = inner

    def clients(self):
        return self.inner.clients()

    def exchange(self, task, to):
        for name in to:
            own = replace(task, seed=99) if name == "site-1" else task
            yield from self.inner.exchange(own, [name])


def test_a_client_that_takes_other_steps_is_named():
    r = recipe(Scaffnew(chance=0.1))
    message = r"same number of local steps at every client: 'site-\d' took \d+, 'site-\d' took \d+"
    with pytest.raises(FedloreError, match=message):
        federate(Stubborn(Local(federation(), r)), r, 3)
    r = recipe(FedAvg())
    federate(Stubborn(Local(federation(), r)), r, 3)  # FedAvg bears it


def test_a_client_that_left_is_named():
    r = recipe(Scaffnew())
    run = federate(Local(federation(), r), r, 1)
    with pytest.raises(FedloreError, match="same clients in every round: 'site-2' took part"):
        federate(Local(federation()[:2], r), r, 2, start=run)


def test_all_clients_flip_the_same_coin_and_the_mean_number_of_steps_is_one_over_p(monkeypatch):
    taken = []
    descend = Solo.descend

    def counted(self, start, **how):
        taken.append(how["steps"])
        return descend(self, start, **how)

    monkeypatch.setattr(Solo, "descend", counted)
    r = recipe(Scaffnew(chance=0.25))
    federate(Local(federation(), r), r, 4)
    rounds = [taken[i : i + 3] for i in range(0, 12, 3)]
    assert all(len(set(steps)) == 1 for steps in rounds) and len({s[0] for s in rounds}) > 1
    flips = [Scaffnew(chance=0.25)._flips(stream("coin", i)) for i in range(4000)]
    assert min(flips) == 1 and abs(sum(flips) / 4000 - 4.0) < 0.25  # standard error 0.055
    first = sum(f == 1 for f in flips) / 4000
    assert abs(first - 0.25) < 0.03


def test_a_coin_that_always_says_meet_gives_gradient_descent():
    one = replace(PLAN, batch=None, steps=1)
    models = []
    for algorithm in (Scaffnew(chance=1.0), FedAvg()):
        r = Recipe(mlp(FEATURES, CLASSES, hidden=(5,)).double(), algorithm, one)
        models.append(federate(Local(federation(), r), r, 5).state["model"])
    for name, t in models[0].items():
        torch.testing.assert_close(t, models[1][name], rtol=0, atol=1e-12)


def test_shifts_are_scaled_by_the_rate_of_the_round_they_were_reached_in():
    r = recipe(Scaffnew(chance=0.25))
    initial = {n: p.detach() for n, p in r.model.named_parameters()}
    sent = r.algorithm.send(r.algorithm.init(initial))
    transport = Local(federation(), r)
    list(transport.exchange(Task("train", 1, sent, r.seed, rate=0.5), ["site-0"]))
    pace = transport.memories["site-0"].after["pace"]["pace"]
    assert float(pace) == pytest.approx(0.25 / (0.5 * PLAN.lr))  # p / η
