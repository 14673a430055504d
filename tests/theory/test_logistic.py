"""The same theory on real rows: ℓ2-regularised logistic regression on Covtype."""

from dataclasses import replace

import pytest
import torch

from fedlore import Plan, federate
from fedlore.algorithms import FedAvg, FedOpt, Scaffnew, Scaffold
from fedlore.engine import Local, Recipe

from .covtype import DECAY, model, problem

PLAN = Plan(batch=None, lr=1.0, momentum=0.0, decay=DECAY, steps=5)


class Joined:
    """Two transports as one, so that clients may follow different plans."""

    def __init__(self, *parts: Local) -> None:
        self.home = {name: part for part in parts for name in part.clients()}

    def clients(self):
        return list(self.home)

    def exchange(self, task, to):
        for name in to:
            yield from self.home[name].exchange(task, [name])


def train(algorithm, rounds, *, sample=1.0, unequal=False, **changes):
    recipe = Recipe(model(), algorithm, replace(PLAN, **changes), seed=0)
    clients = problem().clients
    other = replace(recipe, plan=replace(recipe.plan, steps=2)) if unequal else recipe
    transport = Joined(Local(clients[::2], recipe), Local(clients[1::2], other))
    state = federate(transport, recipe, rounds, sample=sample).state
    return torch.cat([t.reshape(-1) for t in state["model"].values()])


def distance(x) -> float:
    return float((x - problem().best).norm())


def test_the_optimum_is_one():
    assert problem().slope < 1e-12 and problem().best.norm() > 1.0


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("algorithm", "rounds", "changes"),
    [
        (Scaffold(), 100, {}),
        (Scaffold(), 150, {"unequal": True}),
        (Scaffold(), 150, {"sample": 0.5}),
        (Scaffold(), 200, {"sample": 0.5, "unequal": True}),
        (Scaffold(), 150, {"momentum": 0.9, "lr": 0.3}),
        (Scaffold(), 250, {"momentum": 0.9, "lr": 0.3, "sample": 0.5, "unequal": True}),
        (Scaffnew(chance=0.2), 100, {}),
        (Scaffnew(chance=0.1), 120, {}),
    ],
)
def test_scaffold_and_scaffnew_reach_the_optimum(algorithm, rounds, changes):
    assert distance(train(algorithm, rounds, **changes)) < 1e-8


@pytest.mark.slow
def test_fedavg_and_fedprox_stop_elsewhere():
    plain, further = (train(FedAvg(), rounds) for rounds in (60, 65))
    assert (plain - further).norm() < 1e-4 < 0.01 < distance(plain)
    pulled, further = (train(FedAvg(prox=1.0), rounds) for rounds in (100, 105))
    assert (pulled - further).norm() < 1e-3 < 0.01 < distance(pulled) < distance(plain)


@pytest.mark.parametrize("algorithm", [FedAvg(), FedOpt(kind="momentum", lr=1.0, beta1=0.0)])
def test_one_local_step_is_gradient_descent_on_the_mean_loss(algorithm):
    net = model()
    for _ in range(15):
        net.zero_grad()
        for c in problem().clients:
            mean = torch.nn.functional.cross_entropy(net(c.data.x), c.data.y)
            (mean / len(problem().clients)).backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.7 * (p.grad + DECAY * p)
    wanted = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    found = train(algorithm, 15, steps=1, lr=0.7)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
