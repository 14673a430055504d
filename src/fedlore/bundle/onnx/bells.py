"""Ordered classes as nodes: what is heard of the expert in numbers, and a bell cut into classes.

Bells are worked out in double precision from formulas that `core.cells` and `own.ordinal` share:
with R(z) = log(Q(|z|) e^{z²/2}), Q the normal's upper tail, nothing overflows or cancels.
"""

import math
from functools import cache
from typing import Any

import numpy as np
import torch

from ...core.ordinal import _FARTHEST, BEND, STEEP
from ...kernel.graph.ops import DOUBLE, LARGEST, SINGLE, Value
from .builder import Builder

_DEGREE = 24  # of R - log t in t = 1 / (1 + BEND·|z|): 1e-14 at most


def place_nodes(
    build: Builder, prior: str | None, allowed: str | None, classes: int, dtype: Any
) -> tuple[str, str]:
    """The middle of the range and the expert's place, (n, 1) each, as `core.ordinal.places`."""
    at = build.constant(np.arange(classes)[:, None], dtype)
    if allowed is None:
        middle = build.fill((classes - 1) / 2, 1, dtype)
    else:
        inside = build.cast(allowed, dtype)
        middle = build.op("Div", build.op("MatMul", inside, at), build.total(inside))
    return middle, _expert_place(build, prior, at, middle, dtype)


def sight_nodes(
    build: Builder, prior: str | None, allowed: str | None, classes: int
) -> tuple[str, str]:
    """What own members hear, (n, 3) float32, and where they start, (n, 1), as `see_order`."""
    k = classes
    if allowed is None:
        low, high = build.fill(0.0, 1, DOUBLE), build.fill(k - 1.0, 1, DOUBLE)
    else:
        at, below = build.constant([np.arange(k)]), build.constant([-np.arange(k)])
        ends = (
            build.op("Where", allowed, below, build.constant(1.0 - k)),
            build.op("Where", allowed, at, build.constant(0.0)),
        )
        least, most = (build.op("ReduceMax", end, axes=[1], keepdims=1) for end in ends)
        low, high = build.cast(build.op("Neg", least), DOUBLE), build.cast(most, DOUBLE)
    half = build.constant(0.5, DOUBLE)
    middle = build.op("Mul", build.op("Add", low, high), half)
    wide = build.op("Mul", build.op("Sub", high, low), half)
    start = _expert_place(
        build, prior, build.constant(np.arange(k)[:, None], DOUBLE), middle, DOUBLE
    )
    return build.cast(build.op("Concat", start, middle, wide, axis=1), SINGLE), start


def _expert_place(build: Builder, prior: str | None, at: str, middle: str, dtype: Any) -> Value:
    """The mean place of the expert's row, the middle where he is silent, (n, 1)."""
    if prior is None:
        return middle
    said = build.cast(prior, dtype)
    total = build.total(said)
    spoken = build.op("Greater", total, build.constant(0.0, dtype))
    whole = build.op("Where", spoken, total, build.constant(1.0, dtype))
    return build.op("Where", spoken, build.op("Div", build.op("MatMul", said, at), whole), middle)


def heard_nodes(build: Builder, middle: str, expert: str, classes: int, dtype: Any) -> list[str]:
    """The three numbers that a network hears, (n, 1) each, as `core.ordinal.heard_numbers`."""
    centre = build.constant((classes - 1) / 2, dtype)
    unit = build.constant(classes / 4, dtype)
    first, second = (
        build.op("Div", build.op("Sub", one, centre), unit) for one in (middle, expert)
    )
    return [first, second, build.op("Sub", expert, middle)]


def logistic_cells(build: Builder, place: str, width: str, classes: int) -> Value:
    """Log-probabilities under the logistic bell, (n, 1) double -> (n, k) double."""
    k = classes
    rate = build.op("Div", build.constant(STEEP, DOUBLE), width)
    edges = build.constant([np.arange(k - 1) + 0.5], DOUBLE)
    z = build.op("Mul", build.op("Sub", edges, place), rate)  # (n, k - 1)
    zero, one = build.constant(0.0, DOUBLE), build.constant(1.0, DOUBLE)
    far = build.op("Exp", build.op("Neg", build.op("Abs", z)))
    soft = build.op("Log", build.op("Add", one, far))
    below = build.op("Sub", build.op("Min", z, zero), soft)  # log σ(z)
    above = build.op("Sub", below, z)
    none = build.fill(0.0, 1, DOUBLE)
    ends = build.op(
        "Add",
        build.op("Concat", below, none, axis=1),
        build.op("Concat", none, above, axis=1),
    )
    share = build.op("Log", build.op("Sub", one, build.op("Exp", build.op("Neg", rate))))
    inner = build.constant([[0 < c < k - 1 for c in range(k)]], np.bool_)
    return build.op("Add", ends, build.op("Where", inner, share, zero))


def normal_cells(build: Builder, place: str, width: str, classes: int) -> Value:
    """Log-probabilities under the normal bell, (n, 1) double -> (n, k) double."""
    k, half = classes, build.constant(0.5, DOUBLE)
    zero, one = build.constant(0.0, DOUBLE), build.constant(1.0, DOUBLE)
    rate = build.op("Div", one, width)
    limits = build.constant(-_FARTHEST, DOUBLE), build.constant(_FARTHEST, DOUBLE)

    def away(at: Any) -> Value:
        gap = build.op("Sub", build.constant([at], DOUBLE), place)
        return build.op("Clip", build.op("Mul", gap, rate), *limits)

    z, middle = away(np.arange(k - 1) + 0.5), away(np.arange(k))
    ratio = _log_ratio(build, z)
    tail = build.op("Sub", ratio, build.op("Mul", half, build.op("Mul", z, z)))
    # as good as endless, and finite, as every number before the scores must be
    none, open_ = (build.fill(end, 1, DOUBLE) for end in (-LARGEST, LARGEST))
    # of each class what stands at its lower and at its upper edge
    lower, upper = (_at_edges(build, tail, none, upper=side) for side in (False, True))
    blank = build.fill(0.0, 1, DOUBLE)
    near, far = (_at_edges(build, ratio, blank, upper=side) for side in (False, True))
    apart = build.op("Mul", middle, rate)
    inner = build.op("Abs", build.op("Sub", build.op("Add", apart, near), far))
    closed = build.constant([[0 < c < k - 1 for c in range(k)]], np.bool_)
    gap = build.op("Where", closed, inner, build.constant(math.inf, DOUBLE))
    begins = build.op("Less", _at_edges(build, z, none, upper=False), zero)
    ends = build.op("Greater", _at_edges(build, z, open_, upper=True), zero)
    holds = build.op("And", begins, ends)
    safe = build.op("Where", holds, one, gap)
    share = build.op("Log", build.op("Sub", one, build.op("Exp", build.op("Neg", safe))))
    ensemble = build.op("Add", build.op("Max", lower, upper), share)
    rest = build.op("Sub", build.op("Sub", one, build.op("Exp", lower)), build.op("Exp", upper))
    tiny = build.constant(float(np.finfo(DOUBLE).tiny), DOUBLE)
    around = build.op("Log", build.op("Max", rest, tiny))
    return build.op("Where", holds, around, ensemble)


def _at_edges(build: Builder, edges: str, end: str, *, upper: bool) -> Value:
    """Values at the lower edges of all classes, or at the upper ones, (n, k - 1) -> (n, k)."""
    parts = (edges, end) if upper else (end, edges)
    return build.op("Concat", *parts, axis=1)


def _log_ratio(build: Builder, z: str) -> Value:
    """R(z), as a polynomial in t, in double precision: runtimes have erf in single only."""
    one = build.constant(1.0, DOUBLE)
    size = build.op("Mul", build.constant(BEND, DOUBLE), build.op("Abs", z))
    t = build.op("Div", one, build.op("Add", one, size))
    s = build.op("Sub", build.op("Mul", build.constant(2.0, DOUBLE), t), one)
    powers = curve()
    p = build.constant(powers[-1], DOUBLE)
    for power in powers[-2::-1]:
        p = build.op("Add", build.op("Mul", p, s), build.constant(power, DOUBLE))
    return build.op("Add", p, build.op("Log", t))


@cache
def curve() -> tuple[float, ...]:
    """R(z) - log t in powers of s = 2t - 1."""

    def sought(s: Any) -> Any:
        t = (torch.from_numpy(np.asarray(s, DOUBLE)) + 1.0) / 2.0
        u = (1.0 / t - 1.0) / BEND * math.sqrt(0.5)
        return (torch.special.erfcx(u).mul(0.5).log() - t.log()).numpy()

    fitted = np.polynomial.chebyshev.chebinterpolate(sought, _DEGREE)
    return tuple(np.polynomial.chebyshev.cheb2poly(fitted).tolist())
