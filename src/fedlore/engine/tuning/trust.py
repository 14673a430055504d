"""Private choice of λ: every client picks its own, from its own rows, and tells nobody.

Out-of-fold logits come from ordinary federated trainings on the rows that are left. Then λ at
prediction costs nothing but arithmetic. λ in training is tried by trainings in which everybody
uses the same public value; which of them suited it better is again the client's secret.

Row trust is λ as a private function of the row, a shrunken logistic of a few named features.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...answers import Line
from ...answers.measured import rmse
from ...core.inject import inject
from ...core.metrics import decide
from ...core.rng import stream
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

#: Fixed on development seeds (studies/regions.py), not chosen by any site.
_STRENGTH = 2.0  # of the prior: one over the variance of each slope, in standard units of its term
_SURE = 1.0  # standard errors by which λ(x) must be better than one number
TRUST_ROWS = 20  # rows below which nothing is tried
_PARTS = 5  # in which it is tried on rows that it was not fitted to
_STEPS = 60
_LEAST = 1e-9  # likelihood of a row: a label outside its range is nobody's fault
_DIGITS = 6

RowCost = Callable[[Tensor], Tensor]  # λ of each row (n,) -> the loss of each row (n,)


@dataclass(frozen=True, eq=False)
class RowChoice:
    """What one site found out about its λ."""

    formula: str = ""  # λ of a row; empty: it is one number
    held: Tensor | None = None  # (n,) λ of each row, as the others taught it; NaN: the one number
    gain: float = 0.0  # by which its rows lose less than with one number


def learn_rows(
    rows: RowTrust | None,
    x: Tensor,  # (n, d) as knowledge sees them
    cost: RowCost,
    loss: RowCost,
    constant: float,
    *,
    heard: Tensor,  # (n,) bool: where the expert speaks
    seed: int = 0,
) -> RowChoice:
    """λ by the smooth `cost`, taken where it lowers that and does not raise the `loss`.

    Rows whose λ the owner says, and rows with a missing value, are not learned from.
    """
    if rows is None or not rows.terms:
        return RowChoice()
    terms = rows.design(x)
    said = rows.with_formula("")(x)
    used = heard & terms.isfinite().all(1) & said.isnan()
    if int(used.sum()) < TRUST_ROWS:
        return RowChoice()
    middle, spread = terms[used].mean(0), terms[used].std(0, correction=0)
    if not (spread > 0).any():
        return RowChoice()
    z = torch.where(spread > 0, (terms - middle) / torch.where(spread > 0, spread, 1.0), 0.0)
    z = z.nan_to_num(0.0)
    part = torch.empty(len(x), dtype=torch.int64)
    part[torch.randperm(len(x), generator=stream(seed, "trust parts"))] = (
        torch.arange(len(x)) % _PARTS
    )
    held, one = (torch.full((len(x),), torch.nan, dtype=torch.float64) for _ in range(2))
    for place in range(_PARTS):
        away = part == place
        for found, seen in ((held, z), (one, z[:, :0])):
            a, b = _fit(seen, cost, used & ~away, constant)
            found[away & used] = torch.sigmoid(a + seen @ b)[away & used]
    usual = torch.full_like(held, constant)
    mine, theirs = (torch.where(used, found, usual) for found in (held, one))
    gain = (cost(theirs) - cost(mine))[used]
    error = float(gain.std(correction=0)) / math.sqrt(len(gain))
    better = float((loss(usual) - loss(mine))[used].mean())
    if not float(gain.mean()) > _SURE * error or better < 0.0:
        return RowChoice()
    a, b = _fit(z, cost, used, constant)
    text = _write(rows.terms, float(a), b.tolist(), middle.tolist(), spread.tolist())
    return RowChoice(text, held, better)


def class_costs(
    rest: Tensor,  # (n, k) what all but the expert say
    prior: Tensor,  # (n, k)
    y: Tensor,
    *,
    ordered: bool = False,
) -> tuple[RowCost, RowCost]:
    """-log of the label's probability, and the loss: wrong answers, or of an order the first."""
    said, label = prior.double(), y.unsqueeze(1)
    at, his = (rows.gather(1, label).squeeze(1) for rows in (rest, said))
    total = said.sum(1).clamp(max=1.0)

    def cost(trust: Tensor) -> Tensor:
        return -((1.0 - trust * total) * at + trust * his).clamp(min=_LEAST).log()

    def wrong(trust: Tensor) -> Tensor:
        mixed = (1.0 - trust * total).unsqueeze(1) * rest + trust.unsqueeze(1) * said
        return (decide(mixed.log(), prior) != y).double()

    return cost, cost if ordered else wrong


def number_costs(
    rest: Tensor, said: Tensor, y: Tensor, together: Tensor
) -> tuple[RowCost, RowCost]:
    """Squared errors in units of the mixture's own, as a normal's log-likelihood has them."""
    unit = 2.0 * (together - y).square().mean().clamp(min=1e-300)

    def cost(trust: Tensor) -> Tensor:
        return (rest + trust * (said - rest) - y).square() / unit

    return cost, cost


@torch.enable_grad()
def _fit(z: Tensor, cost: RowCost, rows: Tensor, start: float) -> tuple[Tensor, Tensor]:
    """a and b of least cost with the prior on b, by L-BFGS from one number."""
    near = min(max(start, 0.05), 0.95)
    theta = torch.zeros(1 + z.shape[1], dtype=torch.float64)
    theta[0] = math.log(near / (1.0 - near))
    theta.requires_grad_()
    search = torch.optim.LBFGS([theta], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def measure() -> Tensor:
        search.zero_grad()
        trust = torch.sigmoid(theta[0] + z @ theta[1:])
        # a weak pull of the level to where it began: alike experts leave it open
        far = 0.1 * (theta[0] - theta[0].detach().new_tensor(math.log(near / (1 - near)))) ** 2
        total = cost(trust)[rows].sum() + 0.5 * _STRENGTH * theta[1:].square().sum() + far
        total.backward()  # type: ignore[no-untyped-call]
        return total

    search.step(measure)  # type: ignore[no-untyped-call]
    found = theta.detach()
    return found[0], found[1:]


def _write(
    terms: tuple[str, ...], a: float, b: list[float], middle: list[float], spread: list[float]
) -> str:
    """The function as a formula of the knowledge language; e^-z is cut off before it overflows."""
    slopes = [w / s if s > 0 else 0.0 for w, s in zip(b, spread, strict=True)]
    level = a - sum(w * m for w, m in zip(slopes, middle, strict=True))
    parts = [_number(-level)]
    for text, slope in zip(terms, slopes, strict=True):
        if slope:
            sign = "-" if slope > 0 else "+"
            parts.append(f"{sign} {_number(abs(slope))} * {text}")
    return f"1 / (1 + exp(min({' '.join(parts)}, 30)))"


def _number(value: float) -> str:
    text = f"{value:.{_DIGITS}g}"
    return "0" if abs(value) < 1e-30 else text


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
