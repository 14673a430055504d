"""Counts and latencies for Prometheus, in a registry of their own."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

PATHS = (
    *("/", "/health", "/schema", "/predict", "/what-if", "/card", "/metrics", "/openapi.json"),
    *("/measured", "/monitor"),
)
_METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH")
_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Metrics:
    """What one service has done since it started."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    requests: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    rows: Counter = field(init=False)
    errors: Counter = field(init=False)
    strange: Counter = field(init=False)

    def __post_init__(self) -> None:
        made = {
            "requests": Counter(
                "fedlore_requests",
                "Requests by path, method and status",
                ("path", "method", "status"),
                registry=self.registry,
            ),
            "seconds": Histogram(
                "fedlore_request_seconds",
                "Time from the first byte of a request to the last of its answer",
                ("path",),
                buckets=_BUCKETS,
                registry=self.registry,
            ),
            "rows": Counter(
                "fedlore_rows",
                "Rows answered, by what decided: range, expert, network or both",
                ("decided",),
                registry=self.registry,
            ),
            "errors": Counter(
                "fedlore_errors",
                "Requests that were not answered: 4xx refused, 5xx failed",
                ("kind",),
                registry=self.registry,
            ),
            "strange": Counter(
                "fedlore_rows_outside_scope",
                "Rows outside the scope the expert declared",
                registry=self.registry,
            ),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)
        for kind in ("refused", "failed"):  # a series that is there from the start can be watched
            self.errors.labels(kind)

    def note(self, path: str, method: str, status: int, seconds: float) -> None:
        """One finished request; labels are from fixed lists, so that nobody can grow them."""
        path = path if path in PATHS else "other"
        method = method if method in _METHODS else "other"
        self.requests.labels(path, method, str(status)).inc()
        self.seconds.labels(path).observe(seconds)
        if status >= 400:
            self.errors.labels("failed" if status >= 500 else "refused").inc()

    def answered(self, decided: Iterable[str], outside: int) -> None:
        """Rows of one answered request."""
        for who in decided:
            self.rows.labels(who).inc()
        if outside:
            self.strange.inc(outside)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)
