"""How long uploads usually are: one far longer than its peers' and those before is not used.

A median bears any upload of less than half of the sites. Without three norms to compare with
nothing is said, and each training of several has norms of its own.
"""

import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..core.wire import Reply, Task, Transport, longest
from .remote import Notice, OnNotice, QuorumLost

_KEPT = 40  # norms that are remembered
_ENOUGH = 3


@dataclass
class UsualNorm:
    """The norms of the last uploads that were used."""

    excess: float  # an upload may be so many times as long as usual
    _seen: dict[str, deque[float]] = field(default_factory=dict)  # by training

    def limit(self, trial: str, now: Sequence[float] = ()) -> float:
        """The longest that is used: beyond both what was usual and what peers send now."""
        known = [norms for norms in (list(self._seen.get(trial, ())), now) if len(norms) >= _ENOUGH]
        usual = max(map(statistics.median, known), default=0.0)
        return self.excess * usual if usual else float("inf")

    def add(self, trial: str, norms: Sequence[float]) -> None:
        if trial not in self._seen:
            self._seen.clear()  # one training after the other
        self._seen.setdefault(trial, deque(maxlen=_KEPT)).extend(norms)

    def describe(self, norm: float, limit: float) -> str:
        return f"norm {norm:.4g} is above {limit:.4g}, {self.excess:g} times the usual (excess)"


@dataclass(frozen=True)
class AmongPeers:
    """A transport whose uploads are compared with each other and with those before.

    Of a sum it cannot be told whose upload was too long: such a round is void.
    """

    transport: Transport
    usual: UsualNorm
    quorum: int
    watch: OnNotice

    def clients(self) -> Sequence[str]:
        return self.transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        replies = list(self.transport.exchange(task, to))
        yield from self._judge(task, replies) if task.kind == "train" else replies

    def _judge(self, task: Task, replies: Sequence[Reply]) -> list[Reply]:
        norms = {reply.client: longest(reply.upload) for reply in replies}
        summed = any(reply.members for reply in replies)
        limit = self.usual.limit(task.trial, () if summed else list(norms.values()))
        good = [reply for reply in replies if norms[reply.client] <= limit]
        for name in sorted(norms.keys() - {reply.client for reply in good}):
            why = self.usual.describe(norms[name], limit)
            if summed:
                raise QuorumLost(f"round {task.round}: {name} cannot be used: {why}")
            self.watch(Notice("rejected", name, task.round, task.kind, why))
        if len(good) < len(replies) and len(good) < self.quorum:
            raise QuorumLost(
                f"round {task.round}: {len(good)} uploads are of a usual norm, the quorum is "
                f"{self.quorum}"
            )
        self.usual.add(task.trial, [norms[reply.client] for reply in good])
        return good
