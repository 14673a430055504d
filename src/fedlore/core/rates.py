"""How well a share of rows is known."""

import math
from collections.abc import Callable

import numpy as np

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
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])  # log of factorials

    def at_most(count: int, share: float) -> float:
        """The probability of at most so many of n rows."""
        several = np.arange(count + 1)
        ways = logs[n] - logs[several] - logs[n - several]
        each = several * math.log(share) + (n - several) * math.log1p(-share)
        return float(np.exp(ways + each).sum())

    low = 0.0 if right == 0 else _where(lambda p: at_most(right - 1, p) > 1 - miss / 2)
    high = 1.0 if right == n else _where(lambda p: at_most(right, p) > miss / 2)
    return low, high


def _where(holds: Callable[[float], bool]) -> float:
    """The share up to which something holds."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return (low + high) / 2
