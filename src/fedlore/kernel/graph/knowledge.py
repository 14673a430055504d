"""All that a knowledge file says, as nodes: range, prediction, refusals and trust."""

from typing import NamedTuple

from ..knowledge import Known
from ..sources import Soft
from .ops import BOOL, SINGLE, Ops, Value
from .soft import weigh_odds
from .sources import (
    View,
    average_prediction,
    confuse,
    first_prediction,
    hide_levels,
    join_ranges,
    keep_inside,
    looked_at,
    meet_ranges,
    refuse_rows,
)
from .tables import Answer


class KnowledgeNodes(NamedTuple):
    """What the expert says of rows, (n, k) each."""

    prior: Value | None  # nothing outside the range
    allowed: Value | None
    refused: Value  # (n, 1): where either refuses to answer, or there are no values
    trust: Value | None = None  # λ, (n, 1), where a row has one of its own


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


def every_class(o: Ops, x: Value, k: int) -> Value:
    """A range that excludes nothing, (n, k) bool."""
    return o.fill(True, k, BOOL, like=x)


def range_answer(view: View, known: Known) -> Answer | None:
    """What the sources of the range allow together; None where there are none."""
    side = known.range
    if not side.sources:
        return None
    parts = [view.answer(source) for source in side.sources]
    if len(parts) == 1:
        return parts[0]
    if side.combine == "any":
        return join_ranges(view.o, parts)
    lacking = None if side.empty == "error" else view.lacking(looked_at(side.sources))
    return meet_ranges(view.o, parts, side.empty, lacking)


def prior_answer(view: View, known: Known, allowed: Answer | None) -> Answer | None:
    """What the experts predict, before the range; None where there are none."""
    if not known.predict.sources and not known.soft:
        return None
    o, lacking = view.o, view.lacking(looked_at(known.range.sources))
    soft = bool(known.soft) or any(isinstance(one, Soft) for one in known.predict.sources)
    inside = allowed.rows if allowed is not None else None
    if soft and inside is None:
        inside = every_class(o, view.x, known.k)
    found = _experts(view, known, inside, lacking) if known.predict.sources else None
    if known.soft:
        odds = [view.odds(one, inside) for one in known.soft]
        unsure = o.either(*[view.undecided(one) for one in known.soft], lacking)
        rows = weigh_odds(o, None if found is None else found.rows, odds, inside, unsure)
        found = Answer(rows, None if found is None else found.refused)
    assert found is not None
    return found if known.confusion is None else confuse(o, found, known.confusion)


def _experts(view: View, known: Known, inside: Value, lacking: Value | None) -> Answer:
    side, around = known.predict, known.range.sources
    parts = [
        view.predict_soft(source, inside, lacking)
        if isinstance(source, Soft)
        else view.answer(source)
        for source in side.sources
    ]
    if len(parts) == 1:
        return parts[0]
    open_ = [
        view.lacking(looked_at([source, *around] if isinstance(source, Soft) else [source]))
        for source in side.sources
    ]
    if side.combine == "average":
        return average_prediction(view.o, parts, side.weights, open_)
    return first_prediction(view.o, parts, open_)
