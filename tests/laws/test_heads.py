"""What every server model must do in every engine, to be added to one list."""

from dataclasses import replace

import pytest
import torch

from fedlore import Plan, federate
from fedlore.algorithms import Apfl, Ditto, FedAvg, FedPer, Scaffold
from fedlore.core.nets import mlp, server
from fedlore.core.ordinal import Ordinal, ordered_mlp
from fedlore.engine import Local, Recipe
from fedlore.engine.choice import why_not_stacked
from fedlore.engine.stacked.bench import Bench
from fedlore.testing.laws import own_models, same_payloads

from ..engine.federation import CLASSES, FEATURES, federation, rows
from .lists import ENGINES, names

#: A server model by name: how to make it.
MODELS = {
    "classes": lambda: mlp(FEATURES, CLASSES, hidden=(5,)),
    "classes hearing": lambda: mlp(FEATURES, CLASSES, hidden=(5,), hears=True),
    "places": lambda: _ordered(),
    "places on the range": lambda: _ordered(start="middle"),
    "places on the expert": lambda: _ordered(start="expert", linear=False),
    "places deaf": lambda: _ordered(hears=False),
    "places deaf on the expert": lambda: _ordered(start="expert", hears=False),
    "places normal": lambda: _ordered(bell="normal"),
    "places linear": lambda: _ordered((), start="middle"),
    "places deep": lambda: _ordered((6, 5), bell="normal", start="expert"),
}
each_model = pytest.mark.parametrize("model", MODELS)
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=names(ENGINES))
slow = pytest.mark.slow
some_algorithms = pytest.mark.parametrize(
    "algorithm",
    [FedPer(), *(pytest.param(a, marks=slow) for a in (FedAvg(), Scaffold(), Ditto(), Apfl()))],
    ids=repr,
)


def _ordered(hidden=(5,), **options):
    return ordered_mlp(FEATURES, CLASSES, hidden=hidden, options=Ordinal(**options))


def recipe_for(algorithm, *, model, double=True, seed=3, **changes):
    settings = {"epochs": 2, "batch": 8, "lr": 0.05, "schedule": "cosine"}
    settings["momentum"] = 0.9 if algorithm.facts.momentum else 0.0
    made = MODELS[model]()
    return Recipe(made.double() if double else made, algorithm, Plan(**(settings | changes)), seed)


def run_of(engine, algorithm, *, clients, **changes):
    """The state and the own models after three rounds."""
    recipe = recipe_for(algorithm, **changes)
    transport = engine(clients, recipe)
    run = federate(transport, recipe, 3)
    return run.state, own_models(transport, recipe, run)


@each_model
def test_it_gives_logits_and_says_whether_it_hears(model):
    made, some = server(MODELS[model]()), rows(5, "laws")
    assert isinstance(made.hears, bool) and not list(made.named_buffers())
    logits = made(some.x, some.prior, some.allowed)
    assert logits.shape == (5, CLASSES) and logits.isfinite().all()
    other = made(some.x, some.prior.flip(1), some.allowed.flip(1))
    assert made.hears == (not torch.equal(logits, other))


@each_model
def test_silence_is_no_prior_and_freedom_is_no_range(model):
    made, some = MODELS[model](), rows(5, "laws")
    free = torch.ones_like(some.allowed)
    assert torch.equal(made(some.x), made(some.x, torch.zeros_like(some.prior), free))


@each_model
def test_it_trains_in_stacks_by_hand(model):
    made = MODELS[model]()
    assert why_not_stacked(made, federation()[0]) is None
    assert Bench(made, torch.zeros(1, FEATURES), 2).by_hand


@pytest.mark.parametrize("knowledge", [True, False], ids=["told", "bare"])
@some_algorithms
@each_model
@each_engine
def test_engines_agree_on_it(engine, model, algorithm, knowledge):
    """1e-9 in float64 and 1e-5 in float32 after three rounds."""
    clients = federation() if knowledge else [c.bare() for c in federation()]
    for double, limit in ((True, 1e-9), (False, 1e-5)):
        settings = {"model": model, "double": double, "plain": 0.3, "clip": 1.0}
        settings["lr"] = 0.02
        wanted = run_of(Local, algorithm, clients=clients, **settings)
        found = run_of(engine, algorithm, clients=clients, **settings)
        for one, other in zip(found, wanted, strict=True):
            same_payloads(one, other, rtol=limit, atol=limit)


@each_model
@each_engine
def test_its_scores_are_those_of_the_reference(engine, model):
    recipe = recipe_for(FedPer(), model=model)
    found, wanted = (
        federate(one(federation(), recipe), recipe, 2, evaluate=2).rows for one in (engine, Local)
    )
    assert [r.get("ta") for r in found] == [r.get("ta") for r in wanted]
    assert any("ta" in r for r in found)


@each_model
@each_engine
def test_training_lowers_its_own_loss(engine, model):
    """On the rows it sees: these classes have no order that a place could tell of others."""
    clients = [replace(c, test=c.data) for c in federation()]
    recipe = recipe_for(FedAvg(), model=model, lr=0.02, schedule="constant")
    run = federate(engine(clients, recipe), recipe, 12, evaluate=1)
    loss = [row["nll"] for row in run.rows if "nll" in row]
    assert sum(loss[-3:]) < sum(loss[:3])
