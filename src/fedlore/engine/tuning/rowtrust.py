"""Row trust: λ as a private function of the row, a shrunken logistic of a few named features."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.metrics import decide
from ...core.rng import stream
from ...knowledge.rowtrust import RowTrust

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
