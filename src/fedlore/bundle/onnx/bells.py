"""Ordered classes as nodes: what is heard of the expert in numbers, and a bell cut into classes.

Bells are worked out in double precision from formulas that `core.cells` and `own.ordinal` share:
with R(z) = log(Q(|z|) e^{z²/2}), Q the normal's upper tail, nothing overflows or cancels.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from ...core.ordinal import _FARTHEST, STEEP, Link
from ...kernel.graph.ops import DOUBLE, LARGEST, SINGLE, Ops, Value

BEND = math.sqrt(2.0) / 4.0  # t = 1 / (1 + BEND·|z|)
_DEGREE = 24  # of R - log t in t = 1 / (1 + BEND·|z|): 1e-14 at most


def place_nodes(
    o: Ops,
    prior: Value | None,
    allowed: Value | None,
    classes: int,
    dtype: Any,
    stated: Value | None = None,
) -> tuple[Value, Value]:
    """The middle of the range and the expert's place, (n, 1) each, as `core.ordinal.places`."""
    at = o.constant(np.arange(classes)[:, None], dtype)
    if allowed is None:
        middle = o.fill((classes - 1) / 2, 1, dtype)
    else:
        inside = o.cast(allowed, dtype)
        middle = o.op("MatMul", inside, at) / o.total(inside)
    if stated is not None:
        middle = _or(o, (o.columns(stated, [1]) + o.columns(stated, [2])) * 0.5, middle)
    return middle, _expert_place(o, prior, at, middle, dtype, stated)


def place_among(o: Ops, numbers: Value, edges: Sequence[float]) -> Value:
    """Where numbers (n, 1) lie among classes, as `core.ordinal.place_among`."""
    at = np.array(edges)
    low, high = np.zeros(len(at) - 1), np.ones(len(at) - 1)
    low[0], high[-1] = -LARGEST, LARGEST  # a checker of graphs wants finite numbers
    share = (numbers - o.constant([at[:-1]], DOUBLE)) / o.constant([np.diff(at)], DOUBLE)
    share = o.between(share, o.constant([low], DOUBLE), o.constant([high], DOUBLE))
    return o.where(o.isnan(numbers), math.nan, 0.5 + o.total(share))


def _or(o: Ops, number: Value, other: Value) -> Value:
    return o.where(o.isnan(number), other, number)


def sight_nodes(
    o: Ops,
    prior: Value | None,
    allowed: Value | None,
    classes: int,
    stated: Value | None = None,
) -> tuple[Value, Value]:
    """What own members hear, (n, 3) float32, and where they start, (n, 1), as `see_order`."""
    k = classes
    if allowed is None:
        low, high = o.fill(0.0, 1, DOUBLE), o.fill(k - 1.0, 1, DOUBLE)
    else:
        at, below = o.constant([np.arange(k)]), o.constant([-np.arange(k)])
        ends = o.where(allowed, below, 1.0 - k), o.where(allowed, at, 0.0)
        least, most = (o.op("ReduceMax", end, axes=[1], keepdims=1) for end in ends)
        low, high = o.cast(-least, DOUBLE), o.cast(most, DOUBLE)
    if stated is not None:
        low, high = _or(o, o.columns(stated, [1]), low), _or(o, o.columns(stated, [2]), high)
    middle, wide = (low + high) * 0.5, (high - low) * 0.5
    at = o.constant(np.arange(k)[:, None], DOUBLE)
    start = _expert_place(o, prior, at, middle, DOUBLE, stated)
    return o.cast(o.concat(start, middle, wide), SINGLE), start


def _expert_place(
    o: Ops, prior: Value | None, at: Value, middle: Value, dtype: Any, stated: Value | None
) -> Value:
    """The mean place of the expert's row, the middle where he is silent, (n, 1)."""
    if prior is None:
        return middle
    said = o.cast(prior, dtype)
    total = o.total(said)
    spoken = total > 0.0
    place = o.where(spoken, o.op("MatMul", said, at) / o.where(spoken, total, 1.0), middle)
    return place if stated is None else _or(o, o.columns(stated, [0]), place)


def heard_nodes(middle: Value, expert: Value, classes: int) -> list[Value]:
    """The three numbers that a network hears, (n, 1) each, as `core.ordinal.heard_numbers`."""
    centre, unit = (classes - 1) / 2, classes / 4
    return [(middle - centre) / unit, (expert - centre) / unit, expert - middle]


def bend_nodes(
    o: Ops,
    z: Value,
    link: Link,
    places: tuple[Value, Value],  # the middle of the range, and the expert
    allowed: Value | None,
    classes: int,
    dtype: Any,
    stated: Value | None = None,
) -> tuple[Value, Value]:
    """Place and slope of `core.ordinal.bend_place`, (n, 1) each."""
    centre = places[0] if link.around == "middle" else places[1]
    wide = o.fill(float(classes), 1, dtype)
    if allowed is not None:
        wide = o.total(o.cast(allowed, dtype))
    if stated is not None:
        wide = _or(o, o.columns(stated, [2]) - o.columns(stated, [1]), wide)
    width = wide * (link.share / 2)
    t = o.op("Tanh", (z - centre) / width)
    return centre + width * t, 1.0 - t * t


def logistic_cells(o: Ops, place: Value, width: Value, classes: int) -> Value:
    """Log-probabilities under the logistic bell, (n, 1) double -> (n, k) double."""
    k, rate = classes, STEEP / width
    z = (o.constant([np.arange(k - 1) + 0.5], DOUBLE) - place) * rate  # (n, k - 1)
    soft = o.op("Log", 1.0 + o.op("Exp", -abs(z)))
    below = o.smaller(z, 0.0) - soft  # log σ(z)
    none = o.fill(0.0, 1, DOUBLE)
    ends = o.concat(below, none) + o.concat(none, below - z)
    share = o.op("Log", 1.0 - o.op("Exp", -rate))
    return ends + o.where(_closed(o, k), share, 0.0)


def normal_cells(o: Ops, place: Value, width: Value, classes: int) -> Value:
    """Log-probabilities under the normal bell, (n, 1) double -> (n, k) double."""
    k, rate = classes, 1.0 / width
    limits = o.constant(-_FARTHEST, DOUBLE), o.constant(_FARTHEST, DOUBLE)

    def away(at: Any) -> Value:
        return o.op("Clip", (o.constant([at], DOUBLE) - place) * rate, *limits)

    z, middle = away(np.arange(k - 1) + 0.5), away(np.arange(k))
    ratio = _log_ratio(o, z)
    tail = ratio - 0.5 * (z * z)
    # as good as endless, and finite, as every number before the scores must be
    none, open_, blank = (o.fill(end, 1, DOUBLE) for end in (-LARGEST, LARGEST, 0.0))
    # of each class what stands at its lower and at its upper edge
    lower, upper = o.concat(none, tail), o.concat(tail, none)
    near, far = o.concat(blank, ratio), o.concat(ratio, blank)
    gap = o.where(_closed(o, k), abs((middle * rate + near) - far), math.inf)
    holds = (o.concat(none, z) < 0.0) & (o.concat(z, open_) > 0.0)
    share = o.op("Log", 1.0 - o.op("Exp", -o.where(holds, 1.0, gap)))
    rest = (1.0 - o.op("Exp", lower)) - o.op("Exp", upper)
    around = o.op("Log", o.larger(rest, float(np.finfo(DOUBLE).tiny)))
    return o.where(holds, around, o.larger(lower, upper) + share)


def _closed(o: Ops, k: int) -> Value:
    """The classes with an edge on both sides, (1, k)."""
    return o.constant([[0 < c < k - 1 for c in range(k)]], np.bool_)


def _log_ratio(o: Ops, z: Value) -> Value:
    """R(z), as a polynomial in t, in double precision: runtimes have erf in single only."""
    t = 1.0 / (1.0 + BEND * abs(z))
    s = 2.0 * t - 1.0
    powers = curve()
    p = o.constant(powers[-1], DOUBLE)
    for power in powers[-2::-1]:
        p = p * s + power
    return p + o.op("Log", t)


@cache
def curve() -> tuple[float, ...]:
    """R(z) - log t in powers of s = 2t - 1."""

    def sought(s: Any) -> Any:
        t = (torch.from_numpy(np.asarray(s, DOUBLE)) + 1.0) / 2.0
        u = (1.0 / t - 1.0) / BEND * math.sqrt(0.5)
        return (torch.special.erfcx(u).mul(0.5).log() - t.log()).numpy()

    fitted = np.polynomial.chebyshev.chebinterpolate(sought, _DEGREE)
    return tuple(np.polynomial.chebyshev.cheb2poly(fitted).tolist())
