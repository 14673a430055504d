"""Candidate blends: whole lattices where they are small, sparse random ones where they are not."""

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from .coals import Array
from .limits import TOLERANCE, Limits

LATTICE_STEPS = (
    400,
    200,
    100,
    50,
    40,
    25,
    20,
    10,
    8,
    5,
    4,
    3,
    2,
)  # parts of a lattice, finest first


def lattice_size(coals: int, parts: int, most: int | None = None) -> int:
    """How many blends there are of at most so many coals in whole parts.

    >>> lattice_size(3, 100)
    5151
    """
    sizes = range(1, min(coals if most is None else most, coals, parts) + 1)
    return sum(math.comb(coals, s) * math.comb(parts - 1, s - 1) for s in sizes)


def lattice(limits: Limits, parts: int) -> Array:
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


def sparse(limits: Limits, count: int, draw: np.random.Generator) -> Array:
    """Random blends of one to seven coals (and those that must be in) within the limits."""
    c = len(limits)
    largest = min(limits.coals or 7, 7, c)
    keys = draw.random((count, c))
    sizes = draw.integers(1, largest + 1, size=count)
    rank = keys.argsort(1).argsort(1)
    weights = draw.exponential(size=(count, c))
    shares, possible = fit_lots(np.where(rank < sizes[:, None], weights, 0.0), limits)
    return shares[possible]


def fit_lots(weights: Array, limits: Limits) -> tuple[Array, NDArray[np.bool_]]:
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


def _level(weights: Array, level: Array, limits: Limits) -> Array:
    return np.where(weights > 0, np.clip(level[:, None] * weights, limits.low, limits.high), 0.0)


def _round_shares(shares: Array, limits: Limits, lots: int) -> Array:
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
