"""Means with 95 % intervals over seeds, and paired differences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

# 97.5 % points of Student's t with 1..30 degrees of freedom
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True)
class MeanInterval:
    """A mean over seeds and half the width of its 95 % interval (NaN for a single seed)."""

    mean: float
    half: float

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half


def interval(values: Sequence[float]) -> MeanInterval:
    """The mean of independent values and its 95 % interval by Student's t.

    >>> interval([1.0, 2.0, 3.0])
    MeanInterval(mean=2.0, half=2.4843...)
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return MeanInterval(mean, math.nan)
    variance = math.fsum((v - mean) ** 2 for v in values) / (n - 1)
    # beyond the table: the first term of the expansion around the normal quantile
    t = _T[n - 2] if n - 1 <= len(_T) else 1.95996 + 2.3723 / (n - 1)
    return MeanInterval(mean, t * math.sqrt(variance / n))


def pair_interval(ours: Sequence[float], theirs: Sequence[float]) -> MeanInterval:
    """The mean difference of values that share their seeds, one by one."""
    return interval([a - b for a, b in zip(ours, theirs, strict=True)])
