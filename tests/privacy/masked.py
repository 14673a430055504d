"""A cohort under secure aggregation without any training: given uploads, a lossy post, a spy."""

import hashlib
from dataclasses import dataclass, field

import torch

from fedlore.core.rng import stream
from fedlore.core.wire import Reply, Task
from fedlore.privacy.filters import SiteFilters
from fedlore.privacy.secagg.filter import SecureAggregation


def names(n):
    return [f"site-{i:02d}" for i in range(n)]


def upload(site, *, size=300, scale=1.0):
    g = stream("masked", site)
    return {
        "model": {"w": torch.randn(size, generator=g) * scale, "b": torch.randn(3, generator=g)}
    }


@dataclass
class Given:
    """Clients that upload what they were given."""

    uploads: dict
    rows: dict = field(default_factory=dict)
    metrics: dict = field(default_factory=dict)

    def clients(self):
        return list(self.uploads)

    def exchange(self, task, to):
        for name in to:
            rows = self.rows.get(name, 1)
            yield Reply(name, task.round, self.uploads[name], rows, self.metrics.get(name, {}))


@dataclass
class Wire:
    """What the server sees; it loses or changes replies, and may change what is asked."""

    inner: object
    lose: object = lambda task, name: False
    change: object = lambda task, reply: reply
    ask: object = lambda task: task
    seen: list = field(default_factory=list)

    def clients(self):
        return self.inner.clients()

    def exchange(self, task, to):
        for reply in self.inner.exchange(self.ask(task), to):
            reply = self.change(task, reply)
            self.seen.append((task.kind, reply))
            if not self.lose(task, reply.client):
                yield reply


def counted(seed: int):
    """Entropy that can be had again, for tests alone."""
    at = [0]

    def draw(n):
        at[0] += 1
        found = b"".join(
            hashlib.sha256(f"{seed} {at[0]} {i}".encode()).digest() for i in range(n // 32 + 1)
        )
        return found[:n]

    return draw


@dataclass
class Cohort:
    """Sites, wire and server of one federation."""

    given: Given
    filter: SecureAggregation = field(default_factory=SecureAggregation)
    wire_settings: dict = field(default_factory=dict)

    def __post_init__(self):
        self.wire = Wire(None, **self.wire_settings)
        self.server = self.filter.over(self.wire)
        self.put({name: self.filter.site(name) for name in self.given.clients()})

    def put(self, halves):
        """These halves at the sites."""
        self.halves = halves
        self.wire.inner = SiteFilters(self.given, {n: [h] for n, h in halves.items()}, hides=True)

    def round(self, number=1, kind="train"):
        """The replies that the loop gets."""
        return list(self.server.exchange(Task(kind, number), self.given.clients()))

    def seen(self, kind):
        return {r.client: r for k, r in self.wire.seen if k == kind}


def cohort(n, *, filter=None, rows=None, metrics=None, **wire):
    given = Given({name: upload(name) for name in names(n)}, rows or {}, metrics or {})
    return Cohort(given, filter or SecureAggregation(), wire)
