"""A limit on how long a run may take: what does not fit is left out, and said."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..core.history import RoundSeen, listen_to_rounds
from ..errors import FedloreError
from .approaches import Approach, effort


class LeftOut(FedloreError):
    """Why an approach, or a seed, is not among the results of a run."""


@dataclass(eq=False)
class TimeBudget:
    """How much of the time is spent, and by what."""

    limit: float  # seconds; endless where nobody set one
    clock: Callable[[], float] = time.monotonic
    spent: dict[str, float] = field(default_factory=dict)  # seconds of an approach, at its last
    _efforts: float = 0.0  # of trainings that are over, and their seconds
    _seconds: float = 0.0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def check(self, approach: Approach) -> None:
        """Refuse to begin an approach that would not end, as far as can be foreseen.

        What a site makes on its own is like nothing else, and is always begun.
        """
        seconds = self.spent.get(approach.name, 0.0)
        if not seconds and self._efforts and not approach.alone:
            seconds = effort(approach) * self._seconds / self._efforts
        self._check("it", seconds)

    def check_seed(self) -> None:
        """Refuse another seed that would not end."""
        self._check("another seed", sum(self.spent.values()))

    @contextmanager
    def spend(self, approach: Approach) -> Iterator[None]:
        """Inside this block work ends with `LeftOut` at the first step after the time is up."""
        start = self.clock()

        def hear(seen: RoundSeen) -> None:
            if self._left() < 0:
                raise LeftOut(f"it was not finished when time_limit ({_say(self.limit)}) was up")

        with listen_to_rounds(hear):
            yield
        self.spent[approach.name] = self.clock() - start
        if not approach.alone and not approach.chosen:
            self._efforts += effort(approach)
            self._seconds += self.spent[approach.name]

    def _left(self) -> float:
        return self.limit - (self.clock() - self._began)

    def _check(self, what: str, seconds: float) -> None:
        left = self._left()
        if left <= 0:
            raise LeftOut(f"time_limit ({_say(self.limit)}) is up")
        if seconds > left:
            raise LeftOut(f"{what} takes about {_say(seconds)}, time_limit leaves {_say(left)}")


def _say(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
