"""Private choice of λ where the label is a number, by the error on rows that were held out."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ...answers import Line
from ...answers.scores import rmse
from ...core.rng import stream
from ...errors import ConfigError
from ...knowledge.missing import hear, hide_others
from ...personal.client import NumberClient
from ...personal.regressor import PersonalRegressor
from ..training import Fitted
from .rowwise import learn_rows, number_costs
from .ways import OnTraining, Trust, Tuning

NumberTrain = Callable[[Sequence[NumberClient]], Fitted[PersonalRegressor]]
_ENOUGH = 1.01  # times the least error: few rows say little more, and then the smaller λ is taken


@torch.no_grad()
def tune_numbers(
    clients: Sequence[NumberClient],
    train: NumberTrain,
    *,
    tuning: Tuning | None = None,
    seed: int = 0,
    on_training: OnTraining | None = None,
) -> dict[str, Trust]:
    """Each client's own choice; one without an expert or with too few rows keeps what it has.

    Everybody trains with the same public λ in turn; which suited it better is a client's secret.
    """
    tuning = tuning or Tuning()
    if tuning.method != "grid":
        raise ConfigError(f"of a number λ is chosen by method = grid, got '{tuning.method}'")
    choosing = [
        c for c in clients if c.knowledge.prediction is not None and len(c.data) >= tuning.folds
    ]
    folds = {c.id: _folds(c, tuning.folds, seed) for c in choosing}
    found: dict[str, list[tuple[float, float, float]]] = {c.id: [] for c in choosing}
    kept: dict[tuple[str, float], Tensor] = {}  # what was said under each λ, by λ in training
    tried = tuning.training or (None,)
    done, total = 0, tuning.folds * len(tried)
    for value in tried:
        trial = [_trust(c, value) for c in clients]
        held = {c.id: torch.empty(len(tuning.grid), len(c.data)) for c in choosing}
        for fold in range(tuning.folds):
            with torch.enable_grad():
                fitted = train([_less(c, folds.get(c.id), fold) for c in trial])
            done += 1
            if on_training is not None:
                on_training(done, total)
            for client in choosing:
                away = folds[client.id] == fold
                held[client.id][:, away] = _said(fitted, client, away, tuning.grid).float()
        for client in choosing:
            trained = _trust(client, value).knowledge.trust
            errors = [rmse(said, client.data.numbers()) for said in held[client.id]]
            pairs = zip(tuning.grid, errors, strict=True)
            found[client.id] += [(error, trained, grid) for grid, error in pairs]
            kept[client.id, trained] = held[client.id]
    picked = {c.id: _pick(found[c.id], len(c.data)) for c in choosing}
    formulas = {
        c.id: _learn(c, picked[c.id], kept[c.id, picked[c.id].trust], tuning.grid, seed)
        for c in choosing
    }
    return {name: replace(one, formula=formulas[name]) for name, one in picked.items()}


def _learn(
    client: NumberClient, found: Trust, said: Tensor, grid: Sequence[float], seed: int
) -> str:
    """λ row by row, where the client's held-out rows say more than one number."""
    known = client.knowledge
    if known.row_trust is None or known.prediction is None or 0.0 not in grid:
        return ""
    x = hide_others(client.data.x, known.schema)
    expert = hear(known.prediction, x).double()
    heard = expert.isfinite()
    rest, one = (said[grid.index(at)].double() for at in (0.0, found.reliance))
    expert = torch.where(heard, expert, rest)
    cost, loss = number_costs(rest, expert, client.data.numbers().double(), one)
    rows = known.row_trust
    return learn_rows(rows, x, cost, loss, found.reliance, heard=heard, seed=seed).formula


def _pick(trials: Sequence[tuple[float, float, float]], rows: int) -> Trust:
    """The smallest λ at prediction that is nearly best, and with it the best λ in training."""
    least = min(error for error, _, _ in trials)
    near = [trial for trial in trials if trial[0] <= _ENOUGH * least]
    error, trained, reliance = min(near, key=lambda trial: (trial[2], trial[0]))
    return Trust(trained, reliance, rows=rows, rmse=error)


def _said(
    fitted: Fitted[PersonalRegressor], client: NumberClient, rows: Tensor, grid: Sequence[float]
) -> Tensor:
    """What a client's model says of some of its rows under each λ, (grid, n)."""
    model = fitted.model(client.id)
    told = client.knowledge.annotate(client.data[rows], Line(model.bins), training=False)
    return torch.stack(
        [
            model.with_knowledge(replace(client.knowledge, reliance=value)).predict(told)
            for value in grid
        ]
    )


def _folds(client: NumberClient, count: int, seed: int) -> Tensor:
    """The fold of each row, (n,); low and high numbers are dealt out evenly."""
    order = torch.randperm(len(client.data), generator=stream(seed, "fold", client.id))
    order = order[client.data.numbers()[order].argsort(stable=True)]
    fold = torch.empty(len(order), dtype=torch.int64)
    fold[order] = torch.arange(len(order)) % count
    return fold


def _less(client: NumberClient, places: Tensor | None, fold: int) -> NumberClient:
    data = client.data if places is None else client.data[places != fold]
    return replace(client, data=data, test=None)


def _trust(client: NumberClient, value: float | None) -> NumberClient:
    if value is None:
        return client
    return replace(client, knowledge=replace(client.knowledge, trust=value, reliance=None))
