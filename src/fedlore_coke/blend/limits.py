"""Which shares a blend may have, and the points to look at inside these limits."""

import importlib
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlore.errors import FedloreError

from .coals import Array, Coals

TOLERANCE = 1e-9  # of a share
DEAR = 1e4  # what a unit of a broken cut costs, in spans of the price


@dataclass(frozen=True, eq=False)
class BlendLimits:
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
) -> BlendLimits:
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
    return BlendLimits(low, high, most_coals, parts)


def scipy_optimize() -> Any:
    """SciPy's optimisers, or how to get them."""
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError:
        raise FedloreError("the blend planner needs: pip install 'fedlore[blend]'") from None


def cheapest(
    price: Array,  # (c,)
    limits: BlendLimits,
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


def tidy(shares: Array, limits: BlendLimits) -> Array:
    """Specks removed, and the sum made 1 again on the largest share that has room."""
    clean = np.where((shares < 1e-7) & (limits.low <= 0), 0.0, shares)
    gap = 1.0 - clean.sum()
    room = limits.high - clean if gap > 0 else clean - limits.low
    fits = np.where((clean > 0) & (room >= abs(gap)), clean, -1.0)
    if fits.max() > 0:
        clean[int(fits.argmax())] += gap
    return clean


LATTICE_STEPS = (400, 200, 100, 50, 40, 25, 20, 10, 8, 5, 4, 3, 2)  # parts, finest first


def lattice_size(coals: int, parts: int, most: int | None = None) -> int:
    """How many blends there are of at most so many coals in whole parts.

    >>> lattice_size(3, 100)
    5151
    """
    sizes = range(1, min(coals if most is None else most, coals, parts) + 1)
    return sum(math.comb(coals, s) * math.comb(parts - 1, s - 1) for s in sizes)


def lattice(limits: BlendLimits, parts: int) -> Array:
    """All blends in whole parts that keep the limits, (n, c)."""
    c = len(limits)
    lowest = np.ceil(limits.low * parts - 1e-6).astype(np.int16)
    highest = np.floor(limits.high * parts + 1e-6).astype(np.int16)
    made = []
    for size in range(1, min(limits.coals or c, c, parts) + 1):
        shapes = _compositions(parts, size)  # (p, size)
        for chosen in itertools.combinations(range(c), size):
            if (np.delete(lowest, chosen) > 0).any():
                continue  # a coal that must be used is not
            here = list(chosen)
            kept = shapes[((shapes >= lowest[here]) & (shapes <= highest[here])).all(1)]
            if len(kept):
                rows = np.zeros((len(kept), c), dtype=np.int16)
                rows[:, here] = kept
                made.append(rows)
    whole = np.concatenate(made) if made else np.zeros((0, c), dtype=np.int16)
    return whole / float(parts)


def sparse(limits: BlendLimits, count: int, draw: np.random.Generator) -> Array:
    """Random blends of one to seven coals (and those that must be in) within the limits."""
    c = len(limits)
    largest = min(limits.coals or 7, 7, c)
    keys = draw.random((count, c))
    sizes = draw.integers(1, largest + 1, size=count)
    rank = keys.argsort(1).argsort(1)
    weights = draw.exponential(size=(count, c))
    shares, possible = fit_lots(np.where(rank < sizes[:, None], weights, 0.0), limits)
    return shares[possible]


def fit_lots(weights: Array, limits: BlendLimits) -> tuple[Array, NDArray[np.bool_]]:
    """Any weights (n, c) >= 0 as blends within the limits, and whether that could be done, (n,)."""
    weights = np.where(limits.low > 0, np.maximum(weights, 1e-6), weights)
    if limits.coals is not None:
        forced = weights + np.where(limits.low > 0, 1e9, 0.0)
        rank = (-forced).argsort(1, kind="stable").argsort(1, kind="stable")
        weights = np.where(rank < limits.coals, weights, 0.0)
    # the level s at which clip(s * weight, low, high) sums to 1, by bisection
    low, high = np.zeros(len(weights)), np.full(len(weights), 1.0)
    for _ in range(30):  # to 4^30, more than any weight needs that can reach it
        short = _level(weights, high, limits).sum(1) < 1.0
        if not short.any():
            break
        high = np.where(short, 4.0 * high, high)
    for _ in range(45):
        middle = (low + high) / 2.0
        short = _level(weights, middle, limits).sum(1) < 1.0
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    shares = _level(weights, high, limits)
    if limits.lots is not None:
        shares = _round_shares(shares, limits, limits.lots)
    else:
        shares = shares / np.maximum(shares.sum(1, keepdims=True), TOLERANCE)
    return shares, limits.holds(shares)


def distinct_blends(shares: Array, order: Array, count: int) -> list[int]:
    """Rows with different sets of coals, best first by `order`, at most `count`."""
    seen: set[bytes] = set()
    chosen: list[int] = []
    for i in np.argsort(order, kind="stable"):
        mark = (shares[i] > 0.005).tobytes()
        if mark not in seen:
            seen.add(mark)
            chosen.append(int(i))
            if len(chosen) == count:
                break
    return chosen


def _level(weights: Array, level: Array, limits: BlendLimits) -> Array:
    return np.where(weights > 0, np.clip(level[:, None] * weights, limits.low, limits.high), 0.0)


def _round_shares(shares: Array, limits: BlendLimits, lots: int) -> Array:
    """Whole lots by largest remainders, within the bounds."""
    lowest = np.ceil(limits.low * lots - 1e-6)
    highest = np.floor(limits.high * lots + 1e-6)
    exact = shares * lots
    whole = np.clip(np.floor(exact + TOLERANCE), lowest, highest)
    for _ in range(lots):
        gap = lots - whole.sum(1)
        if not gap.any():
            break
        used = shares > TOLERANCE
        up = np.where(used & (whole < highest), exact - whole, -np.inf)
        down = np.where(whole > lowest, whole - exact, -np.inf)
        rows = np.arange(len(whole))
        add, take = up.argmax(1), down.argmax(1)
        can_add = (gap > 0) & np.isfinite(up[rows, add])
        can_take = (gap < 0) & np.isfinite(down[rows, take])
        if not (can_add | can_take).any():
            break
        whole[rows[can_add], add[can_add]] += 1
        whole[rows[can_take], take[can_take]] -= 1
    return whole / lots


def _compositions(total: int, size: int) -> np.ndarray:
    """All ways to write a number as a sum of `size` positive ones, (n, size) int16."""
    if size == 1:
        return np.array([[total]], dtype=np.int16)
    if size == 2:
        first = np.arange(1, total, dtype=np.int16)
        return np.stack([first, total - first], 1)
    if size == 3:
        first, second = np.meshgrid(*[np.arange(1, total, dtype=np.int16)] * 2, indexing="ij")
        rows = np.stack([first.ravel(), second.ravel(), total - first.ravel() - second.ravel()], 1)
        return rows[rows[:, 2] > 0]
    parts = [
        np.concatenate([np.full((len(rest), 1), head, dtype=np.int16), rest], 1)
        for head in range(1, total - size + 2)
        for rest in [_compositions(total - head, size - 1)]
    ]
    return np.concatenate(parts)
