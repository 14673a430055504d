"""Sources of knowledge and their combinations as nodes, and what missing values leave open."""

import math
from collections.abc import Sequence
from typing import Any

from ..expressions import columns_in
from ..knowledge import RowTrust
from ..schema import Feature
from ..sources import Graded, Limits, Soft, Table
from .formulas import Formulas, answer_graded, answer_limits
from .ops import BOOL, DOUBLE, SINGLE, Array, Ops, Value
from .soft import Hits, Odds, odds_rows, set_odds, table_odds, table_rows
from .tables import Answer, answer_table, hit_rules


class View:
    """Rows x, float32 (n, d), as knowledge sees them; with `holes` some values may be missing."""

    def __init__(self, o: Ops, x: Value, *, holes: bool) -> None:
        self.o, self.x, self.holes = o, x, holes
        self.formulas = Formulas(o, x)

    def lacking(self, columns: Sequence[int]) -> Value | None:
        """Rows in which one of these columns is missing, (n, 1); None where none can be."""
        if not self.holes or not columns:
            return None
        return self.o.any(self.o.op("IsNaN", self.o.columns(self.x, list(columns))))

    def answer(self, source: Table | Limits | Graded) -> Answer:
        """What a source says that always holds."""
        if isinstance(source, Table):
            return answer_table(self.o, self.x, source, self.holes)
        if isinstance(source, Graded):
            return answer_graded(self.formulas, source)
        open_ended = source.crossed == "error" or len(source.trees) < 2
        lacking = None if open_ended else self.lacking(looked_at([source]))
        return answer_limits(self.formulas, source, lacking)

    def odds(self, source: Soft, allowed: Value) -> Odds:
        """What a source that holds in most cases adds to the weights inside a range."""
        if isinstance(source.inner, Table):
            return table_odds(self.o, source, self._hits(source.inner), allowed)
        named = self.answer(source.inner).rows
        if isinstance(source.inner, Graded):
            named = self.o.op("Greater", named, self.o.constant(0.0))
        return set_odds(self.o, named, float(source.shares[0]), allowed)

    def undecided(self, source: Soft) -> Value | None:
        """Rows in which a missing value leaves open what a soft source says; None: never."""
        if not isinstance(source.inner, Table):
            return self.lacking(looked_at([source]))
        hits = self._hits(source.inner)
        if hits.perhaps is None or source.inner.policy != "intersect":
            return None
        return self.o.any(self.o.op("Greater", hits.perhaps, hits.sure))

    def predict_soft(self, source: Soft, allowed: Value, lacking: Value | None) -> Answer:
        """A soft source as a prediction inside a range; `lacking`: what that lacks."""
        unsure = self.o.either(self.undecided(source), lacking)
        if isinstance(source.inner, Table):
            hits = self._hits(source.inner)
            return Answer(table_rows(self.o, source, hits, allowed, unsure))
        rows = odds_rows(self.o, self.odds(source, allowed), allowed, unsure)
        return Answer(self.o.cast(rows, SINGLE))

    def _hits(self, table: Table) -> Hits:
        perhaps = hit_rules(self.o, self.x, table, perhaps=True) if self.holes else None
        return Hits(hit_rules(self.o, self.x, table), perhaps)

    def trust(self, rows: RowTrust, constant: float) -> Value:
        """λ of each row, (n, 1), in [0, 1] whatever the rows hold; `constant` where unknown."""
        o, one = self.o, self.o.constant([[constant]])
        found = one
        if rows.learned is not None:
            number = self.formulas.value(rows.learned)
            found = o.op("Where", o.op("IsNaN", number), one, number)
        inside = [self.formulas.value(tree) for tree, _ in rows.regions]
        for here in inside:
            found = o.op("Where", o.op("IsNaN", here), one, found)
        for (_, trust), here in zip(rows.regions, inside, strict=True):
            there = o.op("Greater", here, o.constant(0.0))
            found = o.op("Where", there, o.constant([[trust]]), found)
        number = o.op("Where", o.op("IsNaN", found), o.constant(0.0), found)
        return o.op("Clip", number, o.constant(0.0), o.constant(1.0))


def looked_at(sources: Sequence[Any]) -> list[int]:
    """The columns that some source looks at."""
    found = {c for source in sources for tree in source.trees for c in columns_in(tree)}
    return sorted(found | {c for source in sources for c in source.columns})


def meet_ranges(o: Ops, parts: Sequence[Answer], empty: str, lacking: Value | None) -> Answer:
    """What all ranges allow; where they leave nothing the row is refused, or `empty` says what."""
    rows = parts[0].rows
    for part in parts[1:]:
        rows = o.op("And", rows, part.rows)
    refused = o.either(*[part.refused for part in parts])
    none = o.op("Not", o.any(rows))
    if empty == "error":
        return Answer(rows, o.either(refused, none))
    none = none if lacking is None else o.op("Or", none, lacking)
    instead = o.op("And", none, parts[0].rows) if empty == "first" else none
    return Answer(o.op("Or", rows, instead), refused)


def join_ranges(o: Ops, parts: Sequence[Answer]) -> Answer:
    """What some range allows."""
    rows = parts[0].rows
    for part in parts[1:]:
        rows = o.op("Or", rows, part.rows)
    return Answer(rows, o.either(*[part.refused for part in parts]))


def first_prediction(o: Ops, parts: Sequence[Answer], lacking: Sequence[Value | None]) -> Answer:
    """The first expert who speaks; whoever lacks a value might have spoken."""
    rows, over = parts[0].rows, None
    for part, lacks in zip(parts[1:], lacking, strict=False):
        spoken = o.any(o.op("Not", o.op("Equal", rows, o.constant(0.0))))
        over = o.either(over, lacks)
        spoken = spoken if over is None else o.op("Or", spoken, over)
        rows = o.op("Where", spoken, rows, part.rows)
    return Answer(rows, o.either(*[part.refused for part in parts]))


def average_prediction(
    o: Ops, parts: Sequence[Answer], weights: Sequence[float], lacking: Sequence[Value | None]
) -> Answer:
    """The weighted mean of those who speak; nothing where one is silent for want of a value."""
    total = o.op("Mul", parts[0].rows, o.constant(weights[0]))
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        total = o.op("Add", total, o.op("Mul", part.rows, o.constant(weight)))
    rows = o.normalise(total, SINGLE)
    for part, lacks in zip(parts, lacking, strict=True):
        if lacks is not None:
            silent = o.op("Equal", o.total(part.rows), o.constant(0.0))
            rows = o.op("Where", o.op("And", lacks, silent), o.constant(0.0), rows)
    return Answer(rows, o.either(*[part.refused for part in parts]))


def confuse(o: Ops, expert: Answer, confusion: Array) -> Answer:
    """An expert heard through his confusion, (k, k)."""
    soft = o.op("MatMul", o.cast(expert.rows, DOUBLE), o.constant(confusion, DOUBLE))
    return Answer(o.cast(o.normalise(soft, DOUBLE), SINGLE), expert.refused)


def keep_inside(o: Ops, prior: Value, allowed: Value, policy: str) -> Answer:
    """A prediction with nothing left outside the range: silenced, restricted or refused."""
    zero = o.constant(0.0)
    conflict = o.any(o.op("And", o.op("Greater", prior, zero), o.op("Not", allowed)))
    if policy != "restrict":
        rows = o.op("Where", conflict, zero, prior)
        return Answer(rows, conflict if policy == "error" else None)
    inside = o.normalise(o.op("Where", allowed, prior, zero), SINGLE)
    return Answer(o.op("Where", conflict, inside, prior))


def refuse_rows(o: Ops, x: Value, columns: Sequence[Feature]) -> Value:
    """Rows with what is no value, (n, 1): a hole where none may be, infinity, no level."""
    wrong = o.op("IsNaN", x)
    endless = o.op("IsInf", x)
    if any(column.may_miss for column in columns):
        needed = o.constant([[not column.may_miss for column in columns]], BOOL)
        wrong = o.op("And", wrong, needed)
    refused = o.any(o.op("Or", wrong, endless))
    for place, column in enumerate(columns):
        if column.levels:
            value = o.columns(x, [place])  # (n, 1)
            places = [list(range(len(column.levels) + column.other))]
            level = o.any(o.op("Equal", value, o.constant(places)))
            fine = o.op("Or", level, o.op("IsNaN", value))
            refused = o.op("Or", refused, o.op("Not", fine))
    return refused


def hide_levels(o: Ops, x: Value, columns: Sequence[Feature]) -> Value:
    """Rows as knowledge sees them: a level that nobody named is as good as missing."""
    if not any(column.other for column in columns):
        return x
    named = [[len(c.levels) if c.other else math.inf for c in columns]]
    other = o.op("GreaterOrEqual", x, o.constant(named))
    return o.op("Where", other, o.constant(math.nan), x)
