"""What a blend may hold, stock and lots included: the linear part, solved by HiGHS in SciPy."""

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlore.errors import FedloreError

from .coals import Array, Coals

TOLERANCE = 1e-9  # of a share
DEAR = 1e4  # what a unit of a broken cut costs, in spans of the price


@dataclass(frozen=True, eq=False)
class Limits:
    """Shares of the c coals: bounds, at most so many coals, whole lots."""

    low: Array  # (c,)
    high: Array  # (c,)
    coals: int | None = None  # at most so many
    lots: int | None = None  # shares are multiples of 1 / lots

    def __len__(self) -> int:
        return len(self.low)

    def holds(self, shares: Array) -> NDArray[np.bool_]:
        """Which blends keep all limits, (n, c) -> (n,)."""
        kept: NDArray[np.bool_] = np.abs(shares.sum(1) - 1.0) <= 1e-8
        kept &= ((shares >= self.low - TOLERANCE) & (shares <= self.high + TOLERANCE)).all(1)
        if self.coals is not None:
            kept &= (shares > TOLERANCE).sum(1) <= self.coals
        if self.lots is not None:
            whole = shares * self.lots
            kept &= (np.abs(whole - np.round(whole)) <= 1e-6).all(1)
        return kept


def limits_of(
    coals: Coals,
    *,
    tonnes: float | None = None,
    most_coals: int | None = None,
    lots: float | None = None,  # the size of a lot, % of the blend
) -> Limits:
    """The bounds of the list, and of the stock where the tonnage is known."""
    if tonnes is not None and not 0.0 < tonnes < np.inf:
        raise FedloreError(f"tonnes must be positive and finite, got {tonnes:g}")
    if most_coals is not None and most_coals < 1:
        raise FedloreError(f"a blend has at least 1 coal, got at most {most_coals}")
    parts = None
    if lots is not None:
        parts = round(100.0 / lots) if 0.0 < lots <= 100.0 else 0
        if parts < 1 or abs(parts * lots - 100.0) > 1e-9:
            raise FedloreError(f"lots must divide 100 %, as 5 or 12.5 do, got {lots:g}")
    low, high = coals.bounds
    if tonnes is not None and coals.stock is not None:
        high = np.minimum(high, coals.stock / tonnes)
    return Limits(low, high, most_coals, parts)


def scipy_optimize() -> Any:
    """SciPy's optimisers, or how to get them."""
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError:
        raise FedloreError("the blend planner needs: pip install 'fedlore[blend]'") from None


def cheapest(
    price: Array,  # (c,)
    limits: Limits,
    *,
    cuts: tuple[Array, Array] | None = None,  # (m, c) and (m,): cuts @ shares >= ends, if possible
    near: tuple[Array, float] | None = None,  # a blend, and how far each share may be from it
) -> Array | None:
    """The cheapest shares within the limits, (c,); None where there are none.

    A linear program, or with lots or a number of coals a mixed-integer one. Cuts that cannot be
    kept are broken as little as possible.
    """
    optimize = scipy_optimize()
    c = len(limits)
    scale = float(limits.lots or 1)  # a variable counts lots, where there are lots
    low, high = limits.low.copy(), limits.high.copy()
    if near is not None:
        low, high = np.maximum(low, near[0] - near[1]), np.minimum(high, near[0] + near[1])
    if (low > high + TOLERANCE).any():
        return None
    high = np.maximum(high, low)
    used = 0 if limits.coals is None else c
    # columns: shares, whether each coal is used, and how far the cuts are broken
    size = c + used + 1
    rows, least, most = [np.r_[np.ones(c), np.zeros(used + 1)]], [scale], [scale]
    if cuts is not None:
        for row, end in zip(*cuts, strict=True):
            rows.append(np.r_[row, np.zeros(used), scale])
            least.append(end * scale)
            most.append(np.inf)
    if used:
        for i in range(c):
            row = np.zeros(size)
            row[i], row[c + i] = 1.0, -high[i] * scale
            rows.append(row)
            least.append(-np.inf)
            most.append(0.0)
        rows.append(np.r_[np.zeros(c), np.ones(c), 0.0])
        least.append(0.0)
        most.append(float(limits.coals or 0))
    whole = np.r_[np.full(c, float(limits.lots is not None)), np.ones(used), 0.0]
    slack = 1e-9 * scale if limits.lots is not None else 0.0
    span = float(price.max() - price.min()) or 1.0
    found = optimize.milp(
        np.r_[(price - price.min()) / span, np.zeros(used), DEAR * scale],
        integrality=whole,
        bounds=optimize.Bounds(
            np.r_[low * scale - slack, np.zeros(used + 1)],
            np.r_[high * scale + slack, np.ones(used), np.inf],
        ),
        constraints=optimize.LinearConstraint(np.stack(rows), np.array(least), np.array(most)),
    )
    if found.x is None:
        return None
    shares: Array = found.x[:c] / scale
    if limits.lots is not None:
        return np.abs(np.round(shares * limits.lots)) / limits.lots
    return tidy(np.clip(shares, limits.low, limits.high), limits)


def tidy(shares: Array, limits: Limits) -> Array:
    """Specks removed, and the sum made 1 again on the largest share that has room."""
    clean = np.where((shares < 1e-7) & (limits.low <= 0), 0.0, shares)
    gap = 1.0 - clean.sum()
    room = limits.high - clean if gap > 0 else clean - limits.low
    fits = np.where((clean > 0) & (room >= abs(gap)), clean, -1.0)
    if fits.max() > 0:
        clean[int(fits.argmax())] += gap
    return clean
