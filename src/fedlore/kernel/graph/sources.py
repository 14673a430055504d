"""Sources of knowledge and their combinations as nodes, and what missing values leave open.

A table goes from columns to buckets, from buckets to hits, from hits to classes. Soft rules add
their odds inside the range.
"""

import math
import operator
from collections.abc import Callable, Sequence
from copy import copy
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np

from ..cells import before
from ..expressions import columns_in
from ..knowledge import RowTrust
from ..schema import Feature
from ..sources import ConfusedExpert, Limits, Prediction, Side, Soft, SoftWeighting, Table
from .formulas import Formulas, answer_graded, answer_limits
from .ops import BOOL, DOUBLE, INT64, LARGEST, SINGLE, Answer, Array, Ops, Value


def answer_table(o: Ops, x: Value, table: Table, holes: bool) -> Answer:
    """What a table says of rows x, float32 (n, d); with `holes` some values may be missing."""
    hits = hit_rules(o, x, table)
    if holes and table.policy != "intersect":
        return _answer_perhaps(o, x, table, hits)
    if table.policy in ("first", "priority"):
        which = o.op("ArgMax", hits, axis=1, keepdims=0)  # the first of equal ones
        row = o.op("Gather", o.constant(table.named, SINGLE), which, axis=0)
        return Answer(row * o.op("ReduceMax", hits, axes=[1], keepdims=1))
    if table.policy == "intersect":
        allowed = ~_named(o, hits, ~table.named)
        return Answer(allowed, ~o.any(allowed))
    named = _named(o, hits, table.named)
    if table.policy == "union":
        return Answer(named | ~o.any(named))
    rows = o.cast(named, SINGLE)
    return Answer(rows, o.total(rows) > 1.0)


def _answer_perhaps(o: Ops, x: Value, table: Table, hits: Value) -> Answer:
    """The same where rules on missing values may hit or not."""
    may_hit = hit_rules(o, x, table, perhaps=True)
    if table.policy in ("first", "priority"):  # behind a sure rule none can speak
        count = o.op("CumSum", hits, o.constant(1, INT64))
        may_hit = may_hit * o.cast(o.equal(count, hits), SINGLE)
    named, some = _named(o, may_hit, table.named), o.any(hits)
    if table.policy == "union":
        return Answer(named | ~some)
    one = o.equal(o.total(o.cast(named, SINGLE)), 1.0)
    rows = o.cast(named & (some & one), SINGLE)
    if table.policy != "unique":
        return Answer(rows)
    return Answer(rows, o.total(o.cast(_named(o, hits, table.named), SINGLE)) > 1.0)


def _named(o: Ops, hits: Value, classes: Array) -> Value:
    """The classes that some hitting rule marks, (n, k) bool."""
    return o.op("MatMul", hits, o.constant(classes, SINGLE)) > 0.0


def hit_rules(o: Ops, x: Value, table: Table, *, perhaps: bool = False) -> Value:
    """Which rule hits which row, or with `perhaps` may hit it, (n, rules) of 0 and 1."""
    hits = None
    for column in table.columns:
        cuts, met = _buckets(table, column, perhaps)
        value = o.columns(x, column)  # (n,)
        bucket = o.constant(0, INT64)
        if len(cuts):
            beyond = o.op("Unsqueeze", value, o.constant([1], INT64)) >= o.constant(cuts)
            axis = o.constant([1], INT64)
            bucket = o.op("ReduceSum", o.cast(beyond, INT64), axis, keepdims=0)
        bucket = o.where(o.isnan(value), len(cuts) + 1, bucket)
        found = o.op("Gather", o.constant(met), bucket, axis=0)  # (n, rules)
        hits = found if hits is None else hits * found
    # rules without conditions hit every row
    return o.fill(1.0, len(table.rules), like=x) if hits is None else hits


def _buckets(table: Table, column: int, perhaps: bool) -> tuple[Array, Array]:
    """The cuts of a column, (m,), and which rules each bucket satisfies, (m + 2, rules).

    Bucket b holds the values from cut b-1 to cut b; the last one is a missing value.
    """
    cuts = np.array(table.cuts(column), SINGLE) + SINGLE(0)  # no negative zero
    # to the largest number that there is: a rule up to 1e39 holds for all of them
    first = np.array([-LARGEST, *cuts.tolist()])
    last = np.array([*(before(cut) for cut in cuts.tolist()), LARGEST])
    met = np.ones((len(cuts) + 2, len(table.rules)), SINGLE)
    for place, rule in enumerate(table.rules):
        spans = rule.spans.get(column)
        if spans is not None:
            inside = np.zeros(len(first), bool)
            for start, stop in spans:
                inside |= (start <= first) & (last <= stop)
            met[:, place] = np.append(inside, perhaps)  # a missing value meets nothing for sure
    return cuts, met


class Odds(NamedTuple):
    """What is added to the log weight of each class, (n, k), and where anything is, (n, 1)."""

    rows: Value
    heard: Value


class Hits(NamedTuple):
    """Which rules hit, and which may, (n, rules); the latter where values may be missing."""

    sure: Value
    perhaps: Value | None


def table_odds(o: Ops, source: Soft, hits: Hits, allowed: Value) -> Odds:
    """The soft rules of a table that are heard, each inside the range."""
    named, wide = source.inner.named.astype(DOUBLE), o.cast(allowed, DOUBLE)
    speaking = _speaking(o, source, hits) * o.constant(source.shares[None] < 1, SINGLE)
    inside = o.op("MatMul", wide, o.constant(named.T, DOUBLE))
    toward, against, heard = _log_odds(o, source.shares, inside, allowed, speaking > 0.0)
    odds = o.op("MatMul", toward, o.constant(named, DOUBLE))
    odds = odds + o.op("MatMul", against, o.constant(1.0 - named, DOUBLE))
    return Odds(odds * wide, o.any(heard))


def table_rows(o: Ops, source: Soft, hits: Hits, allowed: Value, unsure: Value | None) -> Value:
    """A soft table as a prediction: a rule that always holds names its class outright."""
    certain = source.inner.named * (source.shares == 1)[:, None]
    sure = o.op("MatMul", o.cast(_speaking(o, source, hits), DOUBLE), o.constant(certain, DOUBLE))
    soft = odds_rows(o, table_odds(o, source, hits, allowed), allowed, unsure)
    return o.cast(o.where(o.any(sure > 0.0), sure, soft), SINGLE)


def set_odds(o: Ops, named: Value, confidence: float, allowed: Value) -> Odds:
    """What is said of named classes, (n, k) bool, with one confidence."""
    inside = o.total(o.cast(named & allowed, DOUBLE))
    toward, against, heard = _log_odds(o, np.array([confidence]), inside, allowed, None)
    return Odds(o.where(heard & allowed, o.where(named, toward, against), 0.0), heard)


def odds_rows(o: Ops, odds: Odds, allowed: Value, unsure: Value | None) -> Value:
    """Distributions over the range, (n, k) double; zero rows where nothing is heard for sure."""
    shares = o.op("Softmax", o.where(allowed, odds.rows, -math.inf), axis=1)
    heard = odds.heard if unsure is None else odds.heard & ~unsure
    return o.where(heard, shares, 0.0)


def weigh_odds(
    o: Ops, expert: Value | None, parts: list[Odds], allowed: Value, unsure: Value | None
) -> Value:
    """An expert's rows with the odds of all soft ranges multiplied in, (n, k) float32."""
    odds = parts[0]
    for more in parts[1:]:
        odds = Odds(odds.rows + more.rows, odds.heard | more.heard)
    alone = odds_rows(o, odds, allowed, unsure)
    if expert is None:
        return o.cast(alone, SINGLE)
    expert = o.cast(expert, DOUBLE)
    top = o.op("ReduceMax", odds.rows, axes=[1], keepdims=1)
    moved = expert * o.op("Exp", odds.rows - top)
    total = o.total(moved)
    some = total > 0.0
    kept = o.where(some & odds.heard, moved / o.where(some, total, 1.0), expert)
    if unsure is not None:
        kept = o.where(unsure & ~o.any(o.equal(expert, 1.0)), 0.0, kept)
    spoken = o.any(~o.equal(expert, 0.0))
    return o.cast(o.where(spoken, kept, alone), SINGLE)


def _speaking(o: Ops, source: Soft, hits: Hits) -> Value:
    """Which rules are heard, (n, rules), in the order in which they speak."""
    if source.inner.policy == "intersect":
        return hits.sure
    may_hit = hits.sure if hits.perhaps is None else hits.perhaps
    count = o.op("CumSum", may_hit, o.constant(1, INT64))
    return hits.sure * o.cast(o.equal(count, 1.0), SINGLE)


def _log_odds(
    o: Ops, shares: Array, inside: Value, allowed: Value, hit: Value | None
) -> tuple[Value, Value, Value]:
    """Log weights against an even spread, 0 where nothing is heard, and where something is."""
    every = o.total(o.cast(allowed, DOUBLE))
    outside = every - inside
    heard = (inside > 0.0) & (outside > 0.0)
    heard = heard if hit is None else hit & heard
    sides = []
    for share, count in ((shares, inside), (1.0 - shares, outside)):
        mass = o.constant(share[None], DOUBLE) * every
        sides.append(o.where(heard, o.op("Log", mass / o.larger(count, 1.0)), 0.0))
    return sides[0], sides[1], heard


class View:
    """Rows x, float32 (n, d), as knowledge sees them; with `holes` some values may be missing.

    Soft sources speak inside of `allowed`, (n, k) bool, which the sources `around` them say.
    """

    allowed: Value | None = None
    around: Sequence[Any] = ()

    def __init__(self, o: Ops, x: Value, *, holes: bool) -> None:
        self.o, self.x, self.holes = o, x, holes
        self.formulas = Formulas(o, x)

    def within(self, allowed: Value | None, around: Sequence[Any]) -> Self:
        """The same rows, of which a range is known."""
        view = copy(self)
        view.allowed, view.around = allowed, around
        return view

    def looks(self, sources: Sequence[Any]) -> Sequence[int]:
        """The columns that some sources look at; soft ones at those of the range too."""
        soft = any(source.soft for source in sources)
        return looked_at([*sources, *self.around] if soft else sources)

    def lacking(self, sources: Sequence[Any]) -> Value | None:
        """Rows in which a value is missing that some sources look at, (n, 1); None: never."""
        return self.missing(self.looks(sources))

    def missing(self, columns: Sequence[int]) -> Value | None:
        """Rows in which one of some columns is missing, (n, 1); None where none can be."""
        if not self.holes or not columns:
            return None
        return self.o.any(self.o.isnan(self.o.columns(self.x, list(columns))))

    def answer(self, source: Any) -> Answer:
        """What a source says of classes, or several together."""
        return ANSWERS[type(source)](self, source)

    def odds(self, source: Soft, allowed: Value) -> Odds:
        """What a source that holds in most cases adds to the weights inside a range."""
        if not source.trees:
            return table_odds(self.o, source, self.hits(source.inner), allowed)
        named = ANSWERS[type(source.inner)](self, source.inner).rows
        named = named > 0.0 if isinstance(source.inner, Prediction) else named
        return set_odds(self.o, named, float(source.shares[0]), allowed)

    def undecided(self, source: Soft) -> Value | None:
        """Rows in which a missing value leaves open what a soft source says; None: never."""
        if source.trees:
            return self.missing(looked_at([source]))
        hits = self.hits(source.inner)
        if hits.perhaps is None or source.inner.policy != "intersect":
            return None
        return self.o.any(hits.perhaps > hits.sure)

    def inside(self, source: Soft) -> Value:
        """The range in which a soft source speaks, (n, k) bool."""
        if self.allowed is not None:
            return self.allowed
        return self.o.fill(True, source.k, BOOL, like=self.x)

    def unsure(self, sources: Sequence[Soft]) -> Value | None:
        """Rows in which a missing value leaves open what soft sources say, or their range."""
        return self.o.either(*map(self.undecided, sources), self.lacking(self.around))

    def hits(self, table: Table) -> Hits:
        perhaps = hit_rules(self.o, self.x, table, perhaps=True) if self.holes else None
        return Hits(hit_rules(self.o, self.x, table), perhaps)

    def trust(self, rows: RowTrust, constant: float) -> Value:
        """λ of each row, (n, 1), in [0, 1] whatever the rows hold; `constant` where unknown."""
        o, one = self.o, self.o.constant([[constant]])
        found = one
        if rows.learned is not None:
            number = self.formulas.value(rows.learned)
            found = o.where(o.isnan(number), one, number)
        inside = [self.formulas.value(tree) for tree, _ in rows.regions]
        for here in inside:
            found = o.where(o.isnan(here), one, found)
        for (_, trust), here in zip(rows.regions, inside, strict=True):
            found = o.where(here > 0.0, o.constant([[trust]]), found)
        number = o.where(o.isnan(found), 0.0, found)
        return o.op("Clip", number, o.constant(0.0), o.constant(1.0))


def _limits(view: View, source: Limits) -> Answer:
    open_ended = source.crossed == "error" or len(source.trees) < 2
    lacking = None if open_ended else view.missing(looked_at([source]))
    return answer_limits(view.formulas, source, lacking)


def _soft(view: View, source: Soft) -> Answer:
    """A soft source as a prediction inside the range."""
    o, allowed, unsure = view.o, view.inside(source), view.unsure([source])
    if not source.trees:
        return Answer(table_rows(o, source, view.hits(source.inner), allowed, unsure))
    return Answer(o.cast(odds_rows(o, view.odds(source, allowed), allowed, unsure), SINGLE))


def _soft_weighting(view: View, source: SoftWeighting) -> Answer:
    found = None if source.expert is None else view.answer(source.expert)
    allowed = view.inside(source.soft[0])
    odds = [view.odds(one, allowed) for one in source.soft]
    said = None if found is None else found.rows
    rows = weigh_odds(view.o, said, odds, allowed, view.unsure(source.soft))
    return Answer(rows, None if found is None else found.refused)


def _confused_expert(view: View, source: ConfusedExpert) -> Answer:
    o, expert = view.o, view.answer(source.expert)
    soft = o.op("MatMul", o.cast(expert.rows, DOUBLE), o.constant(source.confusion, DOUBLE))
    return Answer(o.cast(o.normalise(soft, DOUBLE), SINGLE), expert.refused)


def _side(view: View, side: Side) -> Answer:
    o, parts = view.o, [view.answer(source) for source in side.sources]
    if len(parts) == 1:
        return parts[0]
    if side.combine == "any":
        return join_ranges(o, parts)
    if side.combine == "all":
        lacking = None if side.empty == "error" else view.lacking(side.sources)
        return meet_ranges(o, parts, side.empty, lacking)
    each = [view.lacking([source]) for source in side.sources]
    if side.combine == "average":
        return average_prediction(o, parts, side.weights, each)
    return first_prediction(o, parts, each, lambda rows: o.any(~o.equal(rows, 0.0)))


#: What each kind of source says of classes.
ANSWERS: dict[type, Callable[[View, Any], Answer]] = {
    Table: lambda view, source: answer_table(view.o, view.x, source, view.holes),
    Prediction: lambda view, source: answer_graded(view.formulas, source),
    Limits: _limits,
    Soft: _soft,
    SoftWeighting: _soft_weighting,
    ConfusedExpert: _confused_expert,
    Side: _side,
}


def looked_at(sources: Sequence[Any]) -> list[int]:
    """The columns that some source looks at."""
    found = {c for source in sources for tree in source.trees for c in columns_in(tree)}
    return sorted(found | {c for source in sources for c in source.columns})


def meet_ranges(o: Ops, parts: Sequence[Answer], empty: str, lacking: Value | None) -> Answer:
    """What all ranges allow; where they leave nothing the row is refused, or `empty` says what."""
    rows = reduce(operator.and_, [part.rows for part in parts])
    refused = o.either(*[part.refused for part in parts])
    none = ~o.any(rows)
    if empty == "error":
        return Answer(rows, o.either(refused, none))
    none = none if lacking is None else none | lacking
    return Answer(rows | (none & parts[0].rows if empty == "first" else none), refused)


def join_ranges(o: Ops, parts: Sequence[Answer]) -> Answer:
    """What some range allows."""
    rows = reduce(operator.or_, [part.rows for part in parts])
    return Answer(rows, o.either(*[part.refused for part in parts]))


def first_prediction(
    o: Ops,
    parts: Sequence[Answer],
    lacking: Sequence[Value | None],
    speaks: Callable[[Value], Value],
) -> Answer:
    """The first expert who speaks; whoever lacks a value might have spoken."""
    rows, over = parts[0].rows, None
    for part, lacks in zip(parts[1:], lacking, strict=False):
        over = o.either(over, lacks)
        rows = o.where(o.either(speaks(rows), over), rows, part.rows)
    return Answer(rows, o.either(*[part.refused for part in parts]))


def average_prediction(
    o: Ops, parts: Sequence[Answer], weights: Sequence[float], lacking: Sequence[Value | None]
) -> Answer:
    """The weighted mean of those who speak; nothing where one is silent for want of a value."""
    total = reduce(operator.add, [p.rows * float(w) for p, w in zip(parts, weights, strict=True)])
    rows = o.normalise(total, SINGLE)
    for part, lacks in zip(parts, lacking, strict=True):
        if lacks is not None:
            rows = o.where(lacks & o.equal(o.total(part.rows), 0.0), 0.0, rows)
    return Answer(rows, o.either(*[part.refused for part in parts]))


def keep_inside(o: Ops, prior: Value, allowed: Value, policy: str) -> Answer:
    """A prediction with nothing left outside the range: silenced, restricted or refused."""
    conflict = o.any((prior > 0.0) & ~allowed)
    if policy != "restrict":
        return Answer(o.where(conflict, 0.0, prior), conflict if policy == "error" else None)
    return Answer(o.where(conflict, o.normalise(o.where(allowed, prior, 0.0), SINGLE), prior))


def refuse_rows(o: Ops, x: Value, columns: Sequence[Feature]) -> Value:
    """Rows with what is no value, (n, 1): a hole where none may be, infinity, no level."""
    wrong, endless = o.isnan(x), o.op("IsInf", x)
    if any(column.may_miss for column in columns):
        wrong = wrong & o.constant([[not column.may_miss for column in columns]], BOOL)
    refused = o.any(wrong | endless)
    for place, column in enumerate(columns):
        if column.levels:
            value = o.columns(x, [place])  # (n, 1)
            places = [list(range(len(column.levels) + column.other))]
            level = o.any(o.equal(value, o.constant(places)))
            refused = refused | ~(level | o.isnan(value))
    return refused


def hide_levels(o: Ops, x: Value, columns: Sequence[Feature]) -> Value:
    """Rows as knowledge sees them: a level that nobody named is as good as missing."""
    if not any(column.other for column in columns):
        return x
    named = [[len(c.levels) if c.other else math.inf for c in columns]]
    return o.where(x >= o.constant(named), math.nan, x)
