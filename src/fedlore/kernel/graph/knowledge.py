"""All that a knowledge file says, as nodes, and what a graph of classes gives out, in the range.

Whatever the members are: a softmax over what is allowed is a distribution with nothing outside, and
so is a sum of such with weights that are not negative and sum to 1, the expert's among them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..knowledge import Known
from ..sources import ConfusedExpert, SoftWeighting
from .ops import BOOL, DOUBLE, INT64, SINGLE, Answer, Ops, Value
from .sources import View, hide_levels, keep_inside, refuse_rows


class KnowledgeNodes(NamedTuple):
    """What the expert says of rows, (n, k) each."""

    prior: Value | None  # nothing outside the range
    allowed: Value | None
    refused: Value  # (n, 1): where either refuses to answer, or there are no values
    trust: Value | None = None  # λ, (n, 1), where a row has one of its own
    stated: Value | None = None  # (n, 3) his number and both ends among classes, where some hear it


def compile_knowledge(o: Ops, known: Known) -> KnowledgeNodes:
    """Knowledge about classes on the graph's rows."""
    view = see_rows(o, known)
    allowed = range_answer(view, known)
    prior = prior_answer(view, known, allowed)
    trust = None if known.row_trust is None else view.trust(known.row_trust, known.trust)
    unusable = refuse_rows(o, o.cast(o.rows, SINGLE), known.columns)
    return join_sides(o, prior, allowed, known.conflict, unusable)._replace(trust=trust)


def see_rows(o: Ops, known: Known) -> View:
    """The graph's rows as knowledge sees them."""
    x = hide_levels(o, o.cast(o.rows, SINGLE), known.columns)
    return View(o, x, holes=any(c.may_miss or c.other for c in known.columns))


def join_sides(
    o: Ops, prior: Answer | None, allowed: Answer | None, conflict: str, unusable: Value
) -> KnowledgeNodes:
    """Prediction and range under the policy for conflicts; `unusable` rows are refused too."""
    refused = o.either(unusable, *[side.refused for side in (prior, allowed) if side is not None])
    rows = None if prior is None else prior.rows
    if prior is not None and allowed is not None:
        rows, more = keep_inside(o, prior.rows, allowed.rows, conflict)
        refused = o.either(refused, more)
    return KnowledgeNodes(rows, None if allowed is None else allowed.rows, refused)


def range_answer(view: View, known: Known) -> Answer | None:
    """What the sources of the range allow together; None where there are none."""
    return view.answer(known.range) if known.range.sources else None


def prior_answer(view: View, known: Known, allowed: Answer | None) -> Answer | None:
    """What the experts predict, before the range; None where there are none."""
    source: Any = known.predict if known.predict.sources else None
    source = SoftWeighting(source, known.soft) if known.soft else source
    if source is None:
        return None
    source = source if known.confusion is None else ConfusedExpert(source, known.confusion)
    inside = None if allowed is None else allowed.rows
    return view.within(inside, known.range.sources).answer(source)


class Part(NamedTuple):
    """The finite scores of a member, (n, k), and its share of all but the expert's."""

    scores: Value
    weight: Value | None = None  # None: it is the only one


def mask_range(o: Ops, known: KnowledgeNodes, classes: int) -> Value:
    """The range that is given out: nothing where a row is refused, (n, k) bool."""
    mask = o.fill(True, classes, BOOL) if known.allowed is None else known.allowed
    return mask & ~known.refused


def mix_parts(o: Ops, parts: Sequence[Part], allowed: Value, dtype: Any) -> Value:
    """Σ w_j softmax(scores_j within the range), (n, k)."""
    mixed = None
    for part in parts:
        masked = o.where(allowed, part.scores, o.constant(-np.inf, dtype))
        top = o.op("ReduceMax", masked, axes=[1], keepdims=1)
        raised = o.where(allowed, o.op("Exp", masked - top), o.constant(0.0, dtype))
        share = raised / o.total(raised)
        share = share if part.weight is None else share * part.weight
        mixed = share if mixed is None else mixed + share
    return mixed


def add_expert(o: Ops, mixed: Value, prior: Value, trust: Value, dtype: Any) -> Value:
    """(1-λ)·mixed + λ·g_p, with prior and λ, (n, 1) or one number, in single precision."""
    weighed, one = prior * trust, o.constant(1.0, dtype)
    return mixed * (one - o.smaller(o.total(weighed), one)) + weighed


def inside_range(o: Ops, mixed: Value, allowed: Value, dtype: Any) -> Value:
    """Probabilities, all outside set to 0 at the very end, (n, k) float32."""
    mixed = mixed if dtype is SINGLE else o.cast(mixed, SINGLE)
    return o.where(allowed, mixed, o.constant(0.0))


def choose_class(o: Ops, p: Value, prior: Value | None, refused: Value) -> Value:
    """The most probable class, (n,); at an exact tie the expert's, else the lowest; -1 refused."""
    chosen = o.op("ArgMax", p, axis=1, keepdims=1)
    if prior is not None:
        top = o.op("ReduceMax", p, axes=[1], keepdims=1)
        tied = o.equal(p, top) & (prior > o.constant(0.0))
        theirs = o.op("ArgMax", o.cast(tied, SINGLE), axis=1, keepdims=1)
        chosen = o.where(o.any(tied), theirs, chosen)
    return squeeze(o, o.where(refused, o.constant(-1, INT64), chosen))


def median_class(o: Ops, p: Value, refused: Value) -> Value:
    """Of knowledge with shapes the first class with half of the probability below or at it."""
    share = o.cast(p, DOUBLE)
    below = o.op("CumSum", share, o.constant(1, INT64))
    reached = (below >= o.total(share) * 0.5) & (share > 0.0)
    chosen = o.op("ArgMax", o.cast(reached, SINGLE), axis=1, keepdims=1)
    return squeeze(o, o.where(refused, o.constant(-1, INT64), chosen))


def squeeze(o: Ops, column: Value) -> Value:
    """(n, 1) -> (n,)"""
    return o.op("Squeeze", column, o.constant([1], INT64))
