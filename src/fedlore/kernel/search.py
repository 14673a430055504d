"""Branch and bound over boxes of rows: does a rule hold in every row of a scope, and where not?

Boxes in which the rule is sure to hold are dropped. The others are tried at a few rows, cut where a
condition of a table begins or ends (tables are decided exactly this way), halved where a formula is
too wide, until a row breaks the rule, nothing is left, or the budget is spent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from .cells import after, before
from .enclosure import Boxes
from .sources import Table

Array = Any  # of numpy
ProofStatus = Literal["proved", "refuted", "unknown"]
Holds = Callable[[Boxes], Array]  # -> (b,): the rule is sure to hold in the box
Broken = Callable[[Array], Array]  # rows (n, d) of single precision -> (n,): it is broken there

BUDGET = 20_000  # boxes
_ROWS = 4_096  # tried before any box is cut
_BATCH = 2_048  # boxes at a time
_FAR = 1e6  # beyond it a side is measured by order of magnitude
_LARGEST = float(np.finfo(np.float32).max)
_SMALL = [2.0**-126, 2.0**-149]  # the smallest numbers that are normal, and that are any


@dataclass(frozen=True)
class Verdict:
    """What is known of a rule over a whole scope: it holds, a row breaks it, or neither was found.

    Both are about rows in single precision and what is computed from them, rounding included.
    """

    status: ProofStatus
    example: tuple[float, ...] | None = None  # a whole row that breaks the rule
    boxes: int = 0  # how many were looked at
    other: tuple[float, ...] | None = None  # the second row, of a rule about two


@dataclass(frozen=True, eq=False)
class Scope:
    """The rows in question: a box of single-precision numbers, and which columns hold levels."""

    low: Array  # (d,)
    high: Array  # (d,)
    levels: Array  # (d,) bool

    @staticmethod
    def of(sides: Sequence[tuple[float, float]], levels: Sequence[bool] | None = None) -> "Scope":
        """A scope as rows of single precision see it."""
        with np.errstate(over="ignore"):
            ends = np.array(sides, np.float64).astype(np.float32).astype(np.float64)
        low, high = np.clip(ends, -_LARGEST, _LARGEST).T
        flags = np.zeros(len(low), bool) if levels is None else np.array(levels, bool)
        return Scope(low, high, flags)

    @cached_property
    def wide(self) -> Array:
        """The columns that are measured by order of magnitude, (d,)."""
        return np.maximum(np.abs(self.low), np.abs(self.high)) > _FAR

    def measure(self, values: Array) -> Array:
        """Numbers on a scale on which every side can be halved."""
        return np.where(self.wide, np.arcsinh(values), values)

    def between(self, low: Array, high: Array, share: Array) -> Array:
        """The numbers that lie this share of the way from low to high, in single precision."""
        a, b = self.measure(low), self.measure(high)
        with np.errstate(over="ignore"):
            found = np.where(self.wide, np.sinh(a + (b - a) * share), a + (b - a) * share)
            found = np.clip(found.astype(np.float32).astype(np.float64), low, high)
        return np.where(self.levels, np.ceil(found - 0.5), found)

    def middle(self, low: Array, high: Array) -> Array:
        """Where the upper half of each side begins; it lies above `low` where there are two."""
        half = self.between(low, high, np.full_like(low, 0.5))
        above = np.where(self.levels, low + 1, after(low))
        return np.minimum(np.maximum(half, above), high)


def decide(
    scope: Scope,
    holds: Holds,
    broken: Broken,
    *,
    tables: Sequence[Table] = (),
    columns: Sequence[int] = (),
    marks: Sequence[Sequence[float]] = (),
    budget: int = BUDGET,
) -> Verdict:
    """Whether a rule holds all over a scope.

    Boxes are cut where `tables` are open, else halved along `columns`. `marks` are numbers of each
    column near which something happens, such as thresholds.
    """
    row = first_row(broken, try_rows(scope, marks), scope)
    if row is not None:
        return Verdict("refuted", row)
    low, high, looked = scope.low[None], scope.high[None], 0
    while len(low):
        if looked + len(low) > budget:
            return Verdict("unknown", boxes=looked)
        looked += len(low)
        parts = [slice(start, start + _BATCH) for start in range(0, len(low), _BATCH)]
        unsure = ~np.concatenate([holds(Boxes(low[rows], high[rows])) for rows in parts])
        low, high = low[unsure], high[unsure]
        if not len(low):
            break
        middle = scope.middle(low, high)
        row = first_row(broken, np.concatenate([middle, low, high]), scope)
        if row is not None:
            return Verdict("refuted", row, looked)
        halves = _halve(scope, tables, columns, (low, high, middle))
        if halves is None:
            return Verdict("unknown", boxes=looked)
        low, high = halves
    return Verdict("proved", boxes=looked)


def _halve(
    scope: Scope,
    tables: Sequence[Table],
    columns: Sequence[int],
    boxes: tuple[Array, Array, Array],
) -> tuple[Array, Array] | None:
    """Every box in two; None where one cannot be cut any further."""
    low, high, middle = boxes
    weight, at = _cut_tables(scope, tables, low, high)
    free = ~(weight > 0).any(1)
    if free.any():  # where no table is open, the widest feature of a formula
        span = scope.measure(scope.high) - scope.measure(scope.low)
        width = (scope.measure(high) - scope.measure(low)) / np.where(span > 0, span, 1.0)
        width = np.where(middle > low, width, 0.0)
        for column in columns:
            weight[free, column] = width[free, column]
            at[free, column] = middle[free, column]
    if not (weight > 0).any(1).all():
        return None
    rows, which = np.arange(len(low)), weight.argmax(1)
    cut = at[rows, which]
    upper_low, lower_high = low.copy(), high.copy()
    upper_low[rows, which] = cut
    lower_high[rows, which] = np.where(scope.levels[which], cut - 1, before(cut))
    return np.concatenate([low, upper_low]), np.concatenate([lower_high, high])


def _cut_tables(
    scope: Scope, tables: Sequence[Table], low: Array, high: Array
) -> tuple[Array, Array]:
    """How much hangs on cutting each box along each column, and where, (b, d) each."""
    weight, at = np.zeros_like(low), np.full_like(low, np.nan)
    for table in tables:
        if table.columns:
            unsettled = table.over(Boxes(low, high))[2]  # (b, rules, columns)
            share = unsettled * 0.5 ** unsettled.sum(2, keepdims=True)
            for place, column in enumerate(table.columns):
                weight[:, column] += share[:, :, place].sum(1)
    for column in np.flatnonzero(weight.any(0)).tolist():
        found = {cut for table in tables if table.columns for cut in table.cuts(column)}
        cuts = np.array(sorted({np.ceil(cut) for cut in found} if scope.levels[column] else found))
        begin = np.searchsorted(cuts, low[:, column], side="right")
        end = np.searchsorted(cuts, high[:, column], side="right")
        at[:, column] = cuts[np.minimum((begin + end) // 2, len(cuts) - 1)]
        weight[end <= begin, column] = 0.0
    return weight, at


def try_rows(scope: Scope, marks: Sequence[Sequence[float]] = ()) -> Array:
    """Rows of a scope to try first, (n, d): its middle, random ones, marks, corners."""
    d = len(scope.low)
    middle = scope.between(scope.low, scope.high, np.full((1, d), 0.5))
    drawn = draw_rows(scope, marks, _ROWS, np.random.default_rng(0))
    corners: Array = np.empty((0, d))
    if d <= 10:
        ends = ((np.arange(1 << d)[:, None] >> np.arange(d)) & 1).astype(bool)
        corners = np.where(ends, scope.high, scope.low)
    return np.concatenate([middle, drawn, corners])


def draw_rows(
    scope: Scope, marks: Sequence[Sequence[float]], count: int, draw: "np.random.Generator"
) -> Array:
    """Rows of a scope, (3·count, d): random ones, marks with their neighbours, corners."""
    low, high, d = scope.low, scope.high, len(scope.low)
    inside = scope.between(low, high, draw.random((count, d)))
    near = inside.copy()
    for column in range(d):
        own = np.array([*(marks[column] if marks else ()), 0.0], np.float64)
        own = np.concatenate([own, -own, after(own), before(own), _SMALL, [-v for v in _SMALL]])
        chosen = np.clip(draw.choice(own, count), low[column], high[column])
        near[:, column] = np.where(draw.random(count) < 0.6, chosen, inside[:, column])
    corners = np.where(draw.random((count, d)) < 0.5, high, low)
    rows = np.concatenate([inside, near, corners])
    return np.where(scope.levels, np.clip(np.rint(rows), low, high), rows)


def first_row(broken: Broken, x: Array, scope: Scope) -> tuple[float, ...] | None:
    """The first row that breaks the rule, in as few digits as will do; None if there is none."""
    bad = np.flatnonzero(broken(x.astype(np.float32)))
    if not len(bad):
        return None
    row = x[bad[0]].astype(np.float32)
    forms = [[float(f"{v:.{digits}g}") for v in row.tolist()] for digits in (2, 3, 4, 6)]
    forms.append([float(str(v)) for v in row])  # the shortest that rounds to the very number
    tidy = np.where(scope.levels, row.astype(np.float64), np.array(forms))
    single = tidy.astype(np.float32)
    inside = ((single >= scope.low) & (single <= scope.high)).all(1)
    still = np.flatnonzero(inside & broken(single))
    return tuple(tidy[still[0]].tolist())
