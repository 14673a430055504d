"""A network of a plain PyTorch program, wrapped: its loss and its answers go through T."""

import copy
import math

import pytest
import torch
from torch import nn

from fedlore import (
    Bins,
    Client,
    Examples,
    FedloreError,
    Knowledge,
    Measured,
    NumberClient,
    Plan,
    Regression,
    fit,
    inject,
    mlp,
    with_knowledge,
)
from fedlore.core.inject import Lesson, odds_of, pair_of
from fedlore.core.nets import server
from fedlore.engine.client import ready
from fedlore.knowledge.intervals import Band

K, D = 4, 3


def no_third(x):
    """A range: class 2 is impossible."""
    return torch.tensor([True, True, False, True]).expand(len(x), K)


def says_first(x):
    """An expert who names class 0, and is silent where the first feature is above 0."""
    rows = torch.zeros(len(x), K)
    rows[x[:, 0] <= 0, 0] = 1.0
    return rows


KNOWN = Knowledge(prediction=says_first, range=no_third, trust=0.3)


def batch(n=16, *, seed=0, labels=(0, 1, 3)):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, D, generator=draw)
    return x, torch.tensor(labels)[torch.randint(len(labels), (n,), generator=draw)]


def test_the_answer_is_t_of_the_logits():
    net, (x, _) = nn.Linear(D, K), batch()
    wrapped = with_knowledge(net, KNOWN)
    wanted = inject(net(x), says_first(x), no_third(x), 0.3)
    assert torch.equal(wrapped(x), wanted)
    assert (wrapped(x)[:, 2] == -torch.inf).all() and not (wrapped.predict(x) == 2).any()


@pytest.mark.parametrize("outside", ["error", "widen", "drop"])
def test_the_gradient_is_that_of_fit(outside):
    x, y = batch(labels=(0, 1, 3) if outside == "error" else (0, 1, 2, 3))
    known = Knowledge(prediction=says_first, range=no_third, trust=0.3, outside=outside)
    net = nn.Linear(D, K)
    with_knowledge(net, known).loss(x, y).backward()
    lesson = ready(Client("a", Examples(x, y), known), server(net), None).lesson
    slope = lesson.error(net(lesson.x)) / len(lesson)
    assert torch.allclose(net.weight.grad, slope.T @ lesson.x, atol=1e-6)
    assert torch.allclose(net.bias.grad, slope.sum(0), atol=1e-6)


def test_cross_entropy_of_the_answers_has_the_same_gradient():
    """One changed line: a training that never heard of fedlore learns through T."""
    (x, y), grads = batch(), []
    for own in (False, True):
        torch.manual_seed(0)
        wrapped = with_knowledge(nn.Linear(D, K), KNOWN)
        loss = wrapped.loss(x, y) if own else nn.CrossEntropyLoss()(wrapped(x), y)
        loss.backward()
        assert math.isfinite(loss.item())
        grads.append(wrapped.net.weight.grad)
    assert torch.allclose(*grads, atol=1e-6)


@pytest.mark.parametrize("odds", [None, "hard", "soft"])
@pytest.mark.parametrize("walled", [False, True])
def test_a_loss_and_its_slope_belong_together(odds, walled):
    """Autograd of `Lesson.loss` is the closed form, with masks, experts and soft targets."""
    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(9, K, generator=draw, dtype=torch.float64).requires_grad_()
    x, y = torch.zeros(9, D, dtype=torch.float64), torch.arange(9) % 2
    prior = torch.eye(K, dtype=torch.float64)[torch.arange(9) % 3]
    wall = torch.zeros(9, K, dtype=torch.float64)
    if walled:
        wall[:, 3] = -torch.inf
    target = torch.eye(K, dtype=torch.float64)[y]
    column = y.unsqueeze(1)
    if odds == "hard":
        pair = pair_of(target, odds_of(prior, column, 0.4), wall)
        lesson = Lesson(x, column, target, pair=pair)
    elif odds == "soft":
        soft = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64).expand(9, K)
        lesson = Lesson(x, column, soft, wall=wall, odds=odds_of(prior, None, 0.4))
    else:
        lesson = Lesson(x, column, target, wall=wall)
    lesson.loss(logits).sum().backward()
    assert torch.allclose(logits.grad, lesson.error(logits.detach()), atol=1e-12)


def test_the_loss_is_the_negative_log_likelihood_up_to_a_constant():
    x, y = batch()
    wrapped = with_knowledge(nn.Linear(D, K), KNOWN)
    with torch.no_grad():
        nll = -wrapped(x).gather(1, y.unsqueeze(1)).mean()
        spoken = (x[:, 0] <= 0).double().mean()
        assert float(wrapped.loss(x, y)) == pytest.approx(
            float(nll) + float(spoken) * math.log(1 - 0.3), abs=1e-6
        )


def test_training_and_prediction_have_each_its_own_trust():
    known = Knowledge(prediction=says_first, trust=0.3, reliance=0.9)
    wrapped, x = with_knowledge(nn.Linear(D, K), known), -torch.ones(1, D)
    learned = wrapped.net(x).softmax(1)[0, 0].item()
    for mode, trust in ((True, 0.3), (False, 0.9)):
        wrapped.train(mode)
        wanted = (1 - trust) * learned + trust
        assert wrapped(x).exp()[0, 0].item() == pytest.approx(wanted, abs=1e-6)


def test_weights_travel_under_the_names_of_the_plain_network():
    net = nn.Sequential(nn.Linear(D, 5), nn.Linear(5, K))
    net.net = nn.Linear(1, 1)  # a name that the wrapper uses as well
    wrapped = with_knowledge(copy.deepcopy(net), KNOWN)
    assert list(wrapped.state_dict()) == list(net.state_dict())
    sent = {name: torch.full_like(t, 0.5) for name, t in wrapped.state_dict().items()}
    wrapped.load_state_dict(sent)
    net.load_state_dict(wrapped.state_dict())
    assert all((t == 0.5).all() for t in net.state_dict().values())
    inside = nn.Sequential(with_knowledge(nn.Linear(D, K), KNOWN))
    assert list(inside.state_dict()) == ["0.weight", "0.bias"]
    inside.load_state_dict(inside.state_dict())
    assert "knowledge" not in str(list(wrapped.state_dict()))


def test_one_step_of_a_plain_loop_is_one_step_of_fit():
    x, y = batch(40)
    plan = Plan(epochs=1, batch=40, lr=0.1, decay=0.0)
    network = mlp(D, K, hidden=5)
    client = Client("a", Examples(x, y), KNOWN)
    fitted = fit([client], network, plan=plan, rounds=1, scale=False)
    plain = copy.deepcopy(network)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=plan.momentum)
    with_knowledge(plain, KNOWN).loss(x, y).backward()
    optimizer.step()
    for name, value in fitted.run.state["model"].items():
        assert torch.allclose(value, plain.state_dict()[name], atol=1e-6), name


def test_numbers_go_through_t_as_well():
    bins = Bins(0.0, 10.0, 5)
    known = Knowledge(range=Band(lambda x: x[:, 0], 1.5, 1.5), trust=0.0).of_number(bins)
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(200, 2, generator=draw) * 6 + 2
    y = (x[:, 0] + torch.rand(200, generator=draw) - 0.5).double()
    wrapped = with_knowledge(nn.Linear(2, bins.k), known)
    optimizer = torch.optim.Adam(wrapped.parameters(), lr=0.05)
    first = wrapped.loss(x, y).item()
    for _ in range(50):
        optimizer.zero_grad()
        wrapped.loss(x, y).backward()
        optimizer.step()
    found = wrapped.predict(x)
    assert wrapped.loss(x, y).item() < first
    assert found.dtype == torch.float64 and ((found - x[:, 0]).abs() <= 1.5 + 1e-5).all()
    client = NumberClient("a", Measured(x, y), known)
    lesson = ready(Regression(bins).enter(client), server(wrapped.net), None).lesson
    assert wrapped.loss(x, y).item() == pytest.approx(
        lesson.loss(wrapped.net(lesson.x)).mean().item(), abs=1e-6
    )


def test_scaled_batches_are_asked_about_in_the_units_of_the_expert():
    seen = []

    class Watch:
        def __call__(self, x):
            seen.append(x)
            return torch.ones(len(x), K, dtype=torch.bool)

    wrapped = with_knowledge(nn.Linear(D, K), Knowledge(range=Watch()), raw=lambda x: x * 2 + 1)
    x, y = batch()
    wrapped(x), wrapped.loss(x, y), wrapped.predict(x)
    assert len(seen) == 3 and all(torch.equal(one, x * 2 + 1) for one in seen)


def test_a_network_that_normalises_batches_is_welcome():
    net = nn.Sequential(nn.Linear(D, 5), nn.BatchNorm1d(5), nn.Linear(5, K))
    wrapped, (x, y) = with_knowledge(net, KNOWN), batch()
    wrapped.loss(x, y).backward()
    assert "1.running_mean" in wrapped.state_dict()


def test_a_loss_that_diverges_shows_in_training_and_an_answer_keeps_its_range():
    net = nn.Linear(D, K)
    nn.init.constant_(net.weight, torch.nan)
    wrapped, (x, y) = with_knowledge(net, KNOWN), batch()
    assert not wrapped.loss(x, y).isfinite()
    assert not (wrapped.eval().predict(x) == 2).any()


class Tall(nn.Module):
    def forward(self, x):
        return torch.zeros(len(x), K, 2)


@pytest.mark.parametrize(
    ("net", "x", "y", "said"),
    [
        (nn.Linear(D, 7), batch()[0], batch()[1], "7 outputs, the knowledge 4 classes"),
        (Tall(), batch()[0], batch()[1], r"logits of shape \(16, k\) for 16 rows"),
        (nn.Linear(D, K), batch()[0], batch()[1][:3], "y has 3 rows, x has 16"),
        (nn.Linear(D, K), batch()[0], batch()[1].float(), "one int64 class per row"),
        (nn.Linear(D, K), batch()[0], batch(labels=(9,))[1], "labels"),
        (nn.Linear(D, K), batch()[0], batch(labels=(2,))[1], "16 labels lie outside their range"),
        (nn.Linear(D, K), batch()[0].int(), batch()[1], "floating point"),
        (nn.Linear(D, K), batch()[0] * torch.nan, batch()[1], "nan|finite|missing"),
    ],
)
def test_a_wrong_batch_is_a_sentence(net, x, y, said):
    with pytest.raises(FedloreError, match=said):
        with_knowledge(net, KNOWN).loss(x, y)


def test_what_is_no_network_or_no_knowledge_is_refused():
    with pytest.raises(FedloreError, match="net is of type int"):
        with_knowledge(3, KNOWN)
    with pytest.raises(FedloreError, match="knowledge is of type str"):
        with_knowledge(nn.Linear(D, K), "knowledge.toml")
    with pytest.raises(FedloreError, match="trust must be below 1"):
        x, y = batch()
        with_knowledge(nn.Linear(D, K), Knowledge(prediction=says_first, trust=1.0)).loss(x, y)
