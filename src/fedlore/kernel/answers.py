"""What the knowledge says of rows, combined by its policies."""

from typing import Any, NamedTuple

import numpy as np

from .holes import seen_rows, unusable_rows
from .knowledge import Known
from .soft import Soft, weigh_in

Array = Any  # of numpy


class Said(NamedTuple):
    """Rows of the prediction (n, k), of the range (n, k), and which rows are refused (n,)."""

    prior: Array | None
    allowed: Array
    refused: Array


def said_of(known: Known, x: Array) -> Said:
    """The knowledge on rows (n, d), already in single precision."""
    prior, allowed, refused = _said(known, seen_rows(known, x))
    return Said(prior, allowed, refused | unusable_rows(known, x))


def _said(known: Known, x: Array) -> Said:
    allowed, refused = range_of(known, x)
    if not known.predict.sources and not known.soft:
        return Said(None, allowed, refused)
    prior, silent = prior_of(known, x)
    refused = refused | silent
    conflict = ((prior > 0) & ~allowed).any(1)
    if known.conflict == "error":
        refused = refused | conflict
    if known.conflict == "restrict":
        inside = np.where(allowed, prior, np.float32(0))
        left = inside.sum(1, keepdims=True)
        inside = inside / np.where(left > 0, left, 1)
    else:
        inside = np.zeros_like(prior)
    return Said(np.where(conflict[:, None], inside, prior), allowed, refused)


def range_of(known: Known, x: Array) -> tuple[Array, Array]:
    """The range of rows, (n, k) bool, and which rows it refuses, (n,)."""
    side = known.range
    refused = np.zeros(len(x), bool)
    if not side.sources:
        return np.ones((len(x), known.k), bool), refused
    parts = [source.says(x) for source in side.sources]
    for _, wrong in parts:
        refused = refused | wrong
    rows = parts[0][0].astype(bool)
    for more, _ in parts[1:]:
        rows = rows | more if side.combine == "any" else rows & more
    none = ~rows.any(1)
    if len(parts) > 1 and side.combine == "all":
        if side.empty == "error":
            return rows, refused | none
        instead = parts[0][0] if side.empty == "first" else np.ones_like(rows)
        lacks = np.any([source.lacks(x) for source in side.sources], axis=0)
        rows = np.where((none | lacks)[:, None], instead, rows)
    return rows, refused


def prior_of(known: Known, x: Array) -> tuple[Array, Array]:
    """The prediction for rows, (n, k), before the range, and which rows it refuses, (n,)."""
    rows, refused = _ask(known, x)
    if known.soft:
        expert = rows if known.predict.sources else None
        rows = weigh_in(list(known.soft), x, expert, range_of(known, x)[0], _open_range(known, x))
    if known.confusion is not None:
        soft = rows.astype(np.float64) @ known.confusion
        total = soft.sum(1, keepdims=True)
        rows = (soft / np.where(total > 0, total, 1)).astype(np.float32)
    return rows, refused


def _ask(known: Known, x: Array) -> tuple[Array, Array]:
    side = known.predict
    if not side.sources:
        return np.zeros((len(x), known.k), np.float32), np.zeros(len(x), bool)
    parts = [_says(known, source, x) for source in side.sources]
    refused = np.any([wrong for _, wrong in parts], axis=0)
    rows = parts[0][0].astype(np.float32)
    if side.combine == "average" and len(parts) > 1:
        total = sum(p.astype(np.float32) * w for (p, _), w in zip(parts, side.weights, strict=True))
        spoken = np.asarray(total).sum(1, keepdims=True)
        mean = np.float32(total / np.where(spoken > 0, spoken, 1))
        pairs = zip(parts, side.sources, strict=True)
        lacks = np.any([~p.any(1) & _lacks(known, source, x) for (p, _), source in pairs], axis=0)
        return np.where(lacks[:, None], np.float32(0), mean), refused
    over = rows.any(1) | _lacks(
        known, side.sources[0], x
    )  # whoever lacks a value might have spoken
    for source, (more, _) in zip(side.sources[1:], parts[1:], strict=True):
        rows = np.where(over[:, None], rows, more.astype(np.float32))
        over = over | more.any(1) | _lacks(known, source, x)
    return rows, refused


def _says(known: Known, source: Any, x: Array) -> tuple[Array, Array]:
    """The rows of one source; what is soft lies inside the range."""
    if not isinstance(source, Soft):
        said: tuple[Array, Array] = source.says(x)
        return said
    rows = source.rows(x, range_of(known, x)[0], _open_range(known, x))
    return rows, np.zeros(len(x), bool)


def _lacks(known: Known, source: Any, x: Array) -> Array:
    """Rows in which a value is missing that a source looks at; what is soft looks at the range."""
    found = source.lacks(x)
    return found | _open_range(known, x) if isinstance(source, Soft) else found


def _open_range(known: Known, x: Array) -> Array:
    """Rows in which a value is missing that the range looks at, (n,)."""
    found = [source.lacks(x) for source in known.range.sources]
    return np.any(found, axis=0) if found else np.zeros(len(x), bool)
