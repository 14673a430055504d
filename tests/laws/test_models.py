"""Fedlore's own kinds of model under the laws that it ships."""

from dataclasses import dataclass, replace

import pytest
import torch

from fedlore import federate
from fedlore.algorithms import Apfl, Ditto, FedAvg, FedPer, Scaffold
from fedlore.core.models import Logistic, Mlp, make_network
from fedlore.core.ordinal import Ordinal, ordered_mlp
from fedlore.engine import Local, Recipe
from fedlore.engine.stacked.params import StackedParams
from fedlore.engine.training import why_not_stacked
from fedlore.testing.clients import (
    CLASSES,
    FEATURES,
    own_models,
    same_payloads,
    small_federation,
    small_rows,
)
from fedlore.testing.clients import small_recipe as recipe_for
from fedlore.testing.model import MODEL_LAWS, training_lowers_the_loss

from .lists import each_engine, each_law, names


@dataclass(frozen=True)
class OrdinalNet:
    """Networks for classes in their order, as lore makes them."""

    hidden: tuple[int, ...]
    start: str = "none"
    linear: bool = True
    width: float = 0.7

    def make(self, features, classes, *, hears, seed):
        options = Ordinal(self.start, self.linear, self.width, hears)
        return ordered_mlp(features, classes, hidden=self.hidden, options=options, seed=seed)


KINDS = [Mlp(hidden=(5,)), Mlp(hidden=(6, 4)), Logistic()]
ORDINAL = [
    OrdinalNet(hidden=(5,)),
    OrdinalNet(hidden=(5,), linear=False),
    OrdinalNet(hidden=(5,), width=2.0),
    OrdinalNet(hidden=(6, 5)),
]
#: These stand on what the expert says, so that even a deaf network is told of it.
STANDING = [
    OrdinalNet(hidden=(5,), start="middle"),
    OrdinalNet(hidden=(), start="expert"),
    OrdinalNet(hidden=(6, 5), start="expert", linear=False),
]

both = pytest.mark.parametrize("hears", [False, True], ids=["deaf", "hears"])
each_ordinal = pytest.mark.parametrize(
    "kind", [*ORDINAL, *STANDING], ids=names([*ORDINAL, *STANDING])
)


@each_law(MODEL_LAWS)
@both
@pytest.mark.parametrize("kind", KINDS, ids=names(KINDS))
def test_models(kind, hears, law):
    law(kind, hears)


# the classes of the laws' federation have no order: what a place learns of its rows helps no others
@each_law([law for law in MODEL_LAWS if law is not training_lowers_the_loss])
@both
@pytest.mark.parametrize("kind", ORDINAL, ids=names(ORDINAL))
def test_ordinal_models(kind, hears, law):
    law(kind, hears)


def network(kind, hears):
    return make_network("ordinal", kind, FEATURES, CLASSES, hears=hears, seed=0)


def test_a_model_that_stands_on_the_expert_is_told_of_him():
    for kind in STANDING:
        assert network(kind, False).hears and network(kind, True).hears


@both
@each_ordinal
def test_silence_is_no_prior_and_freedom_is_no_range(kind, hears):
    made, some = network(kind, hears), small_rows(5, "laws")
    free = torch.ones_like(some.allowed)
    assert torch.equal(made(some.x), made(some.x, torch.zeros_like(some.prior), free))


@both
@each_ordinal
def test_it_trains_in_stacks_by_hand(kind, hears):
    made = network(kind, hears)
    assert why_not_stacked(made, small_federation()[0]) is None
    assert StackedParams(made, torch.zeros(1, FEATURES), 2).by_hand


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "knowledge", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["told", "bare"]
)
@pytest.mark.parametrize(
    "algorithm",
    [
        Apfl(),
        *(
            pytest.param(a, marks=pytest.mark.slow)
            for a in (FedAvg(), Scaffold(), Ditto(), FedPer())
        ),
    ],
    ids=lambda a: type(a).__name__,
)
@both
@each_ordinal
@each_engine
def test_engines_agree_on_places(engine, kind, hears, algorithm, knowledge):
    """1e-9 in float64 and 1e-5 in float32 after three rounds."""
    clients = small_federation(knowledge=knowledge)
    plan = recipe_for(algorithm, lr=0.02, plain=0.3, clip=1.0).plan
    for dtype, limit in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        recipe = Recipe(network(kind, hears).to(dtype), algorithm, plan)
        transports = engine(clients, recipe), Local(clients, recipe)
        found, wanted = (own_models(t, recipe, federate(t, recipe, 3)) for t in transports)
        same_payloads(found, wanted, rtol=limit, atol=limit)


@each_ordinal
@each_engine
def test_scores_of_places_are_those_of_the_reference(engine, kind):
    """Of networks whose last layer stayed at home, so that every client has its own."""
    recipe = replace(recipe_for(FedPer()), model=network(kind, True).double())
    clients = small_federation()
    found, wanted = (
        federate(one(clients, recipe), recipe, 2, evaluate=2).rows for one in (engine, Local)
    )
    assert [r.get("ta") for r in found] == [r.get("ta") for r in wanted]
    assert any("ta" in r for r in found)


@pytest.mark.sampled(2)
@each_ordinal
@each_engine
def test_training_lowers_the_loss_on_its_own_rows(engine, kind):
    clients = [replace(c, test=c.data) for c in small_federation()]
    like = recipe_for(FedAvg(), lr=0.02, schedule="constant")
    recipe = replace(like, model=network(kind, True).double())
    run = federate(engine(clients, recipe), recipe, 12, evaluate=1)
    loss = [row["nll"] for row in run.rows if "nll" in row]
    assert sum(loss[-3:]) < sum(loss[:3])
