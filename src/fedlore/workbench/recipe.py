"""The recipe and private λ as approaches of an experiment: train on all but test, then score."""

import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from ..algorithms import Plan
from ..core.history import Row
from ..core.metrics import accuracy, decide, violation
from ..core.scaler import Scaler
from ..engine import Client, Fitted, Training, fit
from ..engine.lore import Menu, train_lore
from ..engine.tuning import Tuning, trusting, tune
from ..errors import FedloreError
from ..personal.classifier import Personal
from .approaches import LORE, predict_approach, say_chosen, score_approach

_BATCH = 8192  # test rows at a time

_Maker = Callable[[bool], nn.Module]  # hears -> a fresh server model


@torch.no_grad()
def predicted_classes(fitted: Fitted[Personal], client: Client) -> torch.Tensor:
    """The class of each of the client's test rows by its own model and its own λ, (n,)."""
    if client.test is None:
        raise FedloreError(f"client '{client.id}' has no test rows to score")
    personal = fitted.model(client.id)
    test = client.test
    parts = [test[start : start + _BATCH] for start in range(0, len(test), _BATCH)]
    return torch.cat([decide(personal.log_probs(part), part.prior, part.signs) for part in parts])


def score_fitted(
    fitted: Fitted[Personal], clients: Sequence[Client]
) -> list[dict[str, str | float]]:
    """TA and POV of each client's own model on its own test rows."""
    rows: list[dict[str, str | float]] = []
    for client in clients:
        predicted = predicted_classes(fitted, client)
        assert client.test is not None and client.test.y is not None
        row: dict[str, str | float] = {
            "client": client.id,
            "ta": accuracy(predicted, client.test.y),
        }
        if client.test.allowed is not None:
            row["pov"] = violation(predicted, client.test.allowed)
        rows.append(row)
    return rows


def lore_rows(
    clients: Sequence[Client],
    make_model: _Maker,
    *,
    plan: Plan,
    rounds: int,
    seed: int,
    scale: bool | Scaler = True,
    menu: Menu | None = None,
    ordered: bool | None = None,
) -> tuple[list[Row], Fitted[Personal]]:
    """The recipe: one row per client, with what was chosen in common and who speaks with what."""
    start = time.perf_counter()
    fitted = train_lore(
        clients,
        Training(plan=plan, rounds=rounds, seed=seed, scale=scale),
        model=make_model,
        menu=menu,
        ordered=ordered,
    )
    seconds = (time.perf_counter() - start) / len(clients)
    rows: list[Row] = []
    for client in clients:
        predicted = predict_approach(LORE, fitted, client)
        table = fitted.tables.get(client.id)
        rows.append(
            {
                "approach": LORE.name,
                "model": LORE.model,
                "seed": seed,
                "client": client.id,
                **score_approach(LORE, client, predicted),
                "trust": "auto",  # each client's own
                "weights": None if table is None else _weights(table.weights),
                **say_chosen(fitted),
                "seconds": round(seconds, 2),
            }
        )
    return rows, fitted


def _weights(weights: Mapping[str, float]) -> str:
    """Who speaks with what weight, in words."""
    return "; ".join(f"{name} {weight:.3f}" for name, weight in weights.items())


def auto_rows(
    clients: Sequence[Client],
    make_model: _Maker,
    *,
    plan: Plan,
    rounds: int,
    seed: int,
    scale: bool | Scaler = True,
    tuning: Tuning | None = None,
) -> list[Row]:
    """FLwKM with a private λ at each client, for training and for prediction."""
    start = time.perf_counter()

    def train(some: Sequence[Client]) -> Fitted[Personal]:
        return fit(some, make_model(False), plan=plan, rounds=rounds, seed=seed, scale=scale)

    chosen = tune(clients, train, tuning=tuning, seed=seed)
    known = trusting(clients, chosen)
    fitted = train(known)
    seconds = (time.perf_counter() - start) / len(clients)
    return [
        {
            "approach": "FLwKM auto",
            "model": "shared",
            "seed": seed,
            **row,
            "trained": client.knowledge.trust,
            "trust": "auto",  # each client's own
            "rely": client.knowledge.trust_at_prediction,
            "seconds": round(seconds, 2),
        }
        for row, client in zip(score_fitted(fitted, known), known, strict=True)
    ]
