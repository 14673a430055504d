"""Private choice of λ: every client picks its own, from its own rows, and tells nobody.

Out-of-fold logits come from ordinary federated trainings on the rows that are left. Then λ at
prediction costs nothing but arithmetic. λ in training is tried by trainings in which everybody
uses the same public value; which of them suited it better is again the client's secret.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...answers import Line
from ...answers.scores import rmse
from ...core.inject import inject
from ...errors import ConfigError
from ...knowledge.missing import hear, hide_others
from ...knowledge.rowtrust import RowTrust
from ...models.classifier import Personal
from ...models.client import Client, Member, NumberClient
from ...models.regressor import PersonalRegressor
from ..training import Fitted
from .oof import (
    GRID,
    Cached,
    Train,
    cache_logits,
    check_folds,
    hits,
    most_hits,
    out_of_fold_parts,
)
from .rowtrust import class_costs, learn_rows, number_costs

_ENOUGH = 1.01  # times the least error: few rows say little more, and then the smaller λ is taken


@dataclass(frozen=True)
class Tuning:
    """How λ is chosen: by right predictions over a grid of λ, of a number by the least error.

    Cost in trainings of the usual length: folds - 1 for each value in `training`, and then the
    final one.
    """

    folds: int = 3
    training: tuple[float, ...] = (0.0, 0.3)  # λ tried in training; () keeps each client's own
    grid: tuple[float, ...] = GRID  # λ tried at prediction

    def __post_init__(self) -> None:
        check_folds(self.folds)
        for name, values in (("training", self.training), ("grid", self.grid)):
            for value in values:
                if not 0.0 <= value < 1.0:
                    raise ConfigError(f"{name} must hold numbers in [0, 1), got {value}")
        if not self.grid:
            raise ConfigError("grid must hold at least one λ")


@dataclass(frozen=True)
class Trust:
    """What one client found out for itself."""

    trust: float  # λ in training
    reliance: float  # λ at prediction
    ta: float = math.nan  # on rows that were held out
    rows: int = 0  # how many there were
    rmse: float | None = None  # on them, where the label is a number
    formula: str = ""  # λ at prediction row by row, where that was learned


OnTraining = Callable[[int, int], None]  # trainings done, of how many


Chooser = TypeVar("Chooser", bound=Member[Any])


def tune(
    clients: Sequence[Any],
    train: Train,
    *,
    tuning: Tuning | None = None,
    seed: int = 0,
    on_training: OnTraining | None = None,
) -> dict[str, Trust]:
    """Each client's own choice; `train` is the federated training that is going to be used.

    Everybody trains with the same public λ in turn; which suited it better is a client's secret.
    One without an expert or with too few rows to hold any back keeps what it has and is not in
    the result.
    """
    tuning = tuning or Tuning()
    rule = _RULES.get(clients[0].predictor) if clients else None
    if rule is None:
        return {}
    tried = tuning.training or (None,)
    done, total = 0, tuning.folds * len(tried)

    def train_and_count(some: Sequence[Any]) -> Fitted[Any]:
        nonlocal done
        fitted = train(some)
        done += 1
        if on_training is not None:
            on_training(done, total)
        return fitted

    cache = partial(rule.cache, tuning.grid)
    found: dict[str, list[tuple[float, list[Any]]]] = {}
    for value in tried:
        trial = [_with_training_trust(client, value) for client in clients]
        held = out_of_fold_parts(
            trial, train_and_count, cache, folds=tuning.folds, seed=seed, who=rule.holds_out
        )
        for client in trial:
            if client.id in held and rule.chooses(client):
                found.setdefault(client.id, []).append((client.knowledge.trust, held[client.id]))
    return {c.id: rule.pick(c, found[c.id], tuning, seed) for c in clients if c.id in found}


class ByHits:
    """Of classes: by right answers on rows that were held out."""

    def holds_out(self, client: Client) -> bool:
        return True

    def chooses(self, client: Client) -> bool:
        return client.data.prior is not None and client.injected

    def cache(self, grid: Sequence[float], model: Personal, client: Client, rows: Tensor) -> Cached:
        return cache_logits(model, client, rows)

    def pick(
        self,
        client: Client,
        trials: Sequence[tuple[float, list[Cached]]],
        tuning: Tuning,
        seed: int,
    ) -> Trust:
        joined = [(trained, Cached.join(parts)) for trained, parts in trials]
        return pick(joined, tuning, client.knowledge.row_trust, seed)


class ByError:
    """Of a number: the smallest λ at prediction that is nearly best, and with it λ in training."""

    def chooses(self, client: NumberClient) -> bool:
        return client.knowledge.prediction is not None

    holds_out = chooses  # others are away from no training

    @torch.no_grad()
    def cache(
        self, grid: Sequence[float], model: PersonalRegressor, client: NumberClient, rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Some of its rows, and what its model says of them under each λ, (grid, n)."""
        known = client.knowledge
        measured = known.annotate(client.data[rows], Line(model.bins), training=False)
        asked = [model.with_knowledge(replace(known, reliance=value)) for value in grid]
        return rows, torch.stack([one.predict(measured) for one in asked]).float()

    def pick(
        self,
        client: NumberClient,
        trials: Sequence[tuple[float, list[tuple[Tensor, Tensor]]]],
        tuning: Tuning,
        seed: int,
    ) -> Trust:
        y, grid = client.data.numbers(), tuning.grid
        said = {}  # by λ in training, (grid, n) in the order of the rows
        for trained, parts in trials:
            said[trained] = torch.empty(len(grid), len(y))
            for rows, some in parts:
                said[trained][:, rows] = some
        found = [
            (rmse(some, y), trained, at)
            for trained, _ in trials
            for at, some in zip(grid, said[trained], strict=True)
        ]
        least = min(found)[0]
        near = [one for one in found if one[0] <= _ENOUGH * least]
        error, trained, reliance = min(near, key=lambda one: (one[2], one[0]))
        chosen = Trust(trained, reliance, rows=len(y), rmse=error)
        formula = _learn_number(client, chosen, said[trained], grid, seed)
        return replace(chosen, formula=formula)


_RULES: dict[type, Any] = {Personal: ByHits(), PersonalRegressor: ByError()}


def pick(
    trials: Sequence[tuple[float, Cached]],
    tuning: Tuning,
    rows: RowTrust | None = None,
    seed: int = 0,
) -> Trust:
    """One client's choice from (λ in training, held-out logits); the first wins a tie."""
    tried = []
    for trained, cached in trials:
        reliance = most_hits(cached, tuning.grid)
        ta = float(hits(cached, [reliance]).double().mean())
        tried.append((Trust(trained, reliance, ta, len(cached)), cached))
    found, cached = max(tried, key=lambda one: one[0].ta)
    return replace(found, formula=_learn(cached, rows, found.reliance, seed))


def _learn(cached: Cached, rows: RowTrust | None, reliance: float, seed: int) -> str:
    """λ row by row, where the client's held-out rows say more than one number."""
    known = cached.known
    if rows is None or known.prior is None:
        return ""
    rest = inject(cached.logits.double(), None, known.allowed).exp()
    cost, loss = class_costs(rest, known.prior, cached.y)
    x, heard = hide_others(known.x, rows.schema), known.prior.sum(1) > 0
    return learn_rows(rows, x, cost, loss, reliance, heard=heard, seed=seed).formula


def with_trust(clients: Sequence[Chooser], chosen: Mapping[str, Trust]) -> list[Chooser]:
    """The clients with the λ they chose."""
    return [_heeding(c, chosen[c.id]) if c.id in chosen else c for c in clients]


def _heeding(client: Chooser, own: Trust) -> Chooser:
    both: dict[str, Any] = {"trust": own.trust, "reliance": own.reliance}
    rows = client.knowledge.row_trust
    both |= {} if rows is None else {"row_trust": rows.with_formula(own.formula)}
    return client.with_knowledge(replace(client.knowledge, **both))


def _with_training_trust(client: Any, value: float | None) -> Any:
    if value is None:
        return client
    return replace(client, knowledge=replace(client.knowledge, trust=value))


def _learn_number(
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
