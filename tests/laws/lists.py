"""The lists: an algorithm, an engine or a server model passes the laws by standing here."""

from fedlore import Plan
from fedlore.algorithms import Alone, Apfl, Ditto, FedAvg, FedOpt, FedPer, Scaffnew, Scaffold
from fedlore.core.nets import mlp
from fedlore.core.ordinal import Ordinal, ordered_mlp
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

#: An engine is made from clients and a recipe, speaks Transport, and keeps `memories`.
ENGINES = [Local, Stacked]


def _ordered(hidden=(5,), **options):
    return ordered_mlp(FEATURES, CLASSES, hidden=hidden, options=Ordinal(**options))


def names(values):
    return [v.__name__ if isinstance(v, type) else repr(v) for v in values]


def recipe_for(algorithm, *, double=True, seed=3, model="classes", **changes) -> Recipe:
    """A small recipe that the algorithm bears."""
    settings = {"epochs": 2, "batch": 8, "lr": 0.05, "schedule": "cosine"}
    settings["momentum"] = 0.9 if algorithm.facts.momentum else 0.0
    made = MODELS[model]()
    return Recipe(made.double() if double else made, algorithm, Plan(**(settings | changes)), seed)


def clients_with(knowledge: bool):
    return federation() if knowledge else [c.bare() for c in federation()]
