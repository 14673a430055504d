"""Counts and latencies for Prometheus, in a registry of their own."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

PATHS = (
    *("/", "/health", "/schema", "/predict", "/what-if", "/card", "/metrics", "/openapi.json"),
    *("/measured", "/monitor"),
)
_METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH")
_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """What one service has done since it started."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        about, labels = "Requests by path, method and status", ("path", "method", "status")
        self.requests = Counter("fedlore_requests", about, labels, registry=own)
        about = "Time from the first byte of a request to the last of its answer"
        self.seconds = Histogram(
            "fedlore_request_seconds", about, ("path",), buckets=_BUCKETS, registry=own
        )
        about = "Rows answered, by what decided: range, expert, network or both"
        self.rows = Counter("fedlore_rows", about, ("decided",), registry=own)
        about = "Requests that were not answered: 4xx refused, 5xx failed"
        self.errors = Counter("fedlore_errors", about, ("kind",), registry=own)
        about = "Rows outside the scope the expert declared"
        self.strange = Counter("fedlore_rows_outside_scope", about, registry=own)
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
