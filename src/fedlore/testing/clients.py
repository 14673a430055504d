"""A small federation with knowledge, made from nothing but a seed, and recipes for it."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch.nn.functional import one_hot

from ..algorithms import (
    Algorithm,
    Alone,
    Apfl,
    Ditto,
    FedAvg,
    FedOpt,
    FedPer,
    Plan,
    Scaffnew,
    Scaffold,
    facts_of,
)
from ..core.examples import Examples
from ..core.nets import mlp
from ..core.rng import stream
from ..engine import Client, Recipe
from ..errors import ConfigError, unknown
from ..knowledge import Knowledge

FEATURES, CLASSES = 6, 4

#: Fedlore's own algorithms in the settings that engines and filters are checked with.
EXAMPLES: tuple[Algorithm, ...] = (
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
)


def small_rows(n: int, *path: int | str) -> Examples:
    """Linear truth, an expert who is right two times of three, ranges two or three wide."""
    g = stream("federation", *path)
    x = torch.randn(n, FEATURES, generator=g)
    truth = torch.randn(FEATURES, CLASSES, generator=stream("truth"))
    y = (x @ truth).argmax(1)
    allowed = one_hot(y, CLASSES).bool() | (torch.rand(n, CLASSES, generator=g) < 0.3)
    guess = torch.where(allowed, torch.rand(n, CLASSES, generator=g), -1.0).argmax(1)
    right = torch.rand(n, generator=g) < 0.67
    prior = one_hot(torch.where(right, y, guess), CLASSES).float()
    return Examples(x, y, prior, allowed)


def small_federation(
    sizes: Sequence[int] = (20, 33, 47), *, trust: float = 0.3, knowledge: bool = True
) -> list[Client]:
    """Clients called site-0, site-1, ..., with or without what their experts say."""
    clients = [
        Client(
            f"site-{i}", small_rows(n, i), Knowledge(trust=trust), test=small_rows(60, i, "test")
        )
        for i, n in enumerate(sizes)
    ]
    return clients if knowledge else [client.bare() for client in clients]


def small_recipe(
    algorithm: Algorithm, *, double: bool = True, seed: int = 3, **changes: Any
) -> Recipe:
    """A small recipe that the algorithm bears; `changes` are settings of its plan."""
    for name in changes:
        known = [field.name for field in fields(Plan)]
        if name not in known:
            raise ConfigError(unknown("setting of a plan", name, known))
    settings: dict[str, Any] = {"epochs": 2, "batch": 8, "lr": 0.05, "schedule": "cosine"}
    settings["momentum"] = 0.9 if facts_of(algorithm).momentum else 0.0
    model = mlp(FEATURES, CLASSES, hidden=(5,))
    return Recipe(
        model.double() if double else model, algorithm, Plan(**(settings | changes)), seed
    )
