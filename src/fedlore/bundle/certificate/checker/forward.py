"""A bundle's network in numpy, and the personal model around it, as the paper defines it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .answers import Said
from .cells import Unreadable

Array = Any  # of numpy


def probabilities(
    header: Mapping[str, Any], weights: Mapping[str, Array], x: Array, said: Said, trust: float
) -> Array:
    """(1-λ)·softmax(f masked to the range) + λ·g_p on rows (n, d) that are not refused."""
    with np.errstate(all="ignore"):
        logits = _logits(header, weights, x, said)
        largest = np.finfo(np.float32).max
        logits = np.clip(np.where(np.isnan(logits), 0, logits), -largest, largest)
        masked = np.where(said.allowed, logits.astype(np.float64), -np.inf)
        share = np.exp(masked - masked.max(1, keepdims=True))
        share = share / share.sum(1, keepdims=True)
    if said.prior is None:
        return share
    told = trust * said.prior
    return share * (1 - np.minimum(told.sum(1, keepdims=True), 1)) + told


def _logits(header: Mapping[str, Any], weights: Mapping[str, Array], x: Array, said: Said) -> Array:
    scaling = header.get("scaling")
    if scaling is not None:
        x = (x.astype(np.float64) - np.array(scaling["shift"]).ravel()) / np.array(
            scaling["spread"]
        ).ravel()
    return _run(header["model"], "", weights, x.astype(np.float32), said)


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
    raise Unreadable(f"a layer of kind '{kind}'")
