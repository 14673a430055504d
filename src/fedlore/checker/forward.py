"""A bundle's network in numpy, and the personal model around it, as the paper defines it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from ..kernel.answers import Said
from ..kernel.directions import Direction
from ..kernel.trusting import fill_rows
from .members import cells, heard_numbers, member_shares, places, softmax
from .shaped import shaped_logits

Array = Any  # of numpy


def probabilities(
    header: Mapping[str, Any],
    weights: Mapping[str, Array],
    x: Array,
    said: Said,
    trust: float,  # λ where a row has none of its own
    tensors: Mapping[str, Array] | None = None,  # of a mixture
    directions: Sequence[Direction] = (),  # of features with a shape
    leaning: Array | None = None,  # (n,) λ of each row, NaN where it has none of its own
) -> Array:
    """(1-λ)·Σ w_j softmax(f_j masked to the range) + λ·g_p on rows (n, d) that are not refused."""
    beside = header.get("beside")
    raw, x = x, encode(header.get("inputs"), x)
    with np.errstate(all="ignore"):
        if header["model"]["layer"] == "lipschitz":
            seen = scaled_rows(header, x)
            logits = shaped_logits(header, weights, seen, raw, said, directions)
        else:
            logits = logits_of(header, weights, x, said)
        if beside is None:
            share = softmax(logits, said.allowed)
        else:
            largest = np.finfo(np.float32).max
            logits = np.clip(np.where(np.isnan(logits), 0, logits), -largest, largest)
            sharp = softmax(logits * np.float32(beside["sharpness"]), said.allowed)
            parts = [(float(beside["network"]), sharp)]
            parts += member_shares(header, tensors or {}, x, said)
            trust, total = float(beside["expert"]), sum(w for w, _ in parts)
            even = total <= 0  # nobody but the expert has a weight
            share = sum((1 / len(parts) if even else w / total) * p for w, p in parts)
    if said.prior is None:
        return share
    told = fill_rows(leaning, len(x), trust) * said.prior
    return share * (1 - np.minimum(told.sum(1, keepdims=True), 1)) + told


def encode(inputs: list[Mapping[str, Any]] | None, x: Array) -> Array:
    """Rows as network and members take them: levels one by one, signs for what is missing."""
    if inputs is None:
        return x
    parts = []
    for column, one in enumerate(inputs):
        value = x[:, column : column + 1]
        hole = np.isnan(value)
        if one["missing"] and one["fill"] is not None:
            value = np.where(hole, np.float32(one["fill"]), value)
        if one["levels"]:
            value = value == np.arange(one["levels"] + one["other"])
        parts += [value, hole] if one["missing"] else [value]
    return np.concatenate(parts, axis=1).astype(np.float32)


def logits_of(
    header: Mapping[str, Any], weights: Mapping[str, Array], x: Array, said: Said
) -> Array:
    """What the network says of encoded rows, (n, k), before the range."""
    return _run(header["model"], "", weights, scaled_rows(header, x), said)


def scaled_rows(header: Mapping[str, Any], x: Array) -> Array:
    """Encoded rows as the network takes them."""
    scaling = header.get("scaling")
    if scaling is not None:
        x = (x.astype(np.float64) - np.array(scaling["shift"]).ravel()) / np.array(
            scaling["spread"]
        ).ravel()
    return x.astype(np.float32)


def _run(
    layer: Mapping[str, Any], name: str, weights: Mapping[str, Array], x: Array, said: Said
) -> Array:
    kind = layer["layer"]
    if kind == "deaf":
        return _run(layer["body"], f"{name}body.", weights, x, said)
    if kind == "hearing":
        seen = _run(layer["trunk"], f"{name}trunk.", weights, x, said)
        told = (
            np.zeros((len(x), layer["classes"]), np.float32) if said.prior is None else said.prior
        )
        heard = np.concatenate([seen, told, said.allowed], axis=1).astype(np.float32)
        return _run(layer["head"], f"{name}head.", weights, heard, said)
    if kind == "ordered":
        return _ordinal_cells(layer, name, weights, x, said)
    if kind == "sequential":
        for place, part in enumerate(layer["parts"]):
            x = _run(part, f"{name}{place}.", weights, x, said)
        return x
    if kind == "linear":
        made = x @ weights[f"{name}weight"].T
        return made + weights[f"{name}bias"] if layer.get("bias", True) else made
    if kind == "relu":
        return np.maximum(x, 0)
    if kind == "tanh":
        return np.tanh(x)
    if kind in ("flatten", "identity", "dropout"):
        return x
    raise KnowledgeError(f"a layer of kind '{kind}'")


def _ordinal_cells(
    layer: Mapping[str, Any], name: str, weights: Mapping[str, Array], x: Array, said: Said
) -> Array:
    """A place and a width, as log-probabilities of ordered classes."""
    options, k = layer["options"], layer["classes"]
    seen = _run(layer["trunk"], f"{name}trunk.", weights, x, said)
    middle, told = places(said)
    heard = heard_numbers(middle, told, k).astype(np.float32)
    start = {"none": (k - 1) / 2, "middle": middle, "expert": told}[options["start"]]
    if options["hears"]:
        seen = np.concatenate([seen, heard], 1)
    moved = _run(layer["head"], f"{name}head.", weights, seen, said)[:, 0]
    moved = moved + weights[f"{name}own.shift"]
    if layer["line"] is not None:
        moved = moved + _run(layer["line"], f"{name}line.", weights, seen, said)[:, 0]
    width = options["width"] * np.exp(weights[f"{name}own.width"].astype(np.float64))
    unit = k / 4.0 if options["start"] == "none" else 1.0
    if options.get("reach") is not None:  # none in files of before 0.2.0
        unit = options["reach"] * k
    made = cells(start + unit * moved, width, k, options["bell"])
    return made.astype(np.float32)
