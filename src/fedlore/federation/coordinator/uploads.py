"""What the coordinator checks on every upload before it may touch the model."""

from collections.abc import Callable, Iterator, Sequence

from ...algorithms import Algorithm
from ...core.scaler import Inputs
from ...core.wire import (
    SUMMED,
    TASK_KINDS,
    Reply,
    Task,
    Transport,
    find_bad_metric,
    find_flaw,
    wanted_of,
)
from ...engine.lore.rows import WORST
from ..remote import QuorumLost

_ROUNDED = 0.1  # how far sums of fixed-point numbers may be off


def flaw(
    task: Task,
    reply: Reply,
    algorithm: Algorithm,
    *,
    features: int,
    largest: float,
    terms: int = 0,  # of the one-shot model
    inputs: Inputs | None = None,
) -> str | None:
    """Why a reply cannot be used, or None."""
    wrong = find_bad_metric(reply.metrics)
    if wrong is not None:
        return wrong
    if task.kind not in SUMMED:
        return "tensors where none were asked for" if reply.upload else None
    wanted = wanted_of(task, algorithm.uploads, features, terms=terms, inputs=inputs)
    if task.kind == "train":
        if reply.rows < 1:
            return f"a count of {reply.rows} rows"
        return find_flaw(reply.upload, wanted, largest=largest)
    wrong = find_flaw(reply.upload, wanted, misfit=TASK_KINDS[task.kind].misfit)
    return _bad_vote(reply) if wrong is None and task.kind == "vote" else wrong


def _bad_vote(reply: Reply) -> str | None:
    """Why no rows can have given such a vote: a row's loss lies between 0 and that of the worst."""
    rows = float(reply.upload["vote"]["rows"])
    for loss in reply.upload["vote"]["loss"].tolist():
        if rows < 0 or not -_ROUNDED <= loss <= -WORST * rows + _ROUNDED:
            return f"a loss of {loss:.4g} on {rows:g} rows"
    return None


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
