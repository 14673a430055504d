"""Shares of rows with their intervals, and bets against a claim.

A bet has capital that cannot be expected to grow while the claim is true.

Whoever stakes 1 against a true claim has at most 1 in expectation at any time, so the chance that
the capital ever reaches 1/α is at most α (Ville 1939; Ramdas et al. 2023, *Game-theoretic
statistics and safe anytime-valid inference*). Nobody has to say in advance when to look.

Two kinds of claims are bet against. *A rate*: something goes wrong in at most so many of the rows.
*No change*: numbers come in an order that says nothing; the place of each among those before it is
then uniform, whatever their distribution (Vovk et al. 2005, *Algorithmic learning in a random
world*).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .tensors import torch

Reals = NDArray[np.float64]

_AT_ONCE = 0.5  # of the capital is staked from the first row on
_LATER = 0.01  # of what is left joins with every row, for changes that come later
ODDS = (3.0, 8.0)  # how much likelier a fault has become, that bets against a rate are made for
SHIFTS = (0.4, 0.8)  # standard deviations of a normal score that has moved


@dataclass(frozen=True, eq=False)
class Course:
    """How a bet went: the capital after each row, as logarithms, and when it began to gain."""

    capital: Reals  # (t,)
    since: int  # the row from which on the best of the bets gained most, up to the peak

    @property
    def most(self) -> float:
        """The most that it ever came to: an alarm once given stays."""
        return float(self.capital.max(initial=0.0))


def bet_on_rate(faults: Sequence[float] | Reals, rate: float) -> Course:
    """Against: "at most `rate` of the rows have a fault", with faults as 0 or 1.

    Or as the share of a lot: the mean of its rows' gains is fair however they hang together.
    """
    wrong = np.asarray(faults, dtype=np.float64)
    odds = rate / (1.0 - rate) * np.array(ODDS)
    stated = odds / (1.0 + odds)  # what each bet takes the rate to be
    won, lost = stated / rate, (1.0 - stated) / (1.0 - rate)
    return _play(np.log(wrong[:, None] * won + (1.0 - wrong[:, None]) * lost))


def bet_on_order(
    numbers: Sequence[float] | Reals,
    before: Sequence[float] | Reals,
    draws: Reals,
    *,
    falls: bool = True,
) -> Course:
    """Against: "nothing has changed since `before`"; bets that they rise, and with `falls` fall.

    `draws` are uniform numbers, one for each, that tell equal ones apart.
    """
    places = rank_numbers(numbers, before, draws)
    normal = _normal_score(places)
    shifts = np.array((*SHIFTS, *(-s for s in SHIFTS)) if falls else SHIFTS)
    return _play(normal[:, None] * shifts - shifts**2 / 2)


def rank_numbers(
    numbers: Sequence[float] | Reals, before: Sequence[float] | Reals, draws: Reals
) -> Reals:
    """The place of each number among all before it and itself, in (0, 1): uniform if none moved."""
    past = sorted(np.asarray(before, dtype=np.float64).tolist())
    places = np.empty(len(numbers))
    for i, value in enumerate(np.asarray(numbers, dtype=np.float64).tolist()):
        below, end = bisect_left(past, value), bisect_right(past, value)
        places[i] = (below + draws[i] * (end - below + 1)) / (len(past) + 1)
        past.insert(end, value)
    return places


def _play(gains: Reals) -> Course:
    """The capital under bets with these logarithms of gains, (t, bets).

    A part is staked at once and a part of the rest with every row, evenly on all bets: whatever
    the claim is, the sum is as fair as each of them.
    """
    rows, bets = gains.shape
    rest = np.log(1.0 - _AT_ONCE) + np.arange(rows + 1) * np.log1p(-_LATER)  # not yet staked
    total = gains.cumsum(0)
    joins = rest[:-1, None] + np.log(_LATER / bets) - (total - gains)  # so that it grows by total
    joins[:1] = np.logaddexp(joins[:1], np.log(_AT_ONCE / bets))
    staked = total + np.logaddexp.accumulate(joins, axis=0)
    capital = np.logaddexp(np.logaddexp.reduce(staked, axis=1), rest[1:])
    peak = int(capital.argmax()) + 1 if len(capital) else 0
    return Course(capital, _find_start(gains[:peak]))


def _find_start(gains: Reals) -> int:
    if not len(gains):
        return 0
    left = gains[::-1].cumsum(0)[::-1]  # what each bet gains from a row on
    return int(np.unravel_index(left.argmax(), left.shape)[0])


def _normal_score(places: Reals) -> Reals:
    """The quantile of the normal distribution."""
    inside = torch.from_numpy(places).clamp(1e-12, 1 - 1e-12)
    found: Reals = torch.special.ndtri(inside).numpy()
    return found


_HALVINGS = 60


def wilson(right: float, n: int, *, wide: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share of n rows (Wilson 1927), right for few rows and near 0 and 1.

    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    z = wide**2 / n
    centre = (right + z / 2) / (1 + z)
    half = (z * right * (1 - right) + z * z / 4) ** 0.5 / (1 + z)
    return max(centre - half, 0.0), min(centre + half, 1.0)


def exact_share(right: int, n: int, *, miss: float = 0.05) -> tuple[float, float]:
    """The shares that do not make so many of n rows a surprise (Clopper and Pearson 1934).

    The interval misses the true share in at most `miss` of all cases, however few rows there are.

    >>> [round(end, 3) for end in exact_share(34, 48)]
    [0.559, 0.83]
    >>> exact_share(0, 10)[0], exact_share(10, 10)[1]
    (0.0, 1.0)
    """
    low = 0.0 if right == 0 else find_share(lambda p: at_most(right - 1, n, p) > 1 - miss / 2)
    high = 1.0 if right == n else find_share(lambda p: at_most(right, n, p) > miss / 2)
    return low, high


def at_most(count: int, n: int, share: float) -> float:
    """The probability of at most so many of n rows, each with a chance of `share` in (0, 1)."""
    several, logs = np.arange(count + 1), _log_factorials(n)
    ways = logs[n] - logs[several] - logs[n - several]
    each = several * math.log(share) + (n - several) * math.log1p(-share)
    return float(np.exp(ways + each).sum())


@lru_cache(maxsize=8)  # asked for the same rows at each halving
def _log_factorials(n: int) -> Reals:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])


def find_share(holds: Callable[[float], bool]) -> float:
    """The share up to which something holds."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return (low + high) / 2
