"""Private choice of λ: every client picks its own, from its own rows, and tells nobody.

Out-of-fold logits come from ordinary federated trainings on the rows that are left. Then λ at
prediction costs nothing but arithmetic. λ in training is tried by trainings in which everybody
uses the same public value; which of them suited it better is again the client's secret.
"""

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast, get_args

import torch
from torch import Tensor

from ...answers import Line
from ...answers.scores import rmse
from ...core.inject import inject
from ...core.rng import key, stream
from ...errors import ConfigError, FedloreError
from ...knowledge.missing import hear, hide_others
from ...knowledge.rowtrust import RowTrust
from ...models.classifier import Personal
from ...models.client import Client, Member, NumberClient, P, trust_anew
from ...models.regressor import PersonalRegressor
from ..training import Fitted
from .oof import GRID, Cached, Train, check_folds, held_out, hits, least_loss, loss, most_hits
from .rowtrust import class_costs, learn_rows, number_costs

TuningMethod = Literal["grid", "gradient", "tpe"]


@dataclass(frozen=True)
class Tuning:
    """How λ is chosen.

    grid counts right predictions over a grid of λ; gradient takes the least log-loss, by its
    closed-form slope; tpe searches both λ together by Optuna, one federated training a trial.
    Cost in trainings of the usual length: folds - 1 for each value in `training`, or `trials`
    times 1 - 1/folds for tpe, and then the final one.
    """

    method: TuningMethod = "grid"
    folds: int = 3
    training: tuple[float, ...] = (0.0, 0.3)  # λ tried in training; () keeps each client's own
    grid: tuple[float, ...] = GRID  # λ tried at prediction
    trials: int = 15  # of tpe

    def __post_init__(self) -> None:
        if self.method not in get_args(TuningMethod):
            raise ConfigError(f"method must be grid, gradient or tpe, got '{self.method}'")
        check_folds(self.folds)
        if self.trials < 1:
            raise ConfigError(f"trials must be at least 1, got {self.trials}")
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
    clients: Sequence[Client],
    train: Train,
    *,
    tuning: Tuning | None = None,
    seed: int = 0,
    on_training: OnTraining | None = None,
) -> dict[str, Trust]:
    """Each client's own choice; `train` is the federated training that is going to be used.

    A client without an expert or with too few rows to hold any back keeps what it has and is
    not in the result.
    """
    tuning = tuning or Tuning()
    if tuning.method == "tpe":
        return search_trust(clients, train, tuning, seed=seed, on_training=on_training)
    total = tuning.folds * max(1, len(tuning.training))
    done = 0

    def counted(some: Sequence[Client]) -> Fitted[Personal]:
        nonlocal done
        fitted = train(some)
        done += 1
        if on_training is not None:
            on_training(done, total)
        return fitted

    found: dict[str, list[tuple[float, Cached]]] = {}
    for value in tuning.training or (None,):
        trial = [_with_training_trust(client, value) for client in clients]
        cached = held_out(trial, counted, folds=tuning.folds, seed=seed)
        for client in trial:
            if client.id in cached and client.data.prior is not None and client.injected:
                entry = (client.knowledge.trust, cached[client.id])
                found.setdefault(client.id, []).append(entry)
    rows = {client.id: client.knowledge.row_trust for client in clients}
    return {name: pick(trials, tuning, rows[name], seed) for name, trials in found.items()}


def pick(
    trials: Sequence[tuple[float, Cached]],
    tuning: Tuning,
    rows: RowTrust | None = None,
    seed: int = 0,
) -> Trust:
    """One client's choice from (λ in training, held-out logits); the first wins a tie."""
    best: tuple[float, Trust, Cached] | None = None
    for trained, cached in trials:
        if tuning.method == "gradient":
            reliance = least_loss(cached)
            score = -float(loss(cached, [reliance]))
        else:
            reliance = most_hits(cached, tuning.grid)
            score = float(hits(cached, [reliance]).double().mean())
        ta = float(hits(cached, [reliance]).double().mean())
        if best is None or score > best[0]:
            best = (score, Trust(trained, reliance, ta, len(cached)), cached)
    assert best is not None  # there is at least one trial
    _, found, cached = best
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
    changed: Client | NumberClient
    if isinstance(client, NumberClient):
        changed = replace(client, knowledge=replace(client.knowledge, **both))
    else:
        assert isinstance(client, Client)  # nobody else chooses
        changed = trust_anew(client, replace(client.knowledge, **both))
    return cast(Chooser, changed)


def _with_training_trust(client: Client, value: float | None) -> Client:
    if value is None:
        return client
    return replace(client, knowledge=replace(client.knowledge, trust=value))


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
        c.id: _learn_number(c, picked[c.id], kept[c.id, picked[c.id].trust], tuning.grid, seed)
        for c in choosing
    }
    return {name: replace(one, formula=formulas[name]) for name, one in picked.items()}


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
    measured = client.knowledge.annotate(client.data[rows], Line(model.bins), training=False)
    return torch.stack(
        [
            model.with_knowledge(replace(client.knowledge, reliance=value)).predict(measured)
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


def search_trust(
    clients: Sequence[Client],
    train: Train,
    tuning: Tuning,
    *,
    seed: int = 0,
    on_training: OnTraining | None = None,
) -> dict[str, Trust]:
    """Each client's own choice of both λ after `tuning.trials` federated trainings."""
    optuna = _optuna()
    knowing = [c for c in clients if c.data.prior is not None and c.injected]
    studies = {
        c.id: optuna.create_study(
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=key(seed, "tpe", c.id) % 2**32),
        )
        for c in knowing
    }
    seen: dict[str, list[Trust]] = {c.id: [] for c in knowing}
    for number in range(tuning.trials):
        asked = {name: study.ask() for name, study in studies.items()}
        both = {
            name: (t.suggest_float("trust", 0.0, 0.6), t.suggest_float("reliance", 0.0, 0.6))
            for name, t in asked.items()
        }
        trial = [
            replace(c, knowledge=replace(c.knowledge, trust=both[c.id][0], reliance=both[c.id][1]))
            if c.id in both
            else c
            for c in clients
        ]
        # one fold a trial, another one each time: noisy, as the estimator expects, and cheap
        cached = held_out(trial, train, folds=tuning.folds, seed=seed, use=[number % tuning.folds])
        for name, study in studies.items():
            if name not in cached:
                continue
            ta = float(hits(cached[name], [both[name][1]]).double().mean())
            study.tell(asked[name], ta)
            seen[name].append(Trust(*both[name], ta, len(cached[name])))
        if on_training is not None:
            on_training(number + 1, tuning.trials)
    return {name: _settle(trials) for name, trials in seen.items() if trials}


def _settle(trials: Sequence[Trust]) -> Trust:
    """The mean of the best third: one lucky fold does not decide."""
    best = sorted(trials, key=lambda t: -t.ta)[: max(1, len(trials) // 3)]
    n = len(best)
    return Trust(
        sum(t.trust for t in best) / n,
        sum(t.reliance for t in best) / n,
        sum(t.ta for t in best) / n,
        best[0].rows,
    )


def _optuna() -> Any:
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise FedloreError("method tpe needs: pip install 'fedlore[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def choose_trust(
    clients: Sequence[Member[P]],
    train: Callable[[Sequence[Member[P]]], Fitted[P]],
    *,
    tuning: Tuning | None = None,
    seed: int = 0,
    on_training: OnTraining | None = None,
) -> dict[str, Trust]:
    """Each client's own choice: by right answers, or of numbers by their error."""
    all_of_them: Sequence[object] = clients  # of either kind, and all of one
    numbers = [client for client in all_of_them if isinstance(client, NumberClient)]
    if numbers:
        learn = cast(NumberTrain, train)  # clients of one task are trained for it
        return tune_numbers(numbers, learn, tuning=tuning, seed=seed, on_training=on_training)
    classes = [client for client in all_of_them if isinstance(client, Client)]
    return tune(classes, cast(Train, train), tuning=tuning, seed=seed, on_training=on_training)
