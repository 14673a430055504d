"""Rows that a client keeps back for its own choices, and the logits of models that never saw them.

Every fold is an ordinary federated training on the rows that are left; what is measured on the
others stays at the client.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ...core.examples import Examples
from ...core.rng import stream
from ...errors import ConfigError
from ...personal.classifier import Personal
from ...personal.client import Client
from ..training import Fitted
from .curves import Cached

Train = Callable[[Sequence[Client]], Fitted[Personal]]


def fold_of(client: Client, folds: int, seed: int) -> Tensor:
    """The fold of each of the client's training rows, (n,); classes are dealt out evenly."""
    n = len(client.data)
    order = torch.randperm(n, generator=stream(seed, "fold", client.id))
    if client.data.y is not None:
        order = order[client.data.y[order].argsort(stable=True)]
    fold = torch.empty(n, dtype=torch.int64)
    fold[order] = torch.arange(n) % folds
    return fold


def held_out(
    clients: Sequence[Client],
    train: Train,
    *,
    folds: int,
    seed: int,
    use: Sequence[int] | None = None,
) -> dict[str, Cached]:
    """Per client cached logits of rows that were held out.

    Costs one training for each fold in `use` (all of them by default) on 1 - 1/folds of the
    rows. A client with fewer rows than folds holds nothing back and is not in the result.
    """
    check_folds(folds)
    places = {c.id: fold_of(c, folds, seed) for c in clients if len(c.data) >= max(folds, 2)}
    found: dict[str, list[Cached]] = {name: [] for name in places}
    for fold in range(folds) if use is None else use:
        less, kept = [], {}
        for client in clients:
            rest = replace(client, test=None)
            if client.id in places:
                away = places[client.id] == fold
                rest = replace(rest, data=client.data[~away])
                kept[client.id] = client.data[away]
            less.append(rest)
        fitted = train(less)
        for client in less:
            if client.id in kept:
                found[client.id].append(cache_logits(fitted, client, kept[client.id]))
    return {name: Cached.join(parts) for name, parts in found.items()}


@torch.no_grad()
def cache_logits(fitted: Fitted[Personal], client: Client, held: Examples) -> Cached:
    """What a client's network says of some rows."""
    heard = held if client.injected else Examples(held.x, held.y)
    return Cached(fitted.model(client.id).logits(heard).float(), held)


def check_folds(folds: int) -> None:
    if folds < 2:
        raise ConfigError(f"folds must be at least 2, got {folds}")
