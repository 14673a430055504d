"""A network of the kind `lipschitz` in numpy: its place moves as the shapes say."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..kernel.answers import Said
from ..kernel.directions import Direction
from ..kernel.expressions import value
from .members import cells, places

Array = Any  # of numpy
_SLACK = 1.0 / 64.0  # how far below κ the trunk stays
_SHARP = 2.0  # of the softplus


def shaped_logits(
    header: Mapping[str, Any],
    weights: Mapping[str, Array],
    x: Array,  # as the network takes it, scaled
    raw: Array,  # as the knowledge takes it
    said: Said,
    directions: Sequence[Direction],
) -> Array:
    """What the network says before the range, (n, k).

    Of the expert it hears nothing here at a site with shapes: no zero hangs on that.
    """
    layer = header["model"]
    options, k = layer["options"], layer["classes"]
    n, d = x.shape
    heard = np.zeros((n, 2), np.float32)
    start = np.zeros(n, np.float32)
    if not directions:
        both = (np.stack(places(said), 1) - (k - 1) / 2) / (k / 4)
        heard = both.astype(np.float32) if options["hears"] else heard
        if options["start"] != "none":
            start = both[:, 0 if options["start"] == "middle" else 1]
    inputs = np.concatenate([x, heard], 1)
    signs = np.zeros((n, d + 2), np.float32)
    spots = spots_of(header.get("inputs"), raw.shape[1])
    for one in directions:
        here = np.ones(n, bool) if one.region is None else value(one.region, raw) > 0
        signs[here, spots[one.column]] = one.sign
    slope, c = options["slope"], weights["line.weight"][0].astype(np.float64)
    above = np.logaddexp(0.0, _SHARP * (signs * c / slope - 1.0)) / _SHARP
    above = above + (np.arange(d + 2) < d)
    line = np.where(signs == 0, c, signs * slope * above)
    bent = _trunk(weights, inputs, len(layer["hidden"]) + 1) * slope * (1.0 - _SLACK)
    moved = bent[:, 0] + (line * inputs).sum(1) + weights["own.shift"]
    width = options["width"] * np.exp(weights["own.width"].astype(np.float64))
    made = cells((k - 1) / 2 + k / 4 * (start + moved), width, k, options["bell"])
    return made.astype(np.float32)


def _trunk(weights: Mapping[str, Array], h: Array, depth: int) -> Array:
    for place in range(depth):
        w = weights[f"trunk.{place}.weight"].astype(np.float64)
        size = np.abs(w)
        norm = size.sum(1, keepdims=True) if place else size.max(1, keepdims=True)
        if place:
            half = h.shape[1] // 2
            a, b = h[:, :half], h[:, half : 2 * half]
            h = np.concatenate([np.maximum(a, b), np.minimum(a, b), h[:, 2 * half :]], 1)
        h = h @ (w / np.maximum(norm, 1.0)).T + weights[f"trunk.{place}.bias"]
    return h


def spots_of(inputs: Sequence[Mapping[str, Any]] | None, features: int) -> list[int]:
    """The input in which each feature's own number stands."""
    if inputs is None:
        return list(range(features))
    widths = [(i["levels"] + i["other"] or 1) + i["missing"] for i in inputs]
    return [sum(widths[:place]) for place in range(features)]
