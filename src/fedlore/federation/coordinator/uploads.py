"""What the coordinator checks on every upload before it may touch the model."""

import json
import math
from collections.abc import Callable, Iterator, Sequence

import torch

from ...algorithms import Algorithm
from ...core.uploads import MISFIT, find_bad_metric, find_flaw, wanted_of
from ...core.wire import Reply, Task, Transport
from ...privacy.filters import SUMMED
from ...privacy.secagg.fixedpoint import layout_of, size_of
from ...privacy.secagg.pact import packed
from ..remote import QuorumLost


def flaw(
    task: Task, reply: Reply, algorithm: Algorithm, *, features: int, largest: float
) -> str | None:
    """Why a reply cannot be used, or None."""
    wrong = find_bad_metric(reply.metrics)
    if wrong is not None:
        return wrong
    if task.kind not in SUMMED:
        return "tensors where none were asked for" if reply.upload else None
    wanted = wanted_of(task, algorithm.uploads, features)
    if task.kind == "moments":
        misfit = "sums of features with other names or shapes than asked for"
        return find_flaw(reply.upload, wanted, misfit=misfit)
    if task.kind != "train":
        return find_flaw(
            reply.upload, wanted, misfit="sums of other names or shapes than asked for"
        )
    if reply.rows < 1:
        return f"a count of {reply.rows} rows"
    return find_flaw(reply.upload, wanted, largest=largest)


def masked_flaw(task: Task, reply: Reply, algorithm: Algorithm, *, features: int) -> str | None:
    """Why a reply under secure aggregation cannot be used: all that can be seen of a single one."""
    if task.kind in ("evaluate", "finish", "settle"):
        return flaw(task, reply, algorithm, features=features, largest=math.inf)
    if reply.rows:
        return f"a count of {reply.rows} rows where none may be told"
    if task.kind not in SUMMED:
        kinds = {t.dtype for bundle in reply.upload.values() for t in bundle.values()}
        return "tensors where bytes were asked for" if kinds - {torch.uint8} else None
    layout = layout_of(wanted_of(task, algorithm.uploads, features))
    bundle = reply.upload.get("masked", {})
    if set(reply.upload) != {"masked"} or set(bundle) != {"words", "layout"}:
        return "an upload without masks"
    words, told = bundle["words"], bundle["layout"]
    if not torch.equal(told, packed(json.dumps(layout).encode())):
        return MISFIT
    if words.dtype != torch.int64 or words.shape != (size_of(layout),):
        return "masked words of another kind or number than asked for"
    return None


def encrypted_flaw(task: Task, reply: Reply, algorithm: Algorithm, *, features: int) -> str | None:
    """Why an encrypted reply cannot be used; what is inside the server half finds out."""
    if task.kind in ("evaluate", "finish", "settle"):
        return flaw(task, reply, algorithm, features=features, largest=math.inf)
    if reply.rows:
        return f"a count of {reply.rows} rows where none may be told"
    wrong = find_bad_metric(reply.metrics)
    if wrong is not None:
        return wrong
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
