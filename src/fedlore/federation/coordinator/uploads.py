"""What the coordinator checks on every upload before it may touch the model."""

import json
import math
from collections.abc import Callable, Iterator, Sequence

import torch

from ...algorithms import Algorithm
from ...core import tree
from ...core.scaler import moments
from ...core.tree import Params, Payload
from ...core.wire import Reply, Task, Transport
from ...privacy.filters import SUMMED
from ...privacy.secagg.fixedpoint import layout_of, size_of
from ...privacy.secagg.pact import packed
from ..remote import QuorumLost


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


def masked_flaw(task: Task, reply: Reply, algorithm: Algorithm, *, features: int) -> str | None:
    """Why a reply under secure aggregation cannot be used: all that can be seen of a single one."""
    if task.kind in ("evaluate", "finish"):
        return flaw(task, reply, algorithm, features=features, largest=math.inf)
    if reply.rows:
        return f"a count of {reply.rows} rows where none may be told"
    if task.kind not in SUMMED:
        kinds = {t.dtype for bundle in reply.upload.values() for t in bundle.values()}
        return "tensors where bytes were asked for" if kinds - {torch.uint8} else None
    if task.kind == "train":
        wanted: Payload = {key: task.sent[key] for key in algorithm.uploads}
    else:
        wanted = {"moments": moments(torch.zeros(1, features))}
    layout = layout_of(wanted)
    bundle = reply.upload.get("masked", {})
    if set(reply.upload) != {"masked"} or set(bundle) != {"words", "layout"}:
        return "an upload without masks"
    words, told = bundle["words"], bundle["layout"]
    if not torch.equal(told, packed(json.dumps(layout).encode())):
        return "names, shapes or kinds other than the model's"
    if words.dtype != torch.int64 or words.shape != (size_of(layout),):
        return "masked words of another kind or number than asked for"
    return None


def encrypted_flaw(task: Task, reply: Reply, algorithm: Algorithm, *, features: int) -> str | None:
    """Why an encrypted reply cannot be used; what is inside the server half finds out."""
    if task.kind in ("evaluate", "finish"):
        return flaw(task, reply, algorithm, features=features, largest=math.inf)
    if reply.rows:
        return f"a count of {reply.rows} rows where none may be told"
    if not all(math.isfinite(value) for value in reply.metrics.values()):
        return "a metric is not finite"
    wanted = {"ckks": {"cipher": torch.uint8, "lengths": torch.int64, "about": torch.uint8}}
    if task.kind not in SUMMED:
        wanted = {"sum": {"weights": torch.float64, "values": torch.float64}}
    elif not reply.upload and not algorithm.uploads:
        return None
    found = {k: {n: t.dtype for n, t in b.items()} for k, b in reply.upload.items()}
    return None if found == wanted else f"something else than {' '.join(wanted)} was asked for"


class Judged:
    """A transport whose sums are checked as single uploads would be; nothing usable is void."""

    def __init__(self, transport: Transport, check: Callable[[Task, Reply], str | None]) -> None:
        self._transport, self._check = transport, check

    def clients(self) -> Sequence[str]:
        return self._transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        replies = list(self._transport.exchange(task, to))
        if task.kind in SUMMED:
            for reply in replies:
                reason = self._check(task, reply)
                if reason is not None:
                    raise QuorumLost(
                        f"round {task.round}: {reply.client} cannot be used: {reason} (which site "
                        "it was is hidden)"
                    )
            if not replies:
                raise QuorumLost(f"round {task.round}: '{task.kind}' gave no sum, see the log")
        yield from replies


def _shapes(bundle: Params) -> dict[str, tuple[object, ...]]:
    return {name: (t.dtype, *t.shape) for name, t in bundle.items()}
