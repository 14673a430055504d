"""What every server model must do in every engine, to be added to one list."""

from dataclasses import replace

import pytest
import torch

from fedlore import federate
from fedlore.algorithms import Apfl, Ditto, FedAvg, FedPer, Scaffold
from fedlore.core.nets import server
from fedlore.engine import Local
from fedlore.engine.choice import why_not_stacked
from fedlore.engine.stacked.bench import Bench

from ..engine.federation import CLASSES, FEATURES, federation, rows
from .lists import ENGINES, MODELS, clients_with, names, recipe_for
from .test_algorithms import assert_same, run_of

each_model = pytest.mark.parametrize("model", MODELS)
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=names(ENGINES))
some_algorithms = pytest.mark.parametrize(
    "algorithm", [FedAvg(), Scaffold(), Ditto(), Apfl(), FedPer()], ids=repr
)


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
    clients = clients_with(knowledge)
    for double, limit in ((True, 1e-9), (False, 1e-5)):
        settings = {"model": model, "double": double, "plain": 0.3, "clip": 1.0}
        settings["lr"] = 0.02
        wanted = run_of(Local, algorithm, clients=clients, **settings)
        found = run_of(engine, algorithm, clients=clients, **settings)
        assert_same(found, wanted, rtol=limit, atol=limit)


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
