"""Who wants to hear of every round, such as a bar on a terminal: nobody in between passes it on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class RoundSeen:
    """A round that is over."""

    round: int
    rounds: int
    trial: str = ""  # the name of a short training among several
    ta: float | None = None  # mean over the clients, where they were scored in this round
    rmse: float | None = None


RoundListener = Callable[[RoundSeen], None]
_LISTENER: ContextVar[RoundListener | None] = ContextVar("listener of rounds", default=None)


@contextmanager
def watching(listener: RoundListener) -> Iterator[None]:
    """Inside this block the listener is told of each round of every training in this process."""
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def tell_round(seen: RoundSeen) -> None:
    """Say that a round is over to whoever listens."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(seen)
