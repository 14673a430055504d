"""Rows that a client keeps back for its own choices, and the logits of models that never saw them.

Every fold is an ordinary federated training on the rows that are left; what is measured on the
others stays at the client.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ...algorithms import Desk, Plan, Solo
from ...core.examples import Examples
from ...core.rng import stream
from ...core.tree import Params
from ...errors import ConfigError
from ...personal.classifier import Personal
from ...personal.client import Client
from ..client import ready
from ..fitted import Fitted
from .curves import Cached

Train = Callable[[Sequence[Client]], Fitted[Personal]]
Prepare = Callable[[Client, Examples], tuple[Client, Examples]]  # (less a fold, the fold)


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
    finishes: Sequence[int] = (0,),
    polishing: Plan | None = None,
    prepare: Prepare | None = None,
) -> dict[str, dict[int, Cached]]:
    """Per client, and per number of last local steps, cached logits of rows that were held out.

    Costs one training for each fold in `use` (all of them by default) on 1 - 1/folds of the
    rows. A client with fewer rows than folds holds nothing back and is not in the result.
    """
    check_folds(folds)
    places = {c.id: fold_of(c, folds, seed) for c in clients if len(c.data) >= max(folds, 2)}
    found: dict[str, dict[int, list[Cached]]] = {name: {} for name in places}
    for fold in range(folds) if use is None else use:
        less, kept = [], {}
        for client in clients:
            if client.id in places:
                away = places[client.id] == fold
                rest = replace(client, data=client.data[~away], test=None)
                held = client.data[away]
                if prepare is not None:
                    rest, held = prepare(rest, held)
                kept[client.id] = held
                less.append(rest)
            else:
                less.append(replace(client, test=None))
        fitted = train(less)
        for client in less:
            if client.id in kept:
                for steps in finishes:
                    cached = cache_logits(fitted, client, kept[client.id], steps, polishing)
                    found[client.id].setdefault(steps, []).append(cached)
    return {
        name: {steps: Cached.join(parts) for steps, parts in by_steps.items()}
        for name, by_steps in found.items()
    }


@torch.no_grad()
def cache_logits(
    fitted: Fitted[Personal], client: Client, held: Examples, steps: int, polishing: Plan | None
) -> Cached:
    """What a client's network says of some rows, after so many last steps on its own."""
    personal = fitted.model(client.id)
    if steps:
        personal.model.load_state_dict(polish(fitted, client, steps, polishing or Plan()))
    heard = held if client.injected else Examples(held.x, held.y)
    return Cached(personal.logits(heard).float(), held)


@torch.enable_grad()
def polish(fitted: Fitted[Personal], client: Client, steps: int, plan: Plan) -> Params:
    """A client's own weights after `steps` more steps at home."""
    recipe = fitted.recipe
    lesson = ready(client, recipe.model, recipe.scaler).lesson
    address = fitted.run.round + 1
    work = Solo(Desk(recipe.model), lesson, plan, client=client.id, seed=recipe.seed, round=address)
    start = {name: p.detach() for name, p in fitted.model(client.id).model.named_parameters()}
    return work.descend(start, steps=steps)


def check_folds(folds: int) -> None:
    if folds < 2:
        raise ConfigError(f"folds must be at least 2, got {folds}")
