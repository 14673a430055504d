"""What holds in every row of a scope: of formulas, and of all sources of a file as they act.

Each question is answered proved, refuted with a row, or unknown once the budget is spent. Lint, the
issuer of certificates and the checker ask here; there is no second prover.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .answers import points_of, prior_of, range_of, sets_of, value
from .cells import single
from .enclosure import Boxes, never_above
from .expressions import Tree, columns_in, numbers_in
from .knowledge import Known, scope_of
from .search import BUDGET, Broken, Holds, Scope, Verdict, decide, draw_rows
from .sources import Table, is_soft

Array = Any  # of numpy

CERTIFIED = 200_000  # boxes that a certificate's claim may take


def always_defined(tree: Tree, scope: Scope, budget: int = BUDGET) -> Verdict:
    """Whether a formula has a value in every row."""
    return ask_formulas(
        scope,
        [tree],
        lambda boxes: ~boxes.interval(tree).undefined,
        lambda x: np.isnan(value(tree, x)),
        budget,
    )


def ask_formulas(
    scope: Scope, trees: Sequence[Tree], holds: Holds, broken: Broken, budget: int
) -> Verdict:
    """A rule about formulas, decided over a scope."""
    columns = sorted({column for tree in trees for column in columns_in(tree)})
    marks = marks_of(trees, scope)
    return decide(scope, holds, broken, columns=columns, marks=marks, budget=budget)


def marks_of(trees: Sequence[Tree], scope: Scope) -> list[list[float]]:
    """For each column the numbers of some formulas."""
    columns = {column for tree in trees for column in columns_in(tree)}
    numbers = sorted({number for tree in trees for number in numbers_in(tree)})
    return [numbers if column in columns else [] for column in range(len(scope.low))]


def never_empty(known: Known, budget: int = CERTIFIED) -> Verdict:
    """Whether every row of the scope is left an answer, and is not refused by the range."""
    side = known.range

    def broken(x: Array) -> Array:
        if known.line is None:
            rows, refused = range_of(known, x)
            return refused | ~rows.any(1)
        sets = sets_of(known, x)
        return sets.refused | sets.empty

    def holds(boxes: Boxes) -> Array:
        safe = np.ones(len(boxes), bool)
        for source in side.sources:  # a row that one refuses is refused whatever others say
            safe &= source.safe(boxes)
        if side.empty != "error":
            return safe
        if known.line is not None:
            return safe & _number_left(known, boxes)
        if len(side.sources) > 1 and side.combine == "all":
            safe &= sure_range(known, boxes).any(1)
        return safe

    return ask_sources(known, holds, broken, side.sources, budget)


def never_disagrees(known: Known, budget: int = CERTIFIED) -> Verdict:
    """Whether the rules of a unique table never disagree, so that no row is refused by them."""
    sources = known.predict.sources

    def holds(boxes: Boxes) -> Array:
        return np.all([source.safe(boxes) for source in sources], axis=0)

    def broken(x: Array) -> Array:
        return (points_of(known, x) if known.line is not None else prior_of(known, x))[1]

    return ask_sources(known, holds, broken, sources, budget)


def stays_inside(known: Known, budget: int = CERTIFIED) -> Verdict:
    """Whether the prediction stays in the range by itself, in every row that is not refused."""
    if is_soft(known):
        return Verdict("unknown")  # nothing is claimed of what holds in most cases only

    def holds(boxes: Boxes) -> Array:
        fine, spoken = np.ones(len(boxes), bool), np.zeros(len(boxes), bool)
        for source in known.predict.sources:
            fine &= spoken | _stays(known, source, boxes)
            if known.predict.combine != "average":
                spoken |= source.speaks(boxes)  # nobody behind it is asked
        return fine

    sources = [*known.predict.sources, *known.range.sources]
    return ask_sources(known, holds, lambda x: leaves_range(known, x), sources, budget)


def leaves_range(known: Known, x: Array) -> Array:
    """The rows whose prediction leaves their range, (n,); one that is refused leaves nothing."""
    if known.line is not None:
        (said, silent), sets = points_of(known, x), sets_of(known, x)
        out: Array = ~np.isnan(said) & ~sets.holds(said) & ~sets.refused & ~silent
        return out
    (said, silent), (rows, refused) = prior_of(known, x), range_of(known, x)
    return ((said > 0) & ~rows).any(1) & ~refused & ~silent


def _stays(known: Known, source: Any, boxes: Boxes) -> Array:
    """Boxes in which the classes or numbers that one source may name are all allowed, (b,)."""
    said = source.may_say(boxes)
    if known.confusion is not None:
        said = said @ (known.confusion > 0)
    within = [
        ~(said & ~one.sure(boxes)).any(1) | _between(known, source, one, boxes)
        for one in known.range.sources
    ]
    kept = np.any(within, axis=0) if known.range.combine == "any" else np.all(within, axis=0)
    kept = kept | ~(said & ~sure_range(known, boxes)).any(1)
    return kept if known.line is None else kept & ~(said & ~known.line.inside).any(1)


def _between(known: Known, source: Any, limits: Any, boxes: Boxes) -> Array:
    """Boxes in which a formula stays between those of a range: what they share cancels."""
    fits = source.trees and limits.trees and known.confusion is None
    if not fits or source.spread is not None:
        return np.zeros(len(boxes), bool)
    edges, kept = source.cells.edges, np.ones(len(boxes), bool)
    if not np.array_equal(limits.cells.edges, edges):
        return ~kept
    if limits.lower is not None:
        kept &= never_above(limits.lower, source.tree, boxes, edges)
    if limits.upper is not None:
        kept &= never_above(source.tree, limits.upper, boxes, edges)
    return kept


def sure_range(known: Known, boxes: Boxes) -> Array:
    """Classes, or pieces of the line, that are allowed in every row of a box, (b, k)."""
    parts = [source.sure(boxes) for source in known.range.sources]
    if not parts:
        return np.ones((len(boxes), known.k), bool)
    either = known.range.combine == "any"
    found: Array = np.any(parts, axis=0) if either else np.all(parts, axis=0)
    return found


def _number_left(known: Known, boxes: Boxes) -> Array:
    """Boxes in which the range surely leaves a number of the bounds, (b,)."""
    sources = known.range.sources
    if not sources:
        return np.ones(len(boxes), bool)
    if known.range.combine == "any":
        return np.any([_share_number([one], known, boxes) for one in sources], axis=0)
    return _share_number(sources, known, boxes)


def _share_number(sources: Sequence[Any], known: Known, boxes: Boxes) -> Array:
    """Boxes in which some sources surely have a number of the bounds in common, (b,)."""
    limits = [one for one in sources if one.trees]
    tables = [one for one in sources if not one.trees]
    # a piece of the bounds that all of them allow all over the box
    sure = np.all([one.sure(boxes) for one in sources], axis=0)
    found: Array = (sure & known.number.inside).any(1)
    if any(table.policy == "union" or not _is_plain(table) for table in tables):
        return found
    # or every lower end lies below every upper one, which is enough where sets have no gaps
    ends = [(np.full(len(boxes), known.number.lower), np.full(len(boxes), known.number.upper))]
    ends += [_narrow(table, known, boxes) for table in tables]
    begins, stops = [one[0] for one in ends], [one[1] for one in ends]
    meets = np.maximum.reduce(begins) <= np.minimum.reduce(stops)
    for one in limits:
        begin, end = one.outer(boxes)
        meets &= (begin <= np.minimum.reduce(stops)) & (np.maximum.reduce(begins) <= end)
        for other in limits:
            if one.lower is not None and other.upper is not None:
                meets &= never_above(one.lower, other.upper, boxes)
    return found | meets


def _is_plain(table: Table) -> bool:
    """Whether every rule allows one interval: pieces without a gap."""
    return all(
        max(r.outcome) - min(r.outcome) + 1 == len(r.outcome) for r in table.rules if r.outcome
    )


def _narrow(table: Table, known: Known, boxes: Boxes) -> tuple[Array, Array]:
    """The highest lower and the lowest upper end that rules which may hit leave, (b,) each."""
    may, pieces = table.over(boxes)[0], known.number.pieces
    none = (np.inf, -np.inf)  # a rule that allows no number at all
    ends = [
        (pieces[min(r.outcome), 0], pieces[max(r.outcome), 1]) if r.outcome else none
        for r in table.rules
    ]
    lows, tops = np.array(ends).T
    return (
        np.where(may, lows[None], -np.inf).max(1, initial=-np.inf),
        np.where(may, tops[None], np.inf).min(1, initial=np.inf),
    )


def ask_sources(
    known: Known, holds: Holds, broken: Broken, sources: Sequence[Any], budget: int
) -> Verdict:
    """A rule about some sources of a file, decided over its scope."""
    trees = [tree for source in sources for tree in source.trees]
    return decide(
        scope_of(known.columns),
        holds,
        broken,
        tables=[source for source in sources if source.columns],
        columns=sorted({column for tree in trees for column in columns_in(tree)}),
        marks=_marks(known),
        budget=budget,
    )


def sample_rows(known: Known, count: int, seed: int) -> Array:
    """Rows of the scope, (3·count, d), with values missing here and there, where they may be.

    What is proved of whole rows holds for those too: a hole only widens the range, and no
    prediction says what it would not say with every value in it.
    """
    draw = np.random.default_rng(seed)
    rows = draw_rows(scope_of(known.columns), _marks(known), count, draw)
    for column, about in enumerate(known.columns):
        if about.other:
            away = draw.random(len(rows)) < 0.1
            rows[:, column] = np.where(away, len(about.levels), rows[:, column])
        if about.may_miss:
            rows[:, column] = np.where(draw.random(len(rows)) < 0.2, np.nan, rows[:, column])
    return rows


def _marks(known: Known) -> list[list[float]]:
    """For each column the numbers near which something happens, in single precision."""
    found: list[set[float]] = [set() for _ in known.columns]
    for source in (*known.predict.sources, *known.range.sources, *known.soft):
        for column in source.columns:
            found[column] |= set(source.cuts(column))
        for tree in source.trees:
            for column in columns_in(tree):
                found[column] |= {single(number) for number in numbers_in(tree)}
    return [sorted(numbers) for numbers in found]
