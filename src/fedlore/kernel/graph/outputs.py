"""From the scores of members to what a graph of classes gives out, nothing outside the range.

Whatever the members are: a softmax over what is allowed is a distribution with nothing outside, and
so is a sum of such with weights that are not negative and sum to 1, the expert's among them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .knowledge import KnowledgeNodes
from .ops import BOOL, DOUBLE, INT64, SINGLE, Ops, Value


class Part(NamedTuple):
    """The finite scores of a member, (n, k), and its share of all but the expert's."""

    scores: Value
    weight: Value | None = None  # None: it is the only one


def mask_range(o: Ops, known: KnowledgeNodes, classes: int) -> Value:
    """The range that is given out: nothing where a row is refused, (n, k) bool."""
    mask = o.fill(True, classes, BOOL) if known.allowed is None else known.allowed
    return o.op("And", mask, o.op("Not", known.refused))


def mix_parts(o: Ops, parts: Sequence[Part], allowed: Value, dtype: Any) -> Value:
    """Σ w_j softmax(scores_j within the range), (n, k)."""
    mixed = None
    for part in parts:
        masked = o.op("Where", allowed, part.scores, o.constant(-np.inf, dtype))
        top = o.op("ReduceMax", masked, axes=[1], keepdims=1)
        raised = o.op("Exp", o.op("Sub", masked, top))
        raised = o.op("Where", allowed, raised, o.constant(0.0, dtype))
        share = o.op("Div", raised, o.total(raised))
        share = share if part.weight is None else o.op("Mul", share, part.weight)
        mixed = share if mixed is None else o.op("Add", mixed, share)
    return mixed


def add_expert(o: Ops, mixed: Value, prior: Value, trust: Value, dtype: Any) -> Value:
    """(1-λ)·mixed + λ·g_p, with prior and λ, (n, 1) or one number, in single precision."""
    weighed = o.op("Mul", prior, trust)
    share = o.op("Min", o.total(weighed), o.constant(1.0, dtype))
    kept = o.op("Mul", mixed, o.op("Sub", o.constant(1.0, dtype), share))
    return o.op("Add", kept, weighed)


def inside_range(o: Ops, mixed: Value, allowed: Value, dtype: Any) -> Value:
    """Probabilities, all outside set to 0 at the very end, (n, k) float32."""
    mixed = mixed if dtype is SINGLE else o.cast(mixed, SINGLE)
    return o.op("Where", allowed, mixed, o.constant(0.0))


def choose_class(o: Ops, p: Value, prior: Value | None, refused: Value) -> Value:
    """The most probable class, (n,); at an exact tie the expert's, else the lowest; -1 refused."""
    chosen = o.op("ArgMax", p, axis=1, keepdims=1)
    if prior is not None:
        top = o.op("ReduceMax", p, axes=[1], keepdims=1)
        spoken = o.op("Greater", prior, o.constant(0.0))
        tied = o.op("And", o.op("Equal", p, top), spoken)
        theirs = o.op("ArgMax", o.cast(tied, SINGLE), axis=1, keepdims=1)
        chosen = o.op("Where", o.any(tied), theirs, chosen)
    return squeeze(o, o.op("Where", refused, o.constant(-1, INT64), chosen))


def median_class(o: Ops, p: Value, refused: Value) -> Value:
    """Of knowledge with shapes the first class with half of the probability below or at it."""
    share = o.cast(p, DOUBLE)
    below = o.op("CumSum", share, o.constant(1, INT64))
    half = o.op("Mul", o.total(share), o.constant(0.5, DOUBLE))
    some = o.op("Greater", share, o.constant(0.0, DOUBLE))
    reached = o.op("And", o.op("GreaterOrEqual", below, half), some)
    chosen = o.op("ArgMax", o.cast(reached, SINGLE), axis=1, keepdims=1)
    return squeeze(o, o.op("Where", refused, o.constant(-1, INT64), chosen))


def squeeze(o: Ops, column: Value) -> Value:
    """(n, 1) -> (n,)"""
    return o.op("Squeeze", column, o.constant([1], INT64))
