"""Number by number over the whole scope: sets that are never empty, experts who stay in them."""

from typing import Any

import numpy as np

from .graded import Limits
from .intervals import Boxes
from .numbersets import NamedNumber, NumberKnown, points_of, sets_of
from .orders import never_above
from .proofs import BUDGET, Verdict, decide
from .tables import Table

Array = Any  # of numpy


def number_never_empty(known: NumberKnown, budget: int = BUDGET) -> Verdict:
    """Whether every row of the scope has a number in its set, and is not refused by the range."""

    def holds(boxes: Boxes) -> Array:
        sources = known.range.sources
        fine = np.ones(len(boxes.low), bool)
        for source in sources:  # a row whose ends cross is refused whatever the others say
            if isinstance(source, Limits):
                fine &= _between(source, source, boxes)
        if not sources:
            return fine
        if known.range.combine == "any":
            return fine & np.any([_sure([one], known, boxes) for one in sources], axis=0)
        return fine & _sure(sources, known, boxes)

    def broken(x: Array) -> Array:
        sets = sets_of(known, x)
        none: Array = sets.refused | sets.empty(known)
        return none

    return decide(known, holds, broken, known.range.sources, budget)


def _sure(sources: list[Any], known: NumberKnown, boxes: Boxes) -> Array:
    """Boxes in which some sources surely have a number of the bounds in common, (b,)."""
    limits = [one for one in sources if isinstance(one, Limits)]
    tables = [one for one in sources if not isinstance(one, Limits)]
    # a piece that all tables allow all over the box, and that lies between all formulas
    allowed = np.broadcast_to(known.inside, (len(boxes.low), len(known.pieces))).copy()
    for table in tables:
        allowed &= table.sure(boxes)
    for one in limits:
        begin, end = _outer(one, boxes)
        allowed &= begin[:, None] <= known.pieces[None, :, 0]
        allowed &= known.pieces[None, :, 1] <= end[:, None]
    found: Array = allowed.any(1)
    if any(table.policy == "union" or not _is_plain(table) for table in tables):
        return found
    # or every lower end lies below every upper one, which is enough where sets have no gaps
    ends = [(np.full(len(boxes.low), known.lower), np.full(len(boxes.low), known.upper))]
    ends += [_narrow(table, known, boxes) for table in tables]
    begins, stops = [one[0] for one in ends], [one[1] for one in ends]
    meets = np.maximum.reduce(begins) <= np.minimum.reduce(stops)
    for one in limits:
        begin, end = _outer(one, boxes)
        meets &= (begin <= np.minimum.reduce(stops)) & (np.maximum.reduce(begins) <= end)
        for other in limits:
            meets &= _between(one, other, boxes)
    return found | meets


def _is_plain(table: Table) -> bool:
    """Whether every rule allows one interval: pieces without a gap."""
    return all(
        max(r.classes) - min(r.classes) + 1 == len(r.classes) for r in table.rules if r.classes
    )


def _narrow(table: Table, known: NumberKnown, boxes: Boxes) -> tuple[Array, Array]:
    """The highest lower and the lowest upper end that rules which may hit leave, (b,) each."""
    may = table.over(boxes)[0]
    none = (np.inf, -np.inf)  # a rule that allows no number at all
    ends = [
        (known.pieces[min(r.classes), 0], known.pieces[max(r.classes), 1]) if r.classes else none
        for r in table.rules
    ]
    lows, tops = np.array(ends).T
    return (
        np.where(may, lows[None], -np.inf).max(1, initial=-np.inf),
        np.where(may, tops[None], np.inf).min(1, initial=np.inf),
    )


def _outer(one: Limits, boxes: Boxes) -> tuple[Array, Array]:
    """What the lower side is at most, and the upper one at least, over boxes, (b,) each."""
    begin, end = np.full(len(boxes.low), -np.inf), np.full(len(boxes.low), np.inf)
    if one.lower is not None:
        begin = np.nan_to_num(boxes.bounds(one.lower)[1], nan=-np.inf, posinf=np.inf)
    if one.upper is not None:
        end = np.nan_to_num(boxes.bounds(one.upper)[0], nan=np.inf, neginf=-np.inf)
    return begin, end


def _between(one: Limits, other: Limits, boxes: Boxes) -> Array:
    if one.lower is None or other.upper is None:
        return np.ones(len(boxes.low), bool)
    return never_above(one.lower, other.upper, boxes)


def number_agrees(known: NumberKnown, budget: int = BUDGET) -> Verdict:
    """Whether the rules of a unique table never name two numbers."""
    tables = [one for one in known.predict.sources if not isinstance(one, NamedNumber)]

    def holds(boxes: Boxes) -> Array:
        return np.all([one.safe(boxes) for one in tables], axis=0)

    return decide(known, holds, lambda x: points_of(known, x)[1], tables, budget)


def number_inside(known: NumberKnown, budget: int = BUDGET) -> Verdict:
    """Whether what the expert names lies in the set, in every row of the scope."""
    ranges = known.range.sources

    def holds(boxes: Boxes) -> Array:
        fine = np.ones(len(boxes.low), bool)
        if known.range.combine == "any":
            return ~fine
        for source in known.predict.sources:
            fine &= _stays(source, ranges, known, boxes)
        return fine

    def broken(x: Array) -> Array:
        said = points_of(known, x)[0]
        out: Array = ~np.isnan(said) & ~sets_of(known, x).holds(known, said)
        return out

    return decide(known, holds, broken, [*known.predict.sources, *ranges], budget)


def _stays(source: Any, ranges: list[Any], known: NumberKnown, boxes: Boxes) -> Array:
    if isinstance(source, NamedNumber):
        least, most = boxes.bounds(source.tree)
        never = np.isnan(least)
        fine = (least >= known.lower) & (most <= known.upper)
        for one in ranges:
            if isinstance(one, Limits):
                if one.lower is not None:
                    fine &= never_above(one.lower, source.tree, boxes)
                if one.upper is not None:
                    fine &= never_above(source.tree, one.upper, boxes)
                continue
            touched = (known.pieces[None, :, 1] >= least[:, None]) & (
                known.pieces[None, :, 0] <= most[:, None]
            )
            fine &= ~(touched & ~one.sure(boxes)).any(1)
        return fine | never
    said = source.may_say(boxes)
    fine = ~(said & ~known.inside[None]).any(1)
    for one in ranges:
        if isinstance(one, Limits):
            begin, end = _outer(one, boxes)
            within = (begin[:, None] <= known.pieces[None, :, 0]) & (
                known.pieces[None, :, 1] <= end[:, None]
            )
            fine &= ~(said & ~within).any(1)
        else:
            fine &= ~(said & ~one.sure(boxes)).any(1)
    return fine
