"""The recipe and private λ as approaches of an experiment: train on all but test, then score."""

import time
from collections.abc import Sequence

import torch

from ..algorithms import Algorithm, FedAvg, Plan
from ..core.history import Row
from ..core.metrics import accuracy, decide, violation
from ..core.scaler import Scaler
from ..engine import Client, Fitted, Training, fit
from ..engine.loop import Weights
from ..engine.tuning import Lore, Trials, Tuning, lore, trusting, tune
from ..engine.tuning.lore import ModelMaker
from ..errors import FedloreError
from ..personal.classifier import Personal
from ..privacy import Privacy

_BATCH = 8192  # test rows at a time


@torch.no_grad()
def classes_of(fitted: Fitted[Personal], client: Client) -> torch.Tensor:
    """The class of each of the client's test rows by its own model and its own λ, (n,)."""
    if client.test is None:
        raise FedloreError(f"client '{client.id}' has no test rows to score")
    personal = fitted.model(client.id)
    test = client.test
    parts = [test[start : start + _BATCH] for start in range(0, len(test), _BATCH)]
    return torch.cat([decide(personal.log_probs(part), part.prior) for part in parts])


def scored(fitted: Fitted[Personal], clients: Sequence[Client]) -> list[dict[str, str | float]]:
    """TA and POV of each client's own model on its own test rows."""
    rows: list[dict[str, str | float]] = []
    for client in clients:
        predicted = classes_of(fitted, client)
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
    make_model: ModelMaker,
    *,
    plan: Plan,
    rounds: int,
    seed: int,
    scale: bool | Scaler = True,
    trials: Trials | None = None,
    algorithm: Algorithm | None = None,
    every: int = 0,
    sample: float = 1.0,
    weights: Weights = "equal",
    privacy: Privacy | None = None,
) -> tuple[list[Row], Lore]:
    """The chosen recipe: one row per client, with what was chosen in common and in private."""
    start = time.perf_counter()
    found = lore(
        clients,
        make_model,
        Training(
            algorithm=algorithm or FedAvg(),
            plan=plan,
            rounds=rounds,
            seed=seed,
            scale=scale,
            evaluate=every,
            sample=sample,
            weights=weights,
            privacy=privacy,
        ),
        trials=trials,
    )
    seconds = (time.perf_counter() - start) / len(clients)
    rows: list[Row] = []
    for row in scored(found.fitted, found.clients):
        mine = found.private.get(str(row["client"]))
        rows.append(
            {
                "approach": "lore",
                "model": "shared",
                "seed": seed,
                **row,
                "trust": "auto",  # each client's own
                "rely": None if mine is None else mine.rely,
                "finish": 0 if mine is None else mine.finish,
                "chosen": str(found.candidate),
                "seconds": round(seconds, 2),
            }
        )
    return rows, found


def auto_rows(
    clients: Sequence[Client],
    make_model: ModelMaker,
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
            "rely": client.knowledge.reliance,
            "seconds": round(seconds, 2),
        }
        for row, client in zip(scored(fitted, known), known, strict=True)
    ]
