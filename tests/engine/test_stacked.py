"""Stacks of clients do what the reference engine does one by one."""

import itertools
import logging
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from fedlore import Client, ConfigError, Examples, FedAvg, FedloreError, Knowledge, Plan, fit
from fedlore.algorithms import Apfl, Ditto, Scaffold
from fedlore.core.inject import Lesson, odds_of, pair_of, slope
from fedlore.core.nets import Deaf, lenet5, mlp, server, small_cnn
from fedlore.core.rng import stream
from fedlore.engine import Local, Recipe, Stacked, federate
from fedlore.engine.stacked.clients import _knowledge as knowledge_of
from fedlore.engine.stacked.layers import Last
from fedlore.engine.stacked.nets import layers_of
from fedlore.engine.training import why_not_stacked

from .federation import CLASSES, FEATURES, federation

PLAN = Plan(epochs=2, batch=8, lr=0.05)
SIZES = (20, 33, 7, 47, 33)


def images(n: int, side: int, *path) -> Examples:
    """Pixels of which many are equal, so that maxima tie; an expert with ranges."""
    g = stream("images", *path)
    x = torch.rand(n, 1, side, side, generator=g)
    y = torch.randint(10, (n,), generator=g)
    allowed = one_hot(y, 10).bool() | (torch.rand(n, 10, generator=g) < 0.3)
    guess = torch.where(allowed, torch.rand(n, 10, generator=g), -1.0).argmax(1)
    return Examples(torch.where(x < 0.6, 0.0, x), y, one_hot(guess, 10).float(), allowed)


def pictured(side: int) -> list[Client]:
    return [
        Client(f"s{i}", images(n, side, i), Knowledge(trust=0.3), test=images(9, side, i, "test"))
        for i, n in enumerate((12, 17, 5))
    ]


class Tanh(nn.Module):
    """No hand-written layers for this one."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = (nn.Linear(FEATURES, 9), nn.LayerNorm(9), nn.Linear(9, CLASSES))

    def forward(self, x):
        return self.b(torch.tanh(self.norm(self.a(x))))


class Moody(Tanh):
    """A decision on the data: torch.func cannot map that over clients."""

    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else super().forward(-x)


def ran(engine, clients, recipe, rounds=3, **how):
    transport = engine(clients, recipe)
    return transport, federate(transport, recipe, rounds, evaluate=2, **how)


def gap(a, b) -> float:
    pairs = [(t, b[key][n]) for key, bundle in a.items() for n, t in bundle.items()]
    return max(float((t - u).abs().max()) for t, u in pairs)


def assert_alike(clients, recipe, *, within=1e-9, **how):
    """Same state, same scores; in stacks of any size."""
    _, wanted = ran(Local, clients, recipe, **how)
    for size in (None, 2):
        _, found = ran(lambda c, r, size=size: Stacked(c, r, stack=size), clients, recipe, **how)
        assert gap(wanted.state, found.state) < within
        assert len(wanted.rows) == len(found.rows)
        for a, b in zip(wanted.rows, found.rows, strict=True):
            assert a == pytest.approx(b, abs=1e-6)


@pytest.mark.parametrize("algorithm", [FedAvg(), Ditto()], ids=repr)
@pytest.mark.parametrize(
    ("model", "side"),
    [
        (lenet5(), 28),
        (lenet5(hears=True), 28),
        (small_cnn(side=14), 14),
        (small_cnn(side=15), 15),
        (nn.Sequential(nn.Conv2d(1, 3, 4), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
                       nn.Linear(75, 10, bias=False)), 14),
    ],
    ids=["lenet5", "lenet5 hears", "small", "odd side", "even kernel, pooled first"],
)  # fmt: skip
def test_convolutions_agree(model, side, algorithm):
    recipe = Recipe(server(model).double(), algorithm, replace(PLAN, epochs=1))
    assert layers_of(recipe.model, torch.zeros(1, 1, side, side)).images
    assert_alike(pictured(side), recipe, rounds=2)


@pytest.mark.parametrize("model", [mlp(FEATURES, CLASSES, hidden=(8,), hears=True), Tanh()])
@pytest.mark.parametrize("algorithm", [FedAvg(prox=0.3), Scaffold(), Apfl()], ids=repr)
def test_rows_agree_with_unequal_sizes_clipping_schedules_and_last_steps(model, algorithm):
    plan = replace(PLAN, clip=0.5, plain=0.3, schedule="cosine", finish=5)
    clients = federation(SIZES)
    clients[1] = clients[1].bare()
    clients[3] = replace(clients[3], knowledge=Knowledge(trust=0.7))
    assert_alike(clients, Recipe(server(model).double(), algorithm, plan))


def test_three_rounds_in_single_precision_agree_to_five_digits():
    recipe = Recipe(mlp(FEATURES, CLASSES), FedAvg(), PLAN)
    assert_alike(federation(SIZES), recipe, within=1e-5)


@pytest.mark.parametrize("plan", [Plan(epochs=2, batch=None), Plan(steps=7, batch=16)])
def test_whole_batches_and_counted_steps_agree(plan):
    recipe = Recipe(mlp(FEATURES, CLASSES).double(), FedAvg(), plan, weights="size")
    assert_alike(federation(SIZES), recipe, sample=0.6)


def test_a_client_that_diverges_drops_out_alone():
    clients = federation(SIZES)
    wild = replace(clients[2].data, x=clients[2].data.x.sign() * 3e38)  # sums overflow
    clients[2] = replace(clients[2], data=wild)
    recipe = Recipe(mlp(FEATURES, CLASSES), FedAvg(), PLAN)
    for engine in (Local, Stacked):
        _, run = ran(engine, clients, recipe)
        assert all(t.isfinite().all() for t in run.state["model"].values())
        assert [row["merged"] for row in run.rows if "merged" in row] == [4, 4, 4]
        assert "site-2" not in run.accepted


def test_one_reply_stands_for_a_whole_stack_only_where_the_server_asks_for_sums():
    recipe = Recipe(mlp(FEATURES, CLASSES), FedAvg(), PLAN)
    tasks, replies = [], []

    class Watched(Stacked):
        def exchange(self, task, to):
            tasks.append(task)
            for reply in super().exchange(task, to):
                replies.append(reply)
                yield reply

    run = federate(Watched(federation(SIZES), recipe), recipe, 1)
    assert tasks[0].sums and [len(r.names) for r in replies] == [5]
    assert run.rows == [{"round": 1, "asked": 5, "merged": 5}]


class Eager:
    """A card's recordings, played by doing the steps."""

    def play(self, key, batch, step, touched):
        step(batch)


@pytest.mark.parametrize("algorithm", [FedAvg(prox=0.3), Scaffold()], ids=repr)
def test_the_way_of_a_card_agrees(algorithm):
    recipe = Recipe(mlp(FEATURES, CLASSES).double(), algorithm, replace(PLAN, finish=3))
    clients = federation(SIZES)
    _, wanted = ran(Local, clients, recipe)
    transport = Stacked(clients, recipe, stack=4)
    transport._runner = replace(transport._runner, graphs=Eager())
    assert gap(wanted.state, federate(transport, recipe, 3).state) < 1e-9


def test_a_model_that_cannot_be_mapped_is_trained_one_by_one_with_one_line(caplog):
    moody = Moody()
    with caplog.at_level(logging.WARNING):
        found = fit(federation(), moody, plan=PLAN, rounds=1)
    assert len(caplog.records) == 1
    assert "one by one: Deaf cannot be mapped over clients" in caplog.text
    wanted = fit(federation(), moody, plan=PLAN, rounds=1, engine="local")
    assert gap({"m": found.run.state["model"]}, {"m": wanted.run.state["model"]}) == 0
    caplog.clear()
    fit(federation(), Tanh(), plan=PLAN, rounds=1)
    assert not caplog.records


def test_what_has_no_hand_written_layers_says_so():
    x = torch.zeros(1, FEATURES)
    assert "Tanh at this place" in layers_of(server(Tanh()), x)
    assert "does not end in a linear layer" in layers_of(Deaf(nn.Sequential(nn.Flatten())), x)
    for odd in (nn.Flatten(0), nn.Flatten(1, 1), nn.Flatten(0, 1)):
        whole = nn.Sequential(odd, nn.Linear(FEATURES, CLASSES))
        assert "Flatten at this place" in layers_of(server(whole), x)
    flat = layers_of(server(nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, CLASSES))), x)
    assert [layer.kind for layer in flat.layers] == [Last] and not flat.images
    twice = nn.Linear(FEATURES, FEATURES)
    assert "share parameters" in layers_of(server(nn.Sequential(twice, twice)), x)
    assert why_not_stacked(server(Tanh()), federation()[0]) is None


def test_bad_engines_are_named():
    model = mlp(FEATURES, CLASSES)
    with pytest.raises(ConfigError, match="unknown engine 'stackd'; did you mean 'stacked'"):
        fit(federation(), model, engine="stackd")
    with pytest.raises(ConfigError, match="workers must be at least 1, got 0"):
        fit(federation(), model, workers=0)
    with pytest.raises(ConfigError, match="device 'nowhere' cannot be used"):
        fit(federation(), model, device="nowhere")
    with pytest.raises(FedloreError, match="'site-0' appears twice"):
        Stacked([federation()[0]] * 2, Recipe(model, FedAvg(), PLAN))


def test_the_mean_of_a_stack_counts_those_who_came_through():
    clients = federation(SIZES)
    wild = replace(clients[2].data, x=clients[2].data.x.sign() * 3e38)
    recipe = Recipe(mlp(FEATURES, CLASSES), FedAvg(), PLAN)
    _, wanted = ran(Local, [*clients[:2], *clients[3:]], recipe, rounds=1)
    clients[2] = replace(clients[2], data=wild)
    _, found = ran(Stacked, clients, recipe, rounds=1)
    assert gap(wanted.state, found.state) < 1e-5


def test_scores_and_losses_are_those_of_each_clients_own_settings():
    clients = [
        replace(client, knowledge=Knowledge(trust=0.3, reliance=reliance, floor=floor))
        for client, reliance, floor in zip(
            federation(SIZES), (0.9, 0.0, 0.9, None, 0.3), (0.0, 0.2, 0.01, 0.0, 0.2), strict=True
        )
    ]
    assert_alike(clients, Recipe(mlp(FEATURES, CLASSES).double(), FedAvg(), PLAN), rounds=1)


KINDS = {
    "bare": lambda: Lesson(*_labelled(0)),
    "walled": lambda: Lesson(*_labelled(1), wall=_wall(1)),
    "with an expert": lambda: Lesson(*(found := _labelled(2)), pair=pair_of(
        found[2], odds_of(_prior(2), found[1], 0.4), _wall(2))),
    "soft": lambda: Lesson(*_labelled(3)[:2], _prior(5), wall=_wall(3), odds=odds_of(
        _prior(3), None, 0.4)),
}  # fmt: skip


def _labelled(seed):
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (6, 1), generator=draw)
    return torch.randn(6, 2, generator=draw), y, torch.zeros(6, 3).scatter(1, y, 1.0)


def _prior(seed):
    return torch.rand(6, 3, generator=torch.Generator().manual_seed(seed)).softmax(1)


def _wall(seed):
    """The label's class is inside, one of the others far outside."""
    y = _labelled(seed)[1]
    return torch.zeros(6, 3).scatter(1, (y + 1) % 3, -9.0)


@pytest.mark.parametrize(
    "kinds",
    [some for n in range(1, 5) for some in itertools.combinations(KINDS, n)],
    ids=" and ".join,
)
def test_rows_of_any_kinds_side_by_side_have_the_slopes_of_each(kinds):
    parts = [KINDS[kind]() for kind in kinds]
    facts = {"target": torch.cat([part.target for part in parts]), **knowledge_of(parts)}
    if "pair" in facts:
        facts["pair"] = facts["pair"].unflatten(1, (2, 3))
    logits = torch.randn(6 * len(parts), 3, generator=torch.Generator().manual_seed(9))
    each = [part.error(rows) for part, rows in zip(parts, logits.split(6), strict=True)]
    torch.testing.assert_close(slope(logits, **facts), torch.cat(each), atol=1e-5, rtol=1e-5)
