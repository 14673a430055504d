"""A bundle's model of a number in numpy: bins, their share of the set, and the number it gives."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..kernel.answers import Said
from ..kernel.holes import seen_rows
from ..kernel.numbersets import Bands, NumberKnown, bands_of, number_within, points_of
from ..kernel.trusting import fill_rows, lean
from .forward import encode, logits_of, scaled_rows
from .members import number_members, softmax
from .shaped import shaped_logits

Array = Any  # of numpy


def numbers_of(
    header: Mapping[str, Any],
    weights: Mapping[str, Array],
    known: NumberKnown,
    x: Array,
    tensors: Mapping[str, Array] | None = None,  # of a mixture
) -> tuple[Array, Bands]:
    """The number of each row (n, d) that is not refused, in single precision, and its set."""
    bands = bands_of(known, x)
    edges = np.array(header["bins"], np.float64)
    k = len(edges) - 1
    said = number_within(known, points_of(known, x)[0], bands)
    pieces = _pieces(edges, bands)
    touched = ~np.isnan(pieces.lower).all(2)  # (n, k)
    prior = _prior(known, said, edges, pieces) if known.predict.sources else None
    between = None if prior is None else _between(said, edges)
    told, laid = (
        Said(None if rows is None else rows.astype(np.float32), touched, np.zeros(len(x)))
        for rows in (prior, between)
    )
    options = header["model"].get("options") or {}  # of an ordinal head
    heard = laid if options.get("between") else told
    rows = encode(header.get("inputs"), x)
    seen = np.concatenate([rows, _heard(edges, said, bands)], 1) if header["hears"] else rows
    beside, leaning = header.get("beside"), lean(known.leaning, seen_rows(known, x))
    with np.errstate(all="ignore"):
        if header["model"]["layer"] == "lipschitz":
            scaled = scaled_rows(header, seen)
            logits = shaped_logits(header, weights, scaled, x, laid, known.directions)
        else:
            logits = logits_of(header, weights, seen.astype(np.float32), heard)
        learned = softmax(logits, touched)
        if beside is None:
            trust = fill_rows(leaning, len(x), float(header["rely"]))
            return _alone(known, trust, learned, prior, said, pieces), bands
        first = bands.nearest(_expected(learned, pieces)[0])
        parts = [(float(beside["network"]), first)]
        low, high = bands.ends
        start = np.where(np.isnan(said), (low + high) / 2, said)
        sight = np.stack([start, (low + high) / 2, (high - low) / 2], 1).astype(np.float32)
        for weight, value in number_members(header, tensors or {}, rows, laid, sight, start, k):
            number = value if value.ndim == 1 else _number_at(value[:, 0], edges)
            parts.append((weight, bands.nearest(np.where(np.isfinite(number), number, start))))
        total = sum(weight for weight, _ in parts)
        even = total <= 0  # nobody but the expert has a weight
        mixed = sum((1 / len(parts) if even else w / total) * one for w, one in parts)
        trust = fill_rows(leaning, len(x), float(beside["expert"]))
        share = np.where(np.isnan(said), 0.0, trust[:, 0])
        mixed = (1 - share) * mixed + share * np.nan_to_num(said)
        return bands.nearest(np.where(np.isfinite(mixed), mixed, start)), bands


def _alone(
    known: NumberKnown,
    trust: Array,  # (n, 1)
    learned: Array,
    prior: Array | None,
    said: Array,
    pieces: Bands,
) -> Array:
    """The network with the expert's number, or with his bell, beside it: mean or median."""
    decode = _median if known.directions else _mean
    if known.spread is None or prior is None:
        return decode(learned, pieces, said, trust[:, 0])
    told = trust * prior
    mixed = learned * (1 - np.minimum(told.sum(1, keepdims=True), 1)) + told
    return decode(mixed, pieces, np.full(len(said), np.nan), 0.0)


def _pieces(edges: Array, bands: Bands) -> Bands:
    """The part of each set in each bin, (n, k, s); an interval that begins at a bin's open end
    has nothing in it."""
    starts, ends = edges[:-1, None], edges[1:, None]
    low, high = bands.lower[:, None], bands.upper[:, None]
    with np.errstate(invalid="ignore"):
        begins = low < ends
        begins[:, -1] = low[:, 0] <= ends[-1]
        met = begins & (high >= starts)
    lower = np.where(met, np.maximum(low, starts), np.nan)
    return Bands(lower, np.where(met, np.minimum(high, ends), np.nan))


def _prior(known: NumberKnown, said: Array, edges: Array, pieces: Bands) -> Array:
    """The bin of the expert's number, (n, k), or a bell around it within the set."""
    silent = np.isnan(said)
    centre = np.where(silent, edges[0], said)
    own = np.searchsorted(edges[1:-1], centre, side="right")
    rows = np.eye(len(edges) - 1)[own]
    if known.spread is not None:
        z = [(end - centre[:, None, None]) / known.spread for end in (pieces.lower, pieces.upper)]
        flip = z[0] > 0  # both ends on the left, where differences keep their digits
        a, b = np.where(flip, -z[1], z[0]), np.where(flip, -z[0], z[1])
        mass = np.nan_to_num(_normal(b) - _normal(a)).sum(2)
        total = mass.sum(1, keepdims=True)
        rows = np.where(total > 0, mass / np.where(total > 0, total, 1), rows)
    return np.where(silent[:, None], 0.0, rows)


def _between(said: Array, edges: Array) -> Array:
    """The expert's number shared by the bins beside it, (n, k), so that its place is the mean."""
    silent = np.isnan(said)
    centre = np.where(silent, edges[0], said)
    own = np.searchsorted(edges[1:-1], centre, side="right")
    place = own + (centre - edges[own]) / (edges[own + 1] - edges[own]) - 0.5
    at = np.arange(len(edges) - 1)
    place = np.clip(place, 0.0, len(edges) - 2.0)
    rows = np.maximum(1.0 - np.abs(place[:, None] - at), 0.0)
    return np.where(silent[:, None], 0.0, rows)


def _normal(z: Array) -> Array:
    found: Array = 0.5 * np.vectorize(math.erfc, otypes=[float])(-z / math.sqrt(2.0))
    return found


def _heard(edges: Array, said: Array, bands: Bands) -> Array:
    """The expert in four columns, on a scale of -1 to 1 between the bounds."""
    half = edges[-1] / 2 - edges[0] / 2
    centre = edges[0] + half
    silent = np.isnan(said)
    place = np.where(silent, 0.0, (said - centre) / half)
    ends = ((end - centre) / half for end in bands.ends)
    return np.stack([place, ~silent, *ends], 1)


def _expected(p: Array, pieces: Bands) -> tuple[Array, Array]:
    """The expected value, (n,), and how much of it each piece has, (n, k, s)."""
    here = ~np.isnan(pieces.lower)
    length = np.where(here, pieces.upper - pieces.lower, 0.0)
    total = length.sum(2, keepdims=True)
    even = np.where(total > 0, length / np.where(total > 0, total, 1), here)
    even = even / np.maximum(even.sum(2, keepdims=True), 1)
    share = (p / p.sum(1, keepdims=True))[:, :, None] * even
    middle = np.where(share > 0, pieces.lower + (pieces.upper - pieces.lower) / 2, 0.0)
    return (share * middle).sum((1, 2)), share


def _mean(p: Array, pieces: Bands, said: Array, weight: float | Array) -> Array:
    """The expected value, moved to the nearest number that has probability, (n,)."""
    value, share = _expected(p, pieces)
    silent = np.isnan(said)
    w = np.where(silent, 0.0, weight)
    value = (1 - w) * value + w * np.nan_to_num(said)
    none = ~(share > 0) | (w >= 1)[:, None, None]
    wide = (len(p), none[0].size if len(p) else 1)
    flat = (np.where(none, np.nan, end).reshape(wide) for end in (pieces.lower, pieces.upper))
    near = Bands(*flat).nearest(value)
    away, his = np.abs(near - value), np.abs(said - value)
    nearer = np.isnan(near) | (his < away) | ((his == away) & (said < near))
    return np.where((w > 0) & nearer, said, near)


def _median(p: Array, pieces: Bands, said: Array, weight: float | Array) -> Array:
    """The number with half of the probability below it, (n,): found by halving, then moved."""
    _, share = _expected(p, pieces)
    w = np.where(np.isnan(said), 0.0, weight)
    length = pieces.upper - pieces.lower
    low, high = np.nanmin(pieces.lower, (1, 2)), np.nanmax(pieces.upper, (1, 2))
    ends = Bands(*(end.reshape(len(p), -1) for end in (pieces.lower, pieces.upper)))
    for _ in range(64):
        v = (low + high) / 2
        part = (v[:, None, None] - pieces.lower) / np.where(length > 0, length, 1.0)
        part = np.where(length > 0, np.clip(part, 0, 1), v[:, None, None] >= pieces.lower)
        below = (1 - w) * np.where(share > 0, share * part, 0.0).sum((1, 2)) + w * (v >= said)
        low, high = np.where(below < 0.5, v, low), np.where(below < 0.5, high, v)
    return ends.nearest(high)


def _number_at(place: Array, edges: Array) -> Array:
    """The number at a place on the scale of the bins: middles of bins are whole places."""
    k = len(edges) - 1
    at = np.clip(np.nan_to_num(place + 0.5), 0.0, float(k))
    low = np.minimum(np.floor(at), k - 1).astype(int)
    found: Array = edges[low] + (at - low) * (edges[low + 1] - edges[low])
    return found
