"""Rows with holes as terms: which must be refused, what knowledge sees, where a value lacks."""

import math
from typing import Any

import numpy as np

from .expressions import columns_in
from .knowledge import Known, Scoped
from .terms import BOOL, INT64, Needed, Terms

Array = Any  # of numpy


def may_lack(known: Scoped) -> bool:
    """Whether rows may come with missing values, or with levels that nobody named."""
    return any(column.may_miss or column.other for column in known.columns)


def unusable_rows(known: Scoped, x: Array) -> Array:
    """Rows (n, d) with what is no value, (n,): a hole where none may be, infinity, no level."""
    wrong = np.zeros(len(x), bool)
    for v, column in zip(x.T, known.columns, strict=True):
        fine = np.isfinite(v)
        if column.levels:
            fine &= (v >= 0) & (v < len(column.levels) + column.other) & (v == np.floor(v))
        wrong |= ~(fine | (np.isnan(v) & column.may_miss))
    return wrong


def seen_rows(known: Scoped, x: Array) -> Array:
    """Rows as knowledge sees them: a level that nobody named is as good as missing."""
    seen = x.copy()
    for place, column in enumerate(known.columns):
        if column.levels:
            seen[:, place] = np.where(x[:, place] >= len(column.levels), np.nan, x[:, place])
    return seen


def refuse(t: Terms, x: Needed, known: Known) -> Needed:
    """Rows with what is no value, (n, 1)."""
    wrong: Needed = t.op("IsNaN", x)
    endless = t.op("IsInf", x)
    if any(column.may_miss for column in known.columns):
        needed = t.constant([[not column.may_miss for column in known.columns]], BOOL)
        wrong = t.op("And", wrong, needed)
    refused: Needed = t.any(t.op("Or", wrong, endless))
    for place, column in enumerate(known.columns):
        if column.levels:
            value = t.op("Gather", x, t.constant([place], INT64), axis=1)
            places = [list(range(len(column.levels) + column.other))]
            level = t.any(t.op("Equal", value, t.constant(places)))
            fine = t.op("Or", level, t.op("IsNaN", value))
            refused = t.op("Or", refused, t.op("Not", fine))
    return refused


def hide(t: Terms, x: Needed, known: Known) -> Needed:
    """Rows as knowledge sees them: a level that nobody named is as good as missing."""
    if not any(column.other for column in known.columns):
        return x
    named = [[len(c.levels) if c.other else math.inf for c in known.columns]]
    other = t.op("GreaterOrEqual", x, t.constant(named))
    return t.op("Where", other, t.constant(math.nan), x)


def lack(t: Terms, x: Needed, sources: list[Any]) -> Needed | None:
    """Rows in which a value that some source looks at is missing, (n, 1); None: it needs none."""
    columns = {c for source in sources for tree in source.trees for c in columns_in(tree)}
    columns |= {c for source in sources for c in source.columns}
    if not columns:
        return None
    seen = t.op("Gather", x, t.constant(sorted(columns), INT64), axis=1)
    return t.any(t.op("IsNaN", seen))
