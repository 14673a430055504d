"""How long uploads usually are: one far longer than its peers' and those before is not used.

A median bears any upload of less than half of the sites. Without three norms to compare with
nothing is said, and each training of several has norms of its own.
"""

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

_KEPT = 40  # norms that are remembered
ENOUGH = 3  # to tell what is usual


@dataclass
class UsualNorm:
    """The norms of the last uploads that were used."""

    excess: float  # an upload may be so many times as long as usual
    _seen: dict[str, deque[float]] = field(default_factory=dict)  # by training

    def limit(self, trial: str, now: Sequence[float] = ()) -> float:
        """The longest that is used: by what peers send now, where they are few by what was usual.

        Rounds get shorter: by the first ones a long upload of the last ones would pass.
        """
        known = [norms for norms in (now, list(self._seen.get(trial, ()))) if len(norms) >= ENOUGH]
        usual = next((m for m in map(statistics.median, known) if m > 0), float("inf"))
        return self.excess * usual

    def add(self, trial: str, norms: Sequence[float]) -> None:
        if trial not in self._seen:
            self._seen.clear()  # one training after the other
        self._seen.setdefault(trial, deque(maxlen=_KEPT)).extend(norms)

    def describe(self, norm: float, limit: float) -> str:
        return f"norm {norm:.4g} is above {limit:.4g}, {self.excess:g} times the usual (excess)"
