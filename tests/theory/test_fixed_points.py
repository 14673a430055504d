"""Where each algorithm stops, against closed forms: the biased points and the limits."""

import pytest
import torch

from fedlore.algorithms import Alone, Apfl, Ditto, FedAvg, FedOpt

from .quadratics import bowls, optimum, solve

LR = 0.05


def eye(clients):
    return torch.eye(len(clients[0].b), dtype=torch.float64)


def stop(clients, prox: float = 0.0):
    """The fixed point of FedAvg or FedProx: mean_i end_i(x) = x, solved as a linear system.

    K steps z -> (z - η·A(z-b) + h·x)/(1+h), h = ημ, from z = x end at P^K·x + S·(ηAb + h·x)/(1+h)
    with P = (I - ηA)/(1+h) and S = (I - P^K)(I - P)^-1.
    """
    one, h = eye(clients), LR * prox
    keep, push = torch.zeros_like(one), torch.zeros_like(clients[0].b)
    for c in clients:
        p = (one - LR * c.a) / (1 + h)
        power = torch.linalg.matrix_power(p, c.steps)
        s = (one - power) @ torch.linalg.inv(one - p)
        keep = keep + (power + s * h / (1 + h)) / len(clients)
        push = push + s @ (LR * c.a @ c.b) / (1 + h) / len(clients)
    return torch.linalg.solve(one - keep, push)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("steps", [(5,), (1, 4, 20)])
@pytest.mark.parametrize("prox", [0.0, 0.5, 10.0])
def test_fedavg_and_fedprox_stop_at_their_biased_points(steps, prox):
    clients = bowls(steps=steps)
    x, _, _ = solve(clients, FedAvg(prox=prox), rounds=300, lr=LR)
    torch.testing.assert_close(x, stop(clients, prox), rtol=0, atol=1e-9)
    assert (x - optimum(clients)).norm() > 0.01


def test_fedprox_lessens_the_bias():
    clients = bowls(steps=(20,))
    off = [float((stop(clients, mu) - optimum(clients)).norm()) for mu in (0.0, 1.0, 10.0, 100.0)]
    assert off == sorted(off, reverse=True) and off[-1] < 0.1 * off[0]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fedprox_stays_put_under_a_large_pull(momentum):
    clients = bowls()
    x, _, _ = solve(clients, FedAvg(prox=1e12), rounds=1, lr=0.01, momentum=momentum)
    assert x.norm() < 1e-9
    free, _, _ = solve(clients, FedAvg(), rounds=1, lr=0.01, momentum=momentum)
    assert free.norm() > 0.1


@pytest.mark.parametrize("changes", [{"lr": LR}, {"lr": LR / 10, "momentum": 0.9}])
def test_dittos_own_models_minimise_loss_plus_pull(changes):
    clients, pull = bowls(steps=(5,)), 2.0
    x, run, transport = solve(clients, Ditto(pull=pull), rounds=300, **changes)
    for bowl, name in zip(clients, transport.clients(), strict=True):
        wanted = torch.linalg.solve(bowl.a + pull * eye(clients), bowl.a @ bowl.b + pull * x)
        torch.testing.assert_close(transport.memory(name, run)["own"]["x"], wanted)


def test_ditto_without_pull_is_local_training_and_with_a_large_one_the_shared_model():
    clients = bowls()
    alone = solve(clients, Alone(), rounds=6)
    free = solve(clients, Ditto(pull=0.0), rounds=6)
    bound = solve(clients, Ditto(pull=1e12), rounds=6)
    shared, _, _ = solve(clients, FedAvg(), rounds=5)  # the model that round 6 started from
    for name in alone[2].clients():
        own = [t.memory(name, run)["own"]["x"] for _, run, t in (alone, free, bound)]
        assert torch.equal(own[0], own[1])
        torch.testing.assert_close(own[2], shared)
    assert torch.equal(free[0], bound[0])  # the private models leave no mark on the shared one


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_apfl_with_a_fixed_mixture_is_the_shared_or_the_local_model(momentum):
    clients = bowls(steps=(1, 4, 7))
    fedavg, _, _ = solve(clients, FedAvg(), rounds=6, momentum=momentum)
    _, alone_run, alone = solve(clients, Alone(), rounds=6, momentum=momentum)
    for mix in (0.0, 1.0):
        algorithm = Apfl(mix=mix, adapt=0.0)
        x, run, transport = solve(clients, algorithm, rounds=6, momentum=momentum)
        torch.testing.assert_close(x, fedavg)
        for name in transport.clients():
            found = algorithm.personal(algorithm.send(run.state), transport.memory(name, run))["x"]
            wanted = alone.memory(name, alone_run)["own"]["x"] if mix else x
            torch.testing.assert_close(found, wanted)


def test_apfl_moves_the_mixture_along_its_gradient():
    clients = bowls(m=2, steps=(1,))
    algorithm = Apfl(mix=0.5, adapt=1e-3)
    x, run, transport = solve(clients, algorithm, rounds=1, lr=LR)
    _, later, moved = solve(clients, algorithm, rounds=2, lr=LR)
    for bowl, name in zip(clients, transport.clients(), strict=True):
        before, after = transport.memory(name, run), moved.memory(name, later)
        assert before["mix"]["mix"] == 0.5  # own and shared start alike: no slope
        own = before["own"]["x"]
        torch.testing.assert_close(own, LR * 0.5 * bowl.a @ bowl.b)  # from 0, through the mixture
        blend = 0.5 * own + 0.5 * x
        slope = (bowl.a @ (blend - bowl.b)) @ (own - x)
        torch.testing.assert_close(after["mix"]["mix"], 0.5 - 1e-3 * slope)


def test_apfl_finds_that_very_different_clients_want_their_own_model():
    _, run, transport = solve(bowls(), Apfl(adapt=0.1), rounds=40)
    mixtures = [float(transport.memory(name, run)["mix"]["mix"]) for name in transport.clients()]
    assert min(mixtures) > 0.9 and max(mixtures) <= 1.0


KINDS = {
    "adam": lambda p, lr: torch.optim.Adam(p, lr=lr, betas=(0.9, 0.99), eps=1e-3),
    "adagrad": lambda p, lr: torch.optim.Adagrad(p, lr=lr, eps=1e-3),
    "momentum": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
}


@pytest.mark.parametrize("kind", KINDS)
def test_fedopt_is_torchs_optimizer_fed_with_the_mean_difference(kind):
    g = torch.Generator().manual_seed(0)
    start = torch.randn(5, generator=g, dtype=torch.float64)
    algorithm = FedOpt(kind=kind, lr=0.1)
    state = algorithm.init({"x": start})
    weight = torch.nn.Parameter(start.clone())
    optimizer = KINDS[kind]([weight], 0.1)
    for _ in range(20):
        step = torch.randn(5, generator=g, dtype=torch.float64)
        state = algorithm.merge(state, {"model": {"x": step}}, 1.0)
        weight.grad = -step
        optimizer.step()
        torch.testing.assert_close(state["model"]["x"], weight.detach(), rtol=0, atol=1e-12)


def test_yogi_by_hand():
    algorithm = FedOpt(kind="yogi", lr=1.0, beta1=0.0, beta2=0.5, tau=1.0)
    state = algorithm.init({"x": torch.zeros(1, dtype=torch.float64)})
    state = algorithm.merge(state, {"model": {"x": torch.tensor([2.0])}}, 1.0)
    assert state["second"]["x"].item() == 2.0  # 0 + ½·4
    assert state["model"]["x"].item() == pytest.approx(2 / (1 + (2 / 0.5) ** 0.5))
    state = algorithm.merge(state, {"model": {"x": torch.tensor([1.0])}}, 1.0)
    assert state["second"]["x"].item() == 1.5  # 2 - ½·1: it falls by what it saw, not by a share


def test_fedopt_sends_the_model_and_no_moments():
    algorithm = FedOpt()
    assert set(algorithm.send(algorithm.init({"x": torch.ones(1)}))) == {"model"}
