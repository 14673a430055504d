"""Inside the service: counts and latencies for Prometheus, and a monitor of measured rows."""

import asyncio
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, Request
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from ...errors import FedloreError
from ..header import Bundle
from ..monitor.facts import QuestionKind
from ..monitor.judge import MonitorReport, judge_record
from ..monitor.record import MeasuredRows, Record
from ..monitor.report import report_values, say_alarms
from .answer import Answerer, describe_route, need_json, one_or_many
from .rows import MeasuredReader, measured_schema

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
        about = "Rows answered, by what decided: range, expert, model or both"
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


class QuestionReply(BaseModel):
    """One thing that is monitored."""

    name: str = Field(description="the rule, the range, the expert, the answers or the input")
    kind: QuestionKind
    rows: int = Field(description="rows, or lots, that say something about it")
    claim: str = Field(description="the claim that is tested")
    seen: str = Field(description="what was counted since it seems false")
    since: str = Field(description="the day, or the row, from which on it seems false")
    evidence: float = Field(description="the most that a stake of 1 against the claim became")
    needed: float = Field(description="what it must come to for an alarm")
    alarm: bool
    advice: str = Field(description="what to do; empty without an alarm")


class MonitorReply(BaseModel):
    """Whether what the bundle says is still true."""

    client: str
    fingerprint: str
    rows: int
    lots: int | None = Field(description="that are complete; null where each row stands for itself")
    late: int = Field(description="rows that came after their lot was closed, and are not judged")
    alarm_rate: float = Field(description="the chance that any claim ever raises a false alarm")
    alarms: list[str] = Field(description="the names of the questions that raise one")
    sentences: list[str] = Field(description="each alarm in a sentence, or that there is none")
    questions: list[QuestionReply]


class RowsTaken(BaseModel):
    """What became of measured rows."""

    new: int = Field(description="rows that were new to the record; the others are ignored")
    rows: int = Field(description="all that are in the record now")


class RecordKeeper:
    """A record that one service writes to; its judgement is made anew when rows have come."""

    def __init__(self, bundle: Bundle, record: Record) -> None:
        self._bundle, self._record = bundle, record
        self._find_no_answer = Answerer.of(bundle).find_no_answer
        self._report: MonitorReport | None = None
        self._one = asyncio.Lock()  # rows are written one request after the other

    @property
    def in_lots(self) -> bool:
        """Whether each row must name its lot."""
        return self._record.in_lots

    async def take(self, rows: MeasuredRows) -> dict[str, int]:
        """Record new rows; they are on the disk before the answer is sent."""
        async with self._one:
            try:
                new = await asyncio.to_thread(self._record.append, self._bundle, rows)
            except FedloreError:  # nothing was written: facts come first
                raise self._find_no_answer(rows.x) from None
            self._report = None if new else self._report
            return {"new": new, "rows": len(self._record.rows)}

    async def report(self) -> MonitorReport:
        """The judgement on all rows so far."""
        async with self._one:
            if self._report is None:
                self._report = await asyncio.to_thread(judge_record, self._record)
            return self._report


def add_monitor(
    app: FastAPI, bundle: Bundle, keeper: RecordKeeper, *, most: int, guarded: bool
) -> None:
    """The routes of a monitor: `POST /measured` and `GET /monitor`."""
    schema, number = bundle.schema, bundle.task == "regression"
    reader = MeasuredReader(schema, number, most, keeper.in_lots)
    one = measured_schema(schema, number=number, in_lots=keeper.in_lots)
    rows = describe_route(guarded=guarded, body=one_or_many("MeasuredRows", one, most))
    about = {"client": bundle.client, "fingerprint": bundle.fingerprint}

    @app.post("/measured", response_model=RowsTaken, **rows)
    async def measured(request: Request) -> Response:
        """Rows with what was measured of them, as the laboratory delivers them."""
        need_json(request)
        return JSONResponse(await keeper.take(reader.read(await request.body())))

    @app.get("/monitor", response_model=MonitorReply, **describe_route(guarded=guarded))
    async def monitor() -> Response:
        """Whether rules, range, expert, answers and inputs are still what they were."""
        report = await keeper.report()
        values: dict[str, Any] = report_values(report)
        del values["new"]  # what is new is said to whoever brought it
        return JSONResponse({**about, **values, "sentences": say_alarms(report)})
