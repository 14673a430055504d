"""What happened, as flat rows of plain values, and who listens to each round."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from ..errors import FedloreError
from .store import write_whole

__all__ = ["Row", "check_writable", "read_rows", "write_rows"]

Row = Mapping[str, str | int | float | bool | None]


def write_rows(rows: Iterable[Row], path: str | Path) -> None:
    """Write rows as jsonl, all or nothing."""
    path = Path(path)
    text = "".join(json.dumps(dict(row), allow_nan=False) + "\n" for row in rows)
    with _explain_failure(path):
        write_whole(path, text)


def check_writable(path: str | Path) -> None:
    """Refuse an output file before the work that fills it, not after."""
    trial = Path(path).with_name(f".{Path(path).name}.trial")
    with _explain_failure(trial):
        write_whole(trial, "", sync=False)
        trial.unlink()


@contextmanager
def _explain_failure(path: Path) -> Iterator[None]:
    """A folder to write in, and a sentence where that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise FedloreError(f"cannot write to '{path.parent}': {error.strerror}") from None


def read_rows(path: str | Path) -> list[Row]:
    """Read rows that `write_rows` wrote."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def mean_of(rows: Sequence[Row], name: str) -> float | None:
    """The mean of a score over rows that have it."""
    found = [float(row[name] or 0.0) for row in rows if row.get(name) is not None]
    return sum(found) / len(found) if found else None


@dataclass(frozen=True)
class RoundSeen:
    """A round that is over, or another step of long work."""

    round: int
    rounds: int
    trial: str = ""  # the name of a short training among several
    ta: float | None = None  # mean over the clients, where they were scored in this round
    rmse: float | None = None
    step: str = ""  # what was done, where it is no round of a training


RoundListener = Callable[[RoundSeen], None]
_LISTENER: ContextVar[RoundListener | None] = ContextVar("listener of rounds", default=None)


@contextmanager
def listen_to_rounds(listener: RoundListener) -> Iterator[None]:
    """Inside this block the listener is told of each round of every training in this process.

    Whoever listens outside is told first.
    """
    outer = _LISTENER.get()

    def both(seen: RoundSeen) -> None:
        if outer is not None:
            outer(seen)
        listener(seen)

    before = _LISTENER.set(both)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def tell_step(step: str, *, done: int = 0, total: int = 0) -> None:
    """Say that a step of long work is over, the `done`-th of `total` where these are known."""
    tell_round(RoundSeen(done, total, step=step))


def tell_round(seen: RoundSeen) -> None:
    """Say that a round is over to whoever listens."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(seen)
