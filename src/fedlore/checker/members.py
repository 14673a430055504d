"""The members of a bundle's mixture in numpy: linear models, trees, and the model of one round."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from ..kernel.answers import Said

Array = Any  # of numpy

NEAR = 1e-9  # by which weights may miss a sum of 1
SMOOTH = 0.02  # of each row of votes is spread over all classes
STEEP = math.pi / math.sqrt(3.0)  # scales of a logistic in one standard deviation


def mixture_faults(beside: Mapping[str, Any], tensors: Mapping[str, Array]) -> list[str]:
    """What is wrong with a mixture: weights that are none, or numbers that are not finite."""
    weights = [beside["network"], beside["expert"], *(m["weight"] for m in beside["members"])]
    if any(type(w) not in (int, float) or not 0.0 <= w <= 1.0 for w in weights):
        return ["a weight does not lie in [0, 1]"]
    if abs(math.fsum(weights) - 1.0) > NEAR:
        return [f"the weights sum to {math.fsum(weights):g}, not to 1"]
    return [
        f"'{name}' is not finite"
        for name, values in sorted(tensors.items())
        # a threshold may be infinite
        if (np.isnan(values) if name.endswith(".threshold") else ~np.isfinite(values)).any()
    ][:1]


def member_shares(
    header: Mapping[str, Any], tensors: Mapping[str, Array], x: Array, said: Said
) -> list[tuple[float, Array]]:
    """The weight of each member and what it says inside the range, (n, k), on float32 rows."""
    found, count, k = [], 0, said.allowed.shape[1]
    for one in header["beside"]["members"]:
        if one["kind"] == "exact":
            logits = _one_round(one, pick_tensors(tensors, "exact."), x, said)
        else:
            own = pick_tensors(tensors, f"own.{count}.")
            count += 1
            logits = _own(one, own, x, said, k)
        found.append((float(one["weight"]), softmax(logits, said.allowed)))
    return found


def number_members(
    header: Mapping[str, Any],
    tensors: Mapping[str, Array],
    x: Array,  # (n, m) encoded rows
    said: Said,
    sight: Array,  # (n, 3) what is heard of the expert's number
    start: Array,  # (n,)
    k: int,
) -> Iterator[tuple[float, Array]]:
    """The weight of each member and its number, (n,), or its place among the bins, (n, 1)."""
    count = 0
    for one in header["beside"]["members"]:
        if one["kind"] == "exact":
            place, _ = _round_place(one, pick_tensors(tensors, "exact."), x, said)
            yield float(one["weight"]), place[:, None]
            continue
        if one["kind"] != "number":
            raise KnowledgeError(f"a member of kind '{one['kind']}'")
        own = pick_tensors(tensors, f"own.{count}.")
        count += 1
        inputs = np.concatenate([x, sight], 1) if one["hears"] else x
        out = _body(one, own, inputs.astype(np.float32))[:, 0]
        yield float(one["weight"]), out + start if one["over"] else out


def softmax(logits: Array, allowed: Array) -> Array:
    """Scores made finite, masked to the range, and softmaxed, (n, k)."""
    largest = np.finfo(logits.dtype).max
    logits = np.clip(np.where(np.isnan(logits), 0, logits), -largest, largest)
    masked = np.where(allowed, logits.astype(np.float64), -np.inf)
    share = np.exp(masked - masked.max(1, keepdims=True))
    return share / share.sum(1, keepdims=True)


def places(said: Said) -> tuple[Array, Array]:
    """The middle of the range and the expert's place, (n,) each."""
    at = np.arange(said.allowed.shape[1])
    middle = (said.allowed @ at) / said.allowed.sum(1)
    return middle, _expert_place(said, middle)


def heard_numbers(middle: Array, told: Array, k: int) -> Array:
    """What a network hears of a row, (n, 3)."""
    centre, unit = (k - 1) / 2, k / 4
    return np.stack([(middle - centre) / unit, (told - centre) / unit, told - middle], 1)


def cells(place: Array, width: Array, k: int, bell: str) -> Array:
    """Log-probabilities of ordered classes under a bell, (n,) -> (n, k)."""
    ends = np.concatenate([[-np.inf], np.arange(k - 1) + 0.5, [np.inf]])
    z = (ends - np.reshape(place, (-1, 1)).astype(np.float64)) / np.reshape(width, (-1, 1))
    low, high = z[:, :-1], z[:, 1:]
    flip = low + high > 0  # by symmetry both ends are taken on the left
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    tail = _log_normal if bell == "normal" else _log_logistic
    upper, lower = tail(b), tail(a)
    gap = np.where(np.isinf(lower), -np.inf, lower - upper)
    return upper + np.log(-np.expm1(gap))


def _log_logistic(z: Array) -> Array:
    return -np.logaddexp(0.0, -STEEP * z)


def _log_normal(z: Array) -> Array:
    """log Φ(z), by its series where Φ is too small for a number."""
    direct = np.log(0.5 * np.vectorize(math.erfc, otypes=[float])(-z / math.sqrt(2.0)))
    far = np.minimum(z, -20.0)
    series = -0.5 * far**2 - np.log(-far * math.sqrt(2 * math.pi)) + np.log1p(-1 / far**2)
    return np.where(z < -20.0, series, direct)


def _own(said_of: Mapping[str, Any], own: Mapping[str, Array], x: Array, said: Said, k: int) -> Any:
    if said_of["kind"] == "classes":
        told = [t for t in (said.prior, said.allowed) if t is not None]
        inputs = np.concatenate([x, *told], 1) if said_of["hears"] else x
        out = _body(said_of, own, inputs.astype(np.float32))
        if said_of["votes"]:
            out = np.log((1.0 - SMOOTH) * out + SMOOTH / k)
        return said_of["sharpness"] * out
    if said_of["kind"] != "order":
        raise KnowledgeError(f"a member of kind '{said_of['kind']}'")
    at = np.arange(k)
    low = np.where(said.allowed, at, k - 1).min(1)
    high = np.where(said.allowed, at, 0).max(1)
    middle, half = (low + high) / 2, (high - low) / 2
    start = _expert_place(said, middle)
    heard = np.stack([start, middle, half], 1).astype(np.float32)
    out = _body(said_of, own, np.concatenate([x, heard], 1) if said_of["hears"] else x)[:, 0]
    place = out + start if said_of["over"] else out
    return cells(place, np.array(said_of["width"]), k, "normal")


def _expert_place(said: Said, middle: Array) -> Array:
    if said.prior is None:
        return middle
    mass = said.prior.astype(np.float64)
    total = mass.sum(1)
    place = (mass @ np.arange(mass.shape[1])) / np.where(total > 0, total, 1)
    return np.where(total > 0, place, middle)


def _body(said_of: Mapping[str, Any], own: Mapping[str, Array], x: Array) -> Array:
    if said_of["body"] == "linear":
        z = (x.astype(np.float64) - own["mean"]) / own["scale"]
        if said_of["quadratic"]:
            first, second = np.triu_indices(z.shape[1])
            z = np.concatenate([z, z[:, first] * z[:, second]], 1)
        return z @ own["weight"] + own["constant"]
    if said_of["body"] != "trees":
        raise KnowledgeError(f"a member made of '{said_of['body']}'")
    feature, child = own["feature"].astype(int), own["child"].astype(int)
    node = np.tile(own["roots"].astype(int), (len(x), 1))  # (n, t)
    while (feature[node] >= 0).any():  # children lie behind their parents: it ends
        column = feature[node]
        value = np.take_along_axis(x, np.maximum(column, 0), 1)
        below = child[node] + (value > own["threshold"][node])
        if (below <= node)[column >= 0].any():
            raise KnowledgeError("a tree that leads back to itself")
        node = np.where(column >= 0, below, node)
    leaves = own["values"][child[node]].astype(np.float64)  # (n, t, w)
    total = leaves.sum(1)
    if leaves.shape[2] == 1 and len(own["base"]) > 1:
        to = np.eye(len(own["base"]))[own["output"].astype(int)]  # (t, o)
        total = leaves[:, :, 0] @ to
    return own["base"] + own["scale"] * total


def _one_round(said_of: Mapping[str, Any], own: Mapping[str, Array], x: Array, said: Said) -> Array:
    return cells(*_round_place(said_of, own, x, said), said.allowed.shape[1], "normal")


def _round_place(
    said_of: Mapping[str, Any], own: Mapping[str, Array], x: Array, said: Said
) -> tuple[Array, Array]:
    """The place among ordered classes that the model of one round names, and its width, (n,)."""
    basis, k = said_of["basis"], said.allowed.shape[1]
    if basis["random"]:
        raise KnowledgeError("a model of random features")
    if said_of["scaled"]:
        x = ((x.astype(np.float64) - own["shift"].ravel()) / own["spread"].ravel()).astype(x.dtype)
    z = x.astype(np.float64)
    middle, told = places(said)
    if said_of["hears"]:
        z = np.concatenate([z, heard_numbers(middle, told, k)[:, 1:]], 1)
    parts = [z]
    if basis["terms"] != "linear":
        parts.append((z**2 - 1.0) / math.sqrt(2.0))
    if basis["terms"] == "quadratic":
        first, second = np.triu_indices(z.shape[1], 1)
        parts.append(z[:, first] * z[:, second])
    phi = np.concatenate(parts, 1) - own["middle"]
    start = {"none": np.full(len(x), (k - 1) / 2), "middle": middle, "expert": told}
    place = start[said_of["start"]] + own["level"] + phi @ own["mean"]
    spread = ((phi @ own["covariance"]) * phi).sum(1)
    return place, np.sqrt(own["noise"] * (1.0 + 1.0 / said_of["rows"]) + spread)


def pick_tensors(tensors: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The tensors of one member, by their own names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
