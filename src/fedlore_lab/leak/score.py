"""How good a guess is: errors against the best guess that needs no upload at all.

A score is the share of that guess's error which the attack takes away: 0 is chance, 1 is exact, and
below 0 the attack would have done better to look at nothing. Attacks that learn do so from shadows:
other simulated sites whose secrets the attacker knows, never the site under attack.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedlore.core.rng import stream
from fedlore.errors import FedloreError

SHRINK = (1.0, 10.0, 100.0, 1e3, 1e9)  # of the ridge; the last leaves nothing but the mean
RESAMPLED = 1000


@dataclass(frozen=True)
class Leak:
    """A score with its 95 % interval, over sites and seeds."""

    score: float
    low: float
    high: float

    @property
    def at_chance(self) -> bool:
        """Whether nothing shows that an upload told more than no upload."""
        return self.low <= 0.0


def score_leak(errors: Sequence[float], chance: Sequence[float]) -> Leak:
    """1 - (sum of errors) / (sum of the errors of no look), with a bootstrap interval over cases.

    >>> score_leak([0.0, 0.0], [0.5, 0.25])
    Leak(score=1.0, low=1.0, high=1.0)
    """
    if not errors or len(errors) != len(chance):
        raise FedloreError(
            f"a score needs as many errors as chances, got {len(errors)}, {len(chance)}"
        )
    pairs = torch.tensor([errors, chance], dtype=torch.float64)  # (2, n)
    score = float(_skill(pairs.sum(1, keepdim=True)))
    n = len(errors)
    picks = torch.randint(n, (RESAMPLED, n), generator=stream("leak", n))
    found = _skill(pairs[:, picks].sum(2)).sort().values
    edge = max(0, math.ceil(0.025 * RESAMPLED) - 1)
    return Leak(score, float(found[edge]), float(found[-1 - edge]))


def _skill(sums: Tensor) -> Tensor:
    """(2, r) sums of errors and of chances -> (r,); where chance is always right, 0."""
    return torch.where(sums[1] > 0, 1.0 - sums[0] / torch.where(sums[1] > 0, sums[1], 1.0), 0.0)


def auc(positive: Tensor, negative: Tensor) -> float:
    """How often a positive case has the higher value, ties count half; (p,) and (q,).

    >>> auc(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0]))
    0.875
    """
    if not len(positive) or not len(negative):
        raise FedloreError("AUC needs at least one case of either kind")
    apart = positive.double()[:, None] - negative.double()[None]
    return float(((apart > 0).double() + 0.5 * (apart == 0).double()).mean())


def shadow_mean(secrets: Tensor, groups: Tensor) -> Tensor:
    """For each case the mean secret over all other groups: a guess without any look, (n, ...)."""
    found = torch.empty_like(secrets)
    for group in _names(groups):
        found[groups == group] = secrets[groups != group].mean(0)
    return found


def shadow_guess(signs: Tensor, secrets: Tensor, groups: Tensor) -> Tensor:
    """For each case a guess learned from all other groups, (n, f), (n,) -> (n,).

    Ridge regression. How much to shrink is chosen on those groups alone; with useless signs their
    mean remains.
    """
    found = torch.empty_like(secrets)
    for group in _names(groups):
        mine = groups == group
        others, inner = ~mine, groups[~mine]
        shrink = _choose(signs[others], secrets[others], inner)
        found[mine] = _ridge(signs[others], secrets[others], signs[mine], shrink)
    return found


def _names(groups: Tensor) -> list[int]:
    return sorted(set(groups.tolist()))


def _choose(signs: Tensor, secrets: Tensor, groups: Tensor) -> float:
    names = _names(groups)
    if len(names) < 2:
        return SHRINK[2]
    lost = []
    for shrink in SHRINK:
        errors = torch.empty_like(secrets)
        for group in names:
            out = groups == group
            errors[out] = secrets[out] - _ridge(signs[~out], secrets[~out], signs[out], shrink)
        lost.append(float(errors.abs().mean()))
    return SHRINK[lost.index(min(lost))]


def _ridge(signs: Tensor, secrets: Tensor, at: Tensor, shrink: float) -> Tensor:
    """Ridge regression on standardised signs: fit (n, f), (n,), predict at (p, f) -> (p,)."""
    mean, spread = signs.mean(0), signs.std(0, correction=0)
    spread = torch.where(spread > 1e-9, spread, torch.inf)  # a constant sign says nothing
    x, level = (signs - mean) / spread, secrets.mean()
    gram = x.T @ x + shrink * torch.eye(x.shape[1], dtype=x.dtype)
    slope = torch.linalg.solve(gram, x.T @ (secrets - level))
    # what no shadow ever showed is not extrapolated far
    guess: Tensor = ((at - mean) / spread).clamp(-4.0, 4.0) @ slope + level
    return guess
