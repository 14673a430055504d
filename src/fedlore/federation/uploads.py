"""What the coordinator checks on every upload before it may touch the model."""

import math

from .. import tree
from ..algorithms import Algorithm
from ..tree import Params
from ..wire import Reply, Task


def flaw(
    task: Task, reply: Reply, algorithm: Algorithm, *, features: int, largest: float
) -> str | None:
    """Why a reply cannot be used, or None."""
    if not all(math.isfinite(value) for value in reply.metrics.values()):
        return "a metric is not finite"
    if task.kind == "moments":
        wanted = {"rows": (), "sum": (features,), "squares": (features,)}
        found = {n: tuple(t.shape) for n, t in reply.upload.get("moments", {}).items()}
        if found != wanted or set(reply.upload) != {"moments"}:
            return "sums of features with other names or shapes than asked for"
        return None if tree.finite(reply.upload) else "sums of features that are not finite"
    if task.kind != "train":
        return "tensors where none were asked for" if reply.upload else None
    asked = {key: _shapes(task.sent[key]) for key in algorithm.uploads}
    if {key: _shapes(bundle) for key, bundle in reply.upload.items()} != asked:
        return "names, shapes or kinds other than the model's"
    if not tree.finite(reply.upload):
        return "values that are not finite"
    if reply.rows < 1:
        return f"a count of {reply.rows} rows"
    norm = max((tree.norm(bundle) for bundle in reply.upload.values()), default=0.0)
    return f"norm {norm:.4g} is above {largest:g}" if norm > largest else None


def _shapes(bundle: Params) -> dict[str, tuple[object, ...]]:
    return {name: (t.dtype, *t.shape) for name, t in bundle.items()}
