"""Named bundles of tensors and the few pure functions on them.

Tensors may carry a leading client axis (m, ...); a scale of shape (m,) then scales each client.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ..errors import FedloreError

__all__ = [
    "Params",
    "Payload",
    "add",
    "axpy",
    "clone",
    "each",
    "finite",
    "flatten",
    "mean",
    "nest",
    "norm",
    "scale",
    "sub",
    "to",
    "zeros",
]

Params = dict[str, Tensor]  # one named bundle: a model's parameters, or differences of them
Payload = dict[str, Params]  # several bundles: what is sent, remembered and returned


def zeros(like: Params) -> Params:
    return {name: torch.zeros_like(t) for name, t in like.items()}


def add(a: Params, b: Params) -> Params:
    return {name: t + b[name] for name, t in a.items()}


def sub(a: Params, b: Params) -> Params:
    return {name: t - b[name] for name, t in a.items()}


def scale(a: Params, by: float | Tensor) -> Params:
    return {name: t * _spread(by, t) for name, t in a.items()}


def axpy(alpha: float | Tensor, x: Params, y: Params) -> Params:
    """alpha·x + y."""
    return {name: y[name] + _spread(alpha, t) * t for name, t in x.items()}


def clone(a: Params) -> Params:
    return {name: t.detach().clone() for name, t in a.items()}


def to(a: Params, like: Tensor) -> Params:
    """The same bundle on another tensor's device and in its precision."""
    return {name: t.to(device=like.device, dtype=like.dtype) for name, t in a.items()}


def each(payload: Payload, change: Callable[[Tensor], Tensor]) -> Payload:
    """The same names with every tensor changed."""
    return {key: {n: change(t) for n, t in bundle.items()} for key, bundle in payload.items()}


def norm(a: Params) -> float:
    """The Euclidean norm of the whole bundle."""
    return float(sum(t.double().square().sum() for t in a.values()) ** 0.5)


def finite(payload: Payload) -> bool:
    return all(bool(t.isfinite().all()) for bundle in payload.values() for t in bundle.values())


def mean(payloads: Iterable[tuple[Payload, float]]) -> Payload:
    """The weighted mean of payloads, summed in the order given."""
    total: Payload = {}
    weight = 0.0
    for payload, w in payloads:
        weight += w
        for key, bundle in payload.items():
            scaled = bundle if w == 1.0 else scale(bundle, w)
            total[key] = add(total[key], scaled) if key in total else dict(scaled)
    return {key: scale(bundle, 1.0 / weight) for key, bundle in total.items()}


def _spread(by: float | Tensor, t: Tensor) -> float | Tensor:
    """A per-client scale, shaped to multiply a stacked tensor."""
    if isinstance(by, Tensor):
        return by.reshape(by.shape + (1,) * (t.ndim - by.ndim))
    return by


def flatten(payload: Payload) -> Params:
    """All tensors of a payload in one bundle, under names like `model/0.weight`."""
    found = {f"{key}/{name}": t for key, bundle in payload.items() for name, t in bundle.items()}
    for key in payload:
        if "/" in key:  # or two payloads could look the same
            raise FedloreError(f"the name of a bundle must be without '/', got '{key}'")
    return found


def nest(bundle: Params) -> Payload:
    """The payload that `flatten` made one bundle of."""
    found: Payload = {}
    for name, t in bundle.items():
        key, _, rest = name.partition("/")
        found.setdefault(key, {})[rest] = t
    return found
