"""Branch and bound over the declared scope: does a rule hold in every row, and where not?

Boxes in which the rule is sure to hold are dropped; the others are cut where a condition of a table
begins or ends, and halved where a formula is too wide. Tables are decided exactly this way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .answers import prior_of, range_of
from .cells import before, single
from .expressions import columns_in, numbers_in
from .graded import Graded, Limits
from .intervals import Boxes
from .knowledge import Known, Scoped, scope_of
from .orders import never_above
from .soft import is_soft

Array = Any  # of numpy
Holds = Callable[[Boxes], Array]  # -> (b,)
Broken = Callable[[Array], Array]  # rows (n, d) -> (n,)

BUDGET = 200_000  # boxes
_BATCH = 2_048


@dataclass(frozen=True)
class Verdict:
    """Proved, refuted with a row, or unknown once the budget is spent."""

    status: Literal["proved", "refuted", "unknown"]
    example: tuple[float, ...] | None = None
    boxes: int = 0


def never_empty(known: Known, budget: int = BUDGET) -> Verdict:
    """Whether the range allows a class in every row of the scope, without refusing any."""
    side = known.range

    def holds(boxes: Boxes) -> Array:
        safe = np.ones(len(boxes.low), bool)
        for source in side.sources:
            safe &= source.safe(boxes)
        if len(side.sources) > 1 and side.combine == "all" and side.empty == "error":
            safe &= sure_range(known, boxes).any(1)
        return safe

    def broken(x: Array) -> Array:
        rows, refused = range_of(known, x)
        return refused | ~rows.any(1)

    return decide(known, holds, broken, known.range.sources, budget)


def agrees(known: Known, budget: int = BUDGET) -> Verdict:
    """Whether the rules of a unique table never disagree, so that no row is refused by them."""

    def holds(boxes: Boxes) -> Array:
        return np.all([source.safe(boxes) for source in known.predict.sources], axis=0)

    def broken(x: Array) -> Array:
        return prior_of(known, x)[1]

    return decide(known, holds, broken, known.predict.sources, budget)


def inside(known: Known, budget: int = BUDGET) -> Verdict:
    """Whether the prediction stays in the range by itself, in every row of the scope."""

    if is_soft(known):
        return Verdict("unknown")  # nothing is claimed of what holds in most cases only
    either = known.range.combine == "any"

    def holds(boxes: Boxes) -> Array:
        fine = np.ones(len(boxes.low), bool)
        for source in known.predict.sources:
            said = source.may_say(boxes)
            if known.confusion is not None:
                said = said @ (known.confusion > 0)
            within = [
                ~(said & ~one.sure(boxes)).any(1) | _between(known, source, one, boxes)
                for one in known.range.sources
            ]
            kept = np.any(within, axis=0) if either else np.all(within, axis=0)
            fine &= kept | ~(said & ~sure_range(known, boxes)).any(1)
        return fine

    def broken(x: Array) -> Array:
        return ((prior_of(known, x)[0] > 0) & ~range_of(known, x)[0]).any(1)

    sources = [*known.predict.sources, *known.range.sources]
    return decide(known, holds, broken, sources, budget)


def _between(known: Known, source: Any, limits: Any, boxes: Boxes) -> Array:
    """Boxes in which a formula stays between those of a range: what they share cancels."""
    fits = isinstance(source, Graded) and isinstance(limits, Limits) and known.confusion is None
    if not fits or source.spread is not None or not np.array_equal(limits.edges, source.edges):
        return np.zeros(len(boxes.low), bool)
    kept = np.ones(len(boxes.low), bool)
    if limits.lower is not None:
        kept &= never_above(limits.lower, source.tree, boxes)
    if limits.upper is not None:
        kept &= never_above(source.tree, limits.upper, boxes)
    return kept


def sure_range(known: Known, boxes: Boxes) -> Array:
    """Classes that are allowed in every row of a box, (b, k)."""
    parts = [source.sure(boxes) for source in known.range.sources]
    if not parts:
        return np.ones((len(boxes.low), known.k), bool)
    either = known.range.combine == "any"
    found: Array = np.any(parts, axis=0) if either else np.all(parts, axis=0)
    return found


def decide(
    known: Scoped, holds: Holds, broken: Broken, sources: list[Any], budget: int = BUDGET
) -> Verdict:
    """Whether a rule holds all over the scope."""
    first, last = scope_of(known)
    row = _first(broken, samples(known, 4_000, seed=0))
    if row is not None:
        return Verdict("refuted", row)
    low, high = first[None], last[None]
    looked = 0
    while len(low):
        if looked > budget:
            return Verdict("unknown", boxes=looked)
        part = slice(max(len(low) - _BATCH, 0), None)  # the newest first: little memory
        a, b = low[part], high[part]
        low, high = low[: part.start], high[: part.start]
        looked += len(a)
        unsure = ~holds(Boxes(a, b))
        a, b = a[unsure], b[unsure]
        if not len(a):
            continue
        row = _first(broken, np.concatenate([a, b, _middle(known, a, b)]))
        if row is not None:
            return Verdict("refuted", row, looked)
        halves = _halve(known, sources, a, b)
        if halves is None:
            return Verdict("unknown", boxes=looked)
        low, high = np.concatenate([low, halves[0]]), np.concatenate([high, halves[1]])
    return Verdict("proved", boxes=looked)


def _halve(
    known: Scoped, sources: list[Any], low: Array, high: Array
) -> tuple[Array, Array] | None:
    """Every box in two; None where one cannot be cut any further."""
    d = len(known.columns)
    weight = np.zeros((len(low), d))
    cut = np.full((len(low), d), np.nan)
    for source in sources:
        if source.columns:
            _, _, unsettled = source.over(Boxes(low, high))
            share = unsettled * 0.5 ** unsettled.sum(2, keepdims=True)
            for place, column in enumerate(source.columns):
                weight[:, column] += share[:, :, place].sum(1)
    for column in np.flatnonzero(weight.any(0)).tolist():
        cuts = _cuts(known, sources, column)
        begin = np.searchsorted(cuts, low[:, column], side="right")
        end = np.searchsorted(cuts, high[:, column], side="right")
        middle = cuts[np.minimum((begin + end) // 2, len(cuts) - 1)]
        fits = end > begin
        cut[:, column] = np.where(fits, middle, np.nan)
        weight[~fits, column] = 0.0
    # where no table is open, the widest feature of a formula
    free = ~(weight > 0).any(1)
    trees = [tree for source in sources for tree in source.trees]
    used = sorted({column for tree in trees for column in columns_in(tree)})
    if free.any():
        if not used:
            return None
        first, last = scope_of(known)
        middle = _middle(known, low, high)
        span = _mark(last) - _mark(first)
        width = (_mark(high) - _mark(low)) / np.where(span > 0, span, 1.0)
        width = np.where((middle <= low) | (middle > high), 0.0, width)
        for column in used:
            weight[free, column] = width[free, column]
            cut[free, column] = middle[free, column]
    if not (weight > 0).any(1).all():
        return None
    which = weight.argmax(1)
    rows = np.arange(len(low))
    at = cut[rows, which]
    lower_high, upper_low = high.copy(), low.copy()
    levels = np.array([bool(column.levels) for column in known.columns])
    lower_high[rows, which] = np.where(levels[which], at - 1, [before(value) for value in at])
    upper_low[rows, which] = at
    return np.concatenate([low, upper_low]), np.concatenate([lower_high, high])


def _cuts(known: Scoped, sources: list[Any], column: int) -> Array:
    """Where tables cut a column; between levels there is nothing."""
    found = {cut for s in sources if s.columns for cut in s.cuts(column)}
    if known.columns[column].levels:
        found = {float(np.ceil(cut)) for cut in found}
    return np.array(sorted(found))


def _mark(values: Array) -> Array:
    """A scale on which wide scopes can be halved: linear near 0, logarithmic far out."""
    found: Array = np.arcsinh(values)
    return found


def _middle(known: Scoped, low: Array, high: Array) -> Array:
    wide = np.abs(low) + np.abs(high) > 1e6
    with np.errstate(over="ignore"):
        far = np.sinh((_mark(low) + _mark(high)) / 2)
    middle = np.where(wide, far, low / 2 + high / 2).astype(np.float32).astype(np.float64)
    for column, about in enumerate(known.columns):
        if about.levels:
            middle[:, column] = np.ceil((low[:, column] + high[:, column]) / 2)
    return np.clip(middle, low, high)


def _first(broken: Broken, x: Array) -> tuple[float, ...] | None:
    bad = np.flatnonzero(broken(x.astype(np.float32)))
    return tuple(x[bad[0]].astype(np.float32).tolist()) if len(bad) else None


def samples(known: Scoped, count: int, seed: int, *, holes: bool = False) -> Array:
    """Rows of the scope, (n, d): random ones, corners, and thresholds with their neighbours.

    With `holes` values are missing here and there, where they may be. What is proved of whole rows
    holds for those too: a hole only widens the range, and no prediction says what it would not say
    with every value in it.
    """
    draw = np.random.default_rng(seed)
    first, last = scope_of(known)
    d = len(first)
    low, high = np.maximum(first, -1e6), np.minimum(last, 1e6)
    free: Any = (low + (high - low) * draw.random((count, d))).astype(np.float32)
    corner: Array = draw.random((count, d)) < 0.5
    ends = np.where(corner, low, high)
    near = free.copy()
    for column, numbers in enumerate(_marks(known)):
        if numbers:
            one: Array = draw.choice(np.array(numbers, np.float32), count)
            way: Array = draw.integers(-1, 2, count)
            moved = np.where(
                way < 0,
                np.nextafter(one, np.float32(-np.inf)),
                np.where(way > 0, np.nextafter(one, np.float32(np.inf)), one),
            )
            near[:, column] = np.where(draw.random(count) < 0.7, moved, free[:, column])
    rows = np.concatenate([free, near, ends]).astype(np.float64)
    for column, about in enumerate(known.columns):
        if about.levels:
            rows[:, column] = draw.integers(0, len(about.levels), len(rows))
    rows = np.clip(rows, first, last)
    for column, about in enumerate(known.columns):
        if holes and about.other:
            away = draw.random(len(rows)) < 0.1
            rows[:, column] = np.where(away, len(about.levels), rows[:, column])
        if holes and about.may_miss:
            rows[:, column] = np.where(draw.random(len(rows)) < 0.2, np.nan, rows[:, column])
    return rows


def _marks(known: Scoped) -> list[list[float]]:
    """For each column the numbers near which something happens, in single precision."""
    found: list[set[float]] = [set() for _ in known.columns]
    soft = getattr(known, "soft", ())  # of classes
    for source in (*known.predict.sources, *known.range.sources, *soft):
        for column in source.columns:
            found[column] |= set(source.cuts(column))
        for tree in source.trees:
            for column in columns_in(tree):
                found[column] |= {single(number) for number in numbers_in(tree)}
    return [sorted(numbers) for numbers in found]
