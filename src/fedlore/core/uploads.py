"""What is wrong with tensors that come back: names, shapes, kinds, finiteness and length."""

import math
from collections.abc import Mapping, Sequence

import torch

from . import tree
from .exact import sum_shapes
from .inputs import Inputs
from .scaler import moments
from .tree import Payload
from .wire import Task

MISFIT = "names, shapes or kinds other than the model's"
Shapes = dict[str, dict[str, tuple[object, ...]]]


def wanted_of(
    task: Task,
    uploads: Sequence[str],
    features: int,
    *,
    terms: int = 0,
    inputs: Inputs | None = None,
) -> Payload:
    """Tensors with the names, shapes and kinds that a plain answer to a task has.

    The model of one round, where there is one, has so many `terms`.
    """
    if task.kind == "train":
        return {key: task.sent[key] for key in uploads}
    if task.kind == "gram" and terms:
        like = {n: torch.zeros(s, dtype=torch.float64) for n, s in sum_shapes(terms).items()}
        return {"gram": like}
    if task.kind == "vote":
        return {"vote": {name: torch.zeros(1, dtype=torch.float64) for name in ("loss", "rows")}}
    if task.kind != "moments":
        return {}
    row = torch.zeros(1, features)
    return {"moments": moments(row) if inputs is None else inputs.moments(row)}


def find_flaw(
    upload: Payload, wanted: Payload, *, largest: float = math.inf, misfit: str = MISFIT
) -> str | None:
    """Why an upload cannot be used in place of what was wanted, or None."""
    if shapes_of(upload) != shapes_of(wanted):
        return misfit
    if not tree.finite(upload):
        return "values that are not finite"
    length = longest(upload)
    return f"norm {length:.4g} is above {largest:g}" if length > largest else None


def find_bad_metric(metrics: Mapping[str, float]) -> str | None:
    """Why the numbers beside an upload cannot be used, or None."""
    return None if all(map(math.isfinite, metrics.values())) else "a metric is not finite"


def longest(upload: Payload) -> float:
    """The largest norm of a bundle."""
    return max((tree.norm(bundle) for bundle in upload.values()), default=0.0)


def shapes_of(payload: Payload) -> Shapes:
    """Kind and shape of every tensor by name."""
    return {
        key: {name: (t.dtype, *t.shape) for name, t in bundle.items()}
        for key, bundle in payload.items()
    }
