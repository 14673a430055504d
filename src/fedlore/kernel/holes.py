"""Rows with holes: which are refused, and what knowledge sees of them."""

from typing import Any

import numpy as np

from .knowledge import Scoped

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
