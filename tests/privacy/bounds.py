"""Bounds of the chance that sparse secure aggregation fails: what docs/explain/masks.md states."""

import math
from collections.abc import Sequence

import numpy as np

from fedlore.privacy.secagg.graph import LASTING

HELPING = DROPPING = 0.1  # what `LASTING` is chosen for
_SLOPES = np.geomspace(1e-3, 30.0, 300)  # of Chernoff's bound


def _tail(parts: Sequence[tuple[float, float]], chance: float, end: float) -> float:
    """ln of a bound of P(Σ aᵢ Xᵢ >= end) for pairs (a, N) with X binomial over N coins."""
    bound = -_SLOPES * end
    for factor, coins in parts:
        bound = bound + coins * np.log1p(chance * np.expm1(np.minimum(_SLOPES * factor, 60.0)))
    return min(0.0, float(bound.min()))


def exposure(
    sites: int, neighbours: float, *, helping: float = HELPING, lasting: float = LASTING
) -> float:
    """ln of a bound of the chance that (1) or (2) comes about where a share of the sites helps."""
    chance, bad = neighbours / (sites - 1), math.floor(helping * sites)
    good, rest = sites - bad, 1.0 - lasting
    # (1): c - (2t - m) >= 0 with t above lasting × m, for c helpers and m - c honest holders
    one = _tail([(2 * rest, bad), (1 - 2 * lasting, good - 1)], chance, 2 * lasting - 1)
    found = math.log(good) + one
    for size in range(1, good // 5 + 1):
        ways = math.lgamma(good + 1) - math.lgamma(size + 1) - math.lgamma(good - size + 1)
        # (2): Σ over the set of 2 (1 - lasting) × m - honest neighbours outside >= 0
        inside, outside = size * (size - 1) / 2, size * (good - size)
        parts = [(2 * rest - 1, outside), (4 * rest, inside), (2 * rest, size * bad)]
        found = float(np.logaddexp(found, ways + _tail(parts, chance, -2 * rest * size)))
    return min(0.0, found)


def void(sites: int, neighbours: float, *, lost: float = DROPPING) -> float:
    """ln of a bound of the chance that fewer than t of those around somebody last."""
    chance, gone = neighbours / (sites - 1), math.floor(lost * sites)
    parts = [(LASTING, gone), (LASTING - 1.0, sites - gone - 1)]
    return min(0.0, math.log(sites - gone) + _tail(parts, chance, 1 - LASTING))
