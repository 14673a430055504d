"""The HTTP service of one bundle: predict, card, health, measures, and one page for people."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

from ...data.rows.strict import Unusable
from ...knowledge.shapes.shape import promised_shapes
from ...words import LANGUAGE, pick_language
from .. import Bundle
from ..monitor.record import Record
from ..monitor.report import report_metrics
from ..predict import stored_holding
from .answer import (
    SERVED_LEVEL,
    Batcher,
    DayAnswerer,
    NoAnswer,
    Prediction,
    WhatIf,
    describe_route,
    in_words,
    need_json,
    one_or_many,
    problems,
)
from .guard import Doorkeeper, Page, ServeLimits
from .monitor import Metrics, RecordKeeper, add_monitor
from .rows import Reader, row_schema

_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Health(BaseModel):
    """A sign of life."""

    status: str
    token: bool  # whether the rest needs a bearer token


class ColumnInfo(BaseModel):
    """One feature of a row."""

    name: str
    unit: str
    low: float | None  # the scope the expert declared; null without one
    high: float | None
    levels: list[str]
    missing: bool  # whether null may stand for it
    other: bool  # whether a level that is not named may stand for it
    column: str | None  # its title in data files, which may stand for its name


class TargetInfo(BaseModel):
    """The number that is predicted: its unit, and the bounds that it never leaves."""

    unit: str
    lower: float
    upper: float


class Form(BaseModel):
    """What a row must have."""

    client: str
    task: str
    label: str
    classes: list[str]
    features: list[ColumnInfo]
    target: TargetInfo | None  # null where classes are predicted
    promise: str | None  # of what is held; null where nothing is promised
    max_rows: int
    monitored: bool  # whether measured rows are taken: POST /measured, GET /monitor


class BundleIdentity(BaseModel):
    """Whose model this is, and how it did."""

    client: str
    task: str
    created: str
    fingerprint: str
    versions: dict[str, str]
    metrics: dict[str, float]
    promises: list[str]  # what its sets and intervals hold, and for whom
    shapes: list[str]  # in which direction features can move the answer
    dates: list[str]  # as of which day it answers, and when its rules run out
    card: str  # Markdown


def make_app(
    bundle: Bundle,
    *,
    limits: ServeLimits | None = None,
    token: str | None = None,
    hosts: Sequence[str] | None = None,
    record: Record | None = None,
    as_of: date | None = None,
) -> Doorkeeper:
    """The whole service as one ASGI application, its guard outermost.

    Where rules have dates it answers as of today, whatever day that has become, or always as of
    the day that is given.
    Without a token everything is open to whoever can connect. `hosts` are the names a request may
    use for this service, None for any. With a record measured rows are taken in and monitored.
    """
    limits = limits or ServeLimits()
    measures, guarded = Metrics(), token is not None
    answerer = DayAnswerer(bundle, as_of)
    keeper = None if record is None else RecordKeeper(bundle, record)
    app = FastAPI(
        title=f"fedlore: {bundle.client}",
        version=bundle.fingerprint[:12],
        description="One site's personal model. A class outside the expert's range has "
        "probability exactly 0.",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(_set_language)],
    )
    _handle_errors(app)
    _describe(app, answerer, limits, measures, keeper, guarded=guarded)
    _predict(app, answerer, limits, measures, guarded=guarded)
    if keeper is not None:
        add_monitor(app, bundle, keeper, most=limits.rows, guarded=guarded)
    _complete_openapi(app.openapi(), guarded=guarded)
    return Doorkeeper(app, limits, measures, token, hosts)


async def _set_language(request: Request) -> None:
    """Reasons in the language that is asked for."""
    LANGUAGE.set(pick_language(request.headers.get("accept-language", "")))


def _describe(
    app: FastAPI,
    answerer: DayAnswerer,
    limits: ServeLimits,
    measures: Metrics,
    keeper: RecordKeeper | None,
    *,
    guarded: bool,
) -> None:
    """What can be asked about the service itself."""
    bundle = answerer.now.bundle
    page, form = Page.read(), _form(bundle, limits) | {"monitored": keeper is not None}
    alive = {"status": "ok", "token": guarded}

    @app.get("/", response_class=HTMLResponse, responses=problems(413, 421))
    async def people() -> Response:
        """A page where a person types or pastes a row; it holds no data of the site."""
        return HTMLResponse(page.html, headers={"Content-Security-Policy": page.policy})

    @app.get("/health", response_model=Health, responses=problems(413, 421))
    async def health() -> Response:
        """Whether the service is there; open to all."""
        return JSONResponse(alive)

    @app.get("/schema", response_model=Form, **describe_route(guarded=guarded))
    async def schema() -> Response:
        """The columns of a row with units and scope, and the classes."""
        return JSONResponse(form | {"promise": _promise(bundle)})

    @app.get("/card", response_model=BundleIdentity, **describe_route(guarded=guarded))
    async def card() -> Response:
        """Whose model this is, what it knows and how it scored."""
        return JSONResponse(_identity(answerer.now.bundle))

    about = describe_route(guarded=guarded)
    about["responses"][200] = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @app.get("/metrics", response_class=Response, **about)
    async def metrics() -> Response:
        """Counts and latencies for Prometheus, and what is monitored."""
        monitored = "" if keeper is None else report_metrics(await keeper.report(), bundle.client)
        return Response(measures.text() + monitored.encode(), media_type=_METRICS)


def _predict(
    app: FastAPI, answerer: DayAnswerer, limits: ServeLimits, measures: Metrics, *, guarded: bool
) -> None:
    bundle = answerer.now.bundle
    schema = bundle.schema
    reader = Reader(schema, limits.rows)
    answering = Batcher(answerer)
    row = row_schema(schema)
    rows = describe_route(guarded=guarded, body=one_or_many("Rows", row, limits.rows))

    @app.post("/predict", response_model=Prediction, **rows)
    async def predict(request: Request) -> Response:
        """Answers for one row, an object of columns, or for a list of rows."""
        need_json(request)
        x = reader.read(await request.body())
        found, scope = await answering(x)
        measures.answered((one["decided"] for one in found), len(scope) - sum(scope))
        about = {"client": bundle.client, "fingerprint": bundle.fingerprint} | answerer.about
        return JSONResponse({**about, "answers": [in_words(one) for one in found]})

    @app.post("/what-if", response_model=WhatIf, **describe_route(guarded=guarded, body=row))
    async def what_if(request: Request) -> Response:
        """What moved the answer of one row, and the smallest changes to another answer."""
        need_json(request)
        x = Reader(schema, 1).read(await request.body())
        return JSONResponse(await answering.aside(answerer.what_if, x))


def _form(bundle: Bundle, limits: ServeLimits) -> dict[str, Any]:
    schema = bundle.schema
    features = [f.describe() | {"missing": f.may_miss} for f in schema.features]
    return {
        "client": bundle.client,
        "task": bundle.task,
        "label": schema.label,
        "classes": list(schema.classes),
        "features": features,
        "target": _target(bundle),
        "max_rows": limits.rows,
    }


def _promise(bundle: Bundle) -> str | None:
    holding = stored_holding(bundle, SERVED_LEVEL)
    return None if holding is None else holding.sentence()


def _target(bundle: Bundle) -> dict[str, Any] | None:
    bins = bundle.personal.bins
    if bins is None:
        return None
    return {"unit": bundle.schema.unit, "lower": bins.lower, "upper": bins.upper}


def _identity(bundle: Bundle) -> dict[str, Any]:
    dated = bundle.timeline
    return {
        "client": bundle.client,
        "task": bundle.task,
        "created": bundle.created,
        "fingerprint": bundle.fingerprint,
        "versions": dict(bundle.versions),
        "metrics": dict(bundle.metrics),
        "promises": [one.sentence() for one in bundle.holdings],
        "shapes": promised_shapes(bundle.personal.knowledge),
        "dates": [] if dated is None else [dated.sentence, *dated.warnings],
        "card": bundle.card,
    }


def _handle_errors(app: FastAPI) -> None:
    """Every refusal in one shape, and never more than a sentence."""

    @app.exception_handler(Unusable)
    async def unusable(_: Request, error: Unusable) -> Response:
        return JSONResponse({"error": str(error), "row": error.row, "column": error.column}, 422)

    @app.exception_handler(NoAnswer)
    async def silent(_: Request, error: NoAnswer) -> Response:
        return JSONResponse({"error": str(error), "row": error.row, "column": None}, 409)

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        body = {"error": str(error.detail), "row": None, "column": None}
        return JSONResponse(body, error.status_code, headers=error.headers)


def _complete_openapi(description: dict[str, Any], *, guarded: bool) -> None:
    """What FastAPI does not say by itself: problems are JSON everywhere, and there is a token."""
    for operations in description["paths"].values():
        for operation in operations.values():
            for code, answer in operation["responses"].items():
                if int(code) >= 400:
                    answer["content"] = {"application/json": next(iter(answer["content"].values()))}
    if guarded:
        description["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"}
        }
