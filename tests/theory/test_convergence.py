"""SCAFFOLD and Scaffnew reach the optimum of heterogeneous quadratics, at a linear rate."""

from dataclasses import replace

import pytest
import torch

from fedlore.algorithms import FedAvg, Scaffnew, Scaffold

from .quadratics import BowlWork, bowls, optimum, solve

UNEQUAL = (1, 3, 5, 9)  # local steps, client by client
MOMENTUM = {"momentum": 0.9, "lr": 0.005}


def distance(x, clients, **about) -> float:
    return float((x - optimum(clients, **about)).norm())


@pytest.mark.parametrize(
    ("steps", "changes", "rounds"),
    [
        ((5,), {}, 60),
        (UNEQUAL, {}, 80),
        (UNEQUAL, {"sample": 0.5}, 120),
        (UNEQUAL, {"schedule": "cosine"}, 120),
        ((5,), MOMENTUM, 150),
        (UNEQUAL, MOMENTUM, 150),
        (UNEQUAL, MOMENTUM | {"sample": 0.5}, 250),
        (UNEQUAL, {"weights": "size"}, 100),
    ],
)
def test_scaffold_reaches_the_optimum(steps, changes, rounds):
    clients = bowls(steps=steps)
    x, _, _ = solve(clients, Scaffold(), rounds=rounds, **changes)
    assert distance(x, clients, by_size="weights" in changes) < 1e-8


def test_weight_decay_is_part_of_the_objective():
    clients = bowls(steps=UNEQUAL)
    x, _, _ = solve(clients, Scaffold(), rounds=100, decay=0.3)
    assert distance(x, clients, decay=0.3) < 1e-8 < distance(x, clients)
    x, _, _ = solve(clients, Scaffnew(chance=0.3), rounds=100, decay=0.3)
    assert distance(x, clients, decay=0.3) < 1e-8


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        (Scaffold(), {"lr": 0.02}),
        (Scaffold(), {"lr": 0.02, "sample": 0.5}),
        (Scaffnew(chance=0.2), {"lr": 0.1}),
    ],
)
def test_the_rate_is_linear(algorithm, changes):
    clients = bowls(steps=(2, 3))
    apart = [
        distance(solve(clients, algorithm, rounds=r, **changes)[0], clients) for r in (20, 40, 60)
    ]
    assert apart[1] < 0.05 * apart[0] and apart[2] < 0.05 * apart[1] and apart[2] > 1e-14


@pytest.mark.parametrize("chance", [0.1, 0.3, 1.0])
def test_scaffnew_reaches_the_optimum_for_any_coin(chance):
    clients = bowls(steps=UNEQUAL)  # the plan's steps play no part
    x, _, _ = solve(clients, Scaffnew(chance=chance), rounds=200, lr=0.1)
    assert distance(x, clients) < 1e-8


def test_scaffnew_reaches_the_weighted_optimum_with_weights_by_size():
    clients = bowls()
    x, _, _ = solve(clients, Scaffnew(chance=0.3), rounds=150, weights="size")
    assert distance(x, clients, by_size=True) < 1e-8


def test_scaffnew_needs_fewer_rounds_than_gradient_descent():
    # Theorem 3.6: rounds grow with √κ for p = 1/√κ, those of gradient descent with κ
    curves = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    stretch = (0.75, 0.85, 0.95, 1.05, 1.15, 1.25)
    clients = [
        replace(c, a=(s * curves).diag(), steps=1) for s, c in zip(stretch, bowls(d=3), strict=True)
    ]
    local, _, _ = solve(clients, Scaffnew(chance=0.1), rounds=120, lr=0.008)
    central, _, _ = solve(clients, FedAvg(), rounds=120, lr=0.008)
    assert distance(local, clients) < 0.001 * distance(central, clients)


def test_dividing_by_steps_times_rate_would_diverge_with_momentum(monkeypatch):
    # the paper's K·η forgets what momentum adds; this is why work.reach counts it
    init = BowlWork.__init__

    def forgetful(self, bowl, plan, *rest):
        init(self, bowl, plan, *rest)
        self.reach = bowl.steps * self.lr

    monkeypatch.setattr(BowlWork, "__init__", forgetful)
    clients = bowls(steps=(20,))
    x, _, _ = solve(clients, Scaffold(), rounds=60, **MOMENTUM)
    assert not distance(x, clients) < 1e3


def test_what_scaffold_learns_is_the_gradient_at_the_optimum():
    clients = bowls(steps=UNEQUAL)
    _, run, transport = solve(clients, Scaffold(), rounds=120)
    best = optimum(clients)
    for bowl, name in zip(clients, transport.clients(), strict=True):
        own = transport.memory(name, run)["control"]["x"]
        torch.testing.assert_close(own, bowl.a @ (best - bowl.b))
