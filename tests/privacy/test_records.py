"""DP-SGD on the federation's own loss: clipped record by record, noised, counted, never seeded."""

import logging
import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import chi2
from torch import nn

from fedlore import Client, Examples, federate
from fedlore.algorithms import Apfl, Ditto, FedAvg, FlatParams, Scaffnew, Solo
from fedlore.core.inject import inject
from fedlore.core.nets import Deaf, lenet5, mlp
from fedlore.core.wire import Task
from fedlore.engine import Local, ready
from fedlore.engine.training import engine_for
from fedlore.errors import ConfigError
from fedlore.privacy.dp.budget import Dp
from fedlore.privacy.dp.noise import noise_for
from fedlore.privacy.dp.records import NoisyGrads, Records, Samples, gradients_of
from fedlore.testing.clients import small_recipe as recipe_for

from ..engine.federation import CLASSES, FEATURES, federation
from ..laws.lists import ALGORITHMS, names
from .test_dp import assert_variance, seeded

DP = Dp(epsilon=8, delta=1e-5, level="record")
NONE = Dp(epsilon=math.inf, delta=1e-5, level="record", clip=1e6, noise=0.0)


def lesson_of(model, i=1):
    return ready(federation()[i], model, None).lesson


def noisy(model, *, clip=1.0, noise=1.0, sample=1.0, plain=0.0, entropy=None):
    plan = recipe_for(FedAvg(), plain=plain).plan
    lesson = lesson_of(model)
    return NoisyGrads(model, lesson, plan, clip, noise, sample, entropy or seeded("s")), lesson


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("plain", [0.0, 0.4])
@pytest.mark.parametrize("hears", [False, True])
def test_the_gradient_of_each_record_is_that_of_its_own_injected_loss(hears, plain):
    model = mlp(FEATURES, CLASSES, hidden=(5,), hears=hears).double()
    lesson = lesson_of(model)[:7]
    data = federation()[1].data[:7]
    found = Samples(model, plain)(flat(model), lesson)  # (7, p)
    for i in range(7):
        own = data[i : i + 1]
        logits = model(own.x.double(), own.prior, own.allowed)
        told = inject(logits, own.prior.double(), own.allowed, 0.3)
        loss = -(1 - plain) * told[0, own.y[0]] - plain * logits.log_softmax(1)[0, own.y[0]]
        wanted = torch.autograd.grad(loss, list(model.parameters()))
        torch.testing.assert_close(found[i], torch.cat([g.reshape(-1) for g in wanted]))


def test_convolutions_have_gradients_per_record():
    model = lenet5(3)
    x = torch.randn(5, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    client = Client("a", Examples(x, torch.tensor([0, 1, 2, 0, 1])))
    lesson = ready(client, model, None).lesson
    found = NoisyGrads(model, lesson, recipe_for(FedAvg()).plan, 1e6, 0.0, 1.0)(flat(model), lesson)
    buffer = FlatParams(model)
    plan = replace(recipe_for(FedAvg()).plan, decay=0.0)
    wanted = Solo(buffer, lesson, plan, client="a").gradient(lesson)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=names(ALGORITHMS))
def test_without_noise_and_with_whole_batches_it_is_the_plain_algorithm(algorithm):
    recipe = recipe_for(algorithm, batch=None)
    plain = federate(Local(federation(), recipe), recipe, 2)
    private = replace(recipe, records=Records(NONE, 2))
    run = federate(Local(federation(), private), private, 2)
    for key, bundle in plain.state.items():
        for name, t in bundle.items():
            torch.testing.assert_close(run.state[key][name], t, rtol=1e-9, atol=1e-12)


def test_every_record_is_clipped():
    model = mlp(FEATURES, CLASSES, hidden=(5,)).double()
    clipped, lesson = noisy(model, clip=0.05, noise=0.0)
    each = Samples(model, 0.0)(flat(model), lesson)
    assert (each.norm(dim=1) > 0.05).sum() > 5
    short = each * (0.05 / each.norm(dim=1)).clamp(max=1.0)[:, None]
    torch.testing.assert_close(clipped(flat(model), lesson), short.mean(0), rtol=1e-5, atol=1e-9)


def test_the_noise_of_a_step_has_the_right_variance():
    model = mlp(FEATURES, CLASSES, hidden=(200,)).double()
    lesson = lesson_of(model)
    still, _ = noisy(model, clip=0.5, noise=0.0)
    loud, _ = noisy(model, clip=0.5, noise=3.0)
    noise = loud(flat(model), lesson) - still(flat(model), lesson)
    assert_variance(noise * len(lesson), 3.0 * 0.5)  # on the sum of the records' gradients


def test_an_empty_batch_still_has_noise():
    model = mlp(FEATURES, CLASSES, hidden=(200,)).double()
    lesson = lesson_of(model)
    loud, _ = noisy(model, sample=1e-9, noise=2.0)
    assert_variance(loud(flat(model), lesson) * 1e-9 * len(lesson), 2.0)


def test_batches_are_poisson():
    """A row is in a batch with probability q, whatever the others are."""
    model = mlp(FEATURES, CLASSES, hidden=(), seed=1).double()
    lesson = lesson_of(model)
    sizes = []
    drawn, _ = noisy(model, noise=0.0, sample=0.25)
    inner = drawn._samples
    drawn._samples = lambda at, batch: sizes.append(len(batch)) or inner(at, batch)
    for _ in range(400):
        drawn(flat(model), lesson)
    n, trials = len(lesson), 400
    total = torch.tensor(sizes).double()
    assert abs(float(total.sum()) - 0.25 * n * trials) < 5 * math.sqrt(0.1875 * n * trials)
    spread = float((total - 0.25 * n).square().sum()) / (0.1875 * n)
    assert chi2.ppf(1e-6, trials) < spread < chi2.isf(1e-6, trials)
    assert drawn.done == {"dp_noise": 0.0, "dp_steps": 400, "dp_sample": 0.25}


def test_a_run_of_the_same_seed_draws_other_noise_and_other_batches():
    recipe = replace(recipe_for(FedAvg()), records=Records(DP, 1))
    one, two = (federate(Local(federation(), recipe), recipe, 1).state for _ in range(2))
    assert all((one["model"][n] != two["model"][n]).any() for n in one["model"])


def test_each_site_gets_the_noise_its_rows_ask_for():
    recipe = replace(recipe_for(FedAvg()), records=Records(DP, 3))
    replies = {r.client: r for r in Local(federation(), recipe).exchange(task(recipe), sites(3))}
    for client, rows in (("site-0", 20), ("site-2", 47)):
        steps, sample = 2 * math.ceil(rows / 8), 8 / rows
        done = replies[client].metrics
        assert done["dp_steps"] == steps and done["dp_sample"] == sample
        assert done["dp_noise"] == noise_for(8, 1e-5, 3 * steps, sample)


def task(recipe):
    initial = {n: p.detach() for n, p in recipe.model.named_parameters()}
    return Task("train", 1, recipe.algorithm.send(recipe.algorithm.init(initial)), recipe.seed)


def sites(count):
    return [f"site-{i}" for i in range(count)]


@pytest.mark.parametrize(
    ("algorithm", "times"), [(FedAvg(), 1), (Ditto(), 2), (Apfl(), 2)], ids=str
)
def test_all_gradients_that_an_algorithm_takes_are_counted(algorithm, times):
    recipe = recipe_for(algorithm)
    planned = gradients_of(algorithm, recipe.model, recipe.plan, 20, 3, recipe.seed)
    assert planned == 3 * times * 2 * math.ceil(20 / 8)
    recipe = replace(recipe, records=Records(replace(DP, noise=1.0), 3))
    (reply,) = Local(federation(), recipe).exchange(task(recipe), ["site-0"])
    assert reply.metrics["dp_steps"] == planned / 3


def test_gradients_by_a_public_coin_are_counted_round_by_round():
    algorithm = Scaffnew(chance=0.3)
    recipe = recipe_for(algorithm, lr=0.01)
    planned = gradients_of(algorithm, recipe.model, recipe.plan, 20, 4, recipe.seed)
    recipe = replace(recipe, records=Records(replace(DP, noise=1.0), 4))
    taken = []

    class Watched:
        def __init__(self):
            self.inner = Local(federation(), recipe)
            self.clients = self.inner.clients

        def exchange(self, task, to):
            for reply in self.inner.exchange(task, to):
                taken.append(int(reply.metrics["dp_steps"]))
                yield reply

    federate(Watched(), recipe, 4)
    assert len(set(taken)) > 1 and sum(taken) == 3 * planned


class Mixing(nn.Module):
    """Rows hear of each other."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        return self.layer(x - x.mean(0))


class Odd(nn.Module):
    """A parameter that no layer owns, which Opacus has no rule for when its shape is data's."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Bilinear(FEATURES, FEATURES, CLASSES)

    def forward(self, x):
        return self.layer(x, x[0].expand_as(x))


@pytest.mark.parametrize("body", [Mixing, Odd])
def test_models_without_gradients_per_record_are_refused(body):
    recipe = recipe_for(FedAvg())
    model = Deaf(body()).double()
    recipe = replace(recipe, model=model, records=Records(DP, 1))
    with pytest.raises(ConfigError, match="needs per-sample gradients, which Deaf has not: "):
        federate(Local(federation(), recipe), recipe, 1)


def test_stacks_make_room_with_one_line(caplog):
    recipe = replace(recipe_for(FedAvg()), records=Records(DP, 1))
    with caplog.at_level(logging.WARNING), engine_for(federation(), recipe) as (transport, _):
        assert isinstance(transport, Local)
    assert "one by one: record level differential privacy" in caplog.text


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="DP-SGD is record level, got level = 'site'"):
        Records(Dp(1, 1e-5), 1)
    with pytest.raises(ConfigError, match="rounds must be at least 1, got 0"):
        Records(DP, 0)


def test_the_last_steps_stay_at_home_and_need_no_noise():
    plain = recipe_for(FedAvg(), finish=4)
    noised = replace(plain, records=Records(replace(DP, noise=5.0), 3))
    found = []
    for recipe in (plain, noised):
        transport = Local(federation(), recipe)
        (reply,) = transport.exchange(replace(task(recipe), kind="finish"), ["site-0"])
        assert not reply.upload
        found.append(transport.memories["site-0"].after["finished"])
    assert all(torch.equal(t, found[1][name]) for name, t in found[0].items())
