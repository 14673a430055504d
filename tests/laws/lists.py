"""The two lists: an algorithm or an engine passes the laws by standing here."""

from fedlore import Plan
from fedlore.algorithms import Alone, Apfl, Ditto, FedAvg, FedOpt, FedPer, Scaffnew, Scaffold
from fedlore.core.nets import mlp
from fedlore.engine import Local, Recipe
from fedlore.engine.stacked import Stacked

from ..engine.federation import CLASSES, FEATURES, federation

ALGORITHMS = [
    FedAvg(),
    FedAvg(prox=0.5),
    FedOpt(kind="momentum", lr=0.3),
    FedOpt(kind="adagrad"),
    FedOpt(kind="adam"),
    FedOpt(kind="yogi"),
    Scaffold(),
    Scaffnew(chance=0.2),
    Ditto(),
    Apfl(),
    FedPer(),
    FedPer(private=("body.1.0",)),
    Alone(),
]

#: An engine is made from clients and a recipe, speaks Transport, and keeps `memories`.
ENGINES = [Local, Stacked]


def names(values):
    return [v.__name__ if isinstance(v, type) else repr(v) for v in values]


def recipe_for(algorithm, *, double=True, seed=3, **changes) -> Recipe:
    """A small recipe that the algorithm bears."""
    settings = {"epochs": 2, "batch": 8, "lr": 0.05, "schedule": "cosine"}
    settings["momentum"] = 0.9 if algorithm.facts.momentum else 0.0
    model = mlp(FEATURES, CLASSES, hidden=(5,))
    return Recipe(
        model.double() if double else model, algorithm, Plan(**(settings | changes)), seed
    )


def clients_with(knowledge: bool):
    return federation() if knowledge else [c.bare() for c in federation()]
