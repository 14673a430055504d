"""What the coordinator checks on every upload before it may touch the model."""

from collections.abc import Callable, Iterator, Sequence

from ...algorithms import Algorithm
from ...core.uploads import find_bad_metric, find_flaw, wanted_of
from ...core.wire import Reply, Task, Transport
from ...privacy.filters import SUMMED
from ..remote import QuorumLost


def flaw(
    task: Task,
    reply: Reply,
    algorithm: Algorithm,
    *,
    features: int,
    largest: float,
    terms: int = 0,  # of the model of one round
) -> str | None:
    """Why a reply cannot be used, or None."""
    wrong = find_bad_metric(reply.metrics)
    if wrong is not None:
        return wrong
    if task.kind not in SUMMED:
        return "tensors where none were asked for" if reply.upload else None
    wanted = wanted_of(task, algorithm.uploads, features, terms=terms)
    if task.kind == "gram":
        misfit = "sums of rows with other names or shapes than asked for"
        return find_flaw(reply.upload, wanted, misfit=misfit)
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
