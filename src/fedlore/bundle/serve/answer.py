"""Rows in, answers as JSON out; rows that wait are answered in one batch."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from http import HTTPStatus
from itertools import compress
from typing import Any, Literal, TypeVar

import torch
from fastapi import Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from torch import Tensor

from ...core.conformal import CoveragePromise
from ...errors import FedloreError
from ...knowledge.sources.kind import Reasons
from ...models.answers import DECIDED, Answers
from ...models.doubt import can_doubt
from .. import Bundle
from ..change import change_reason, nearest_changes
from ..explain import answer_with_reasons, moved_by
from ..predict import answer_rows, doubt_rows, stored_holding
from ..store import bundle_on

Who = Literal["range", "expert", "model", "both"]
SERVED_LEVEL = 0.9  # of the sets and intervals that are answered


class RowAnswer(BaseModel):
    """What is predicted for one row, what was possible, and why."""

    predicted: str | float = Field(description="the class, or the number")
    probabilities: dict[str, float] = Field(
        description="of each class (of each bin, for a number); exactly 0 outside the range"
    )
    allowed: list[str] = Field(description="the classes (bins) that the range allows")
    low: float | None = Field(description="of a number: the least that the range allows")
    high: float | None = Field(description="of a number: the greatest that the range allows")
    interval: tuple[float, float] | None = Field(
        description="of a number: where it lies with 90 % of the probability, inside the range"
    )
    held: list[str] | tuple[float, float] | None = Field(
        description="the classes, or the interval, that hold as /card says; null where the bundle "
        "promises nothing"
    )
    noise: float | None = Field(
        description="standard deviation of one test, in classes or units of the number; null where "
        "the model cannot tell"
    )
    ignorance: float | None = Field(
        description="standard deviation of the model's mean; null likewise"
    )
    far: bool | None = Field(
        description="whether ignorance is the larger: the row is unlike the training data"
    )
    expert: str | float | None = Field(
        description="the expert's own prediction; null if he names no single one"
    )
    decided: Who = Field(
        description="the range left one answer, the expert outweighed the model, the model "
        "decided, or both said the same or were mixed"
    )
    trust: float = Field(ge=0, le=1, description="λ that was used; 0 where the expert is silent")
    in_scope: bool = Field(description="whether the row lies where the expert declared")
    reasons: list[str] = Field(description="the rules that limited the range, who decided, why")


class Prediction(BaseModel):
    """The answers in the order of the rows."""

    client: str
    fingerprint: str = Field(description="SHA-256 of the bundle that answered")
    as_of: str | None = Field(
        None, description="the day whose rules count; only where rules have dates"
    )
    answers: list[RowAnswer]


class InputChangeReply(BaseModel):
    """A value of one input, the others as they are, that brings another answer."""

    input: str
    value: str | float
    predicted: str | float


class WhatIf(BaseModel):
    """How another answer could be had of a row."""

    changes: list[InputChangeReply] = Field(
        description="of each input the nearest value found with another answer, the least first"
    )
    sentences: list[str] = Field(description="what moved the answer most, the smallest change")


class Problem(BaseModel):
    """Why a request was not answered."""

    error: str
    row: int | None = Field(None, description="the row of the request, from 1")
    column: str | None = None


class NoAnswer(FedloreError):
    """Well-formed rows for which the knowledge contradicts itself."""

    kind = "no-answer"

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


@dataclass(frozen=True)
class Answerer:
    """A bundle made ready to answer rows of JSON numbers."""

    bundle: Bundle
    kind: torch.dtype  # of the network
    holding: CoveragePromise | None = None  # what its sets and intervals promise
    doubts: bool = False  # whether it can tell noise from ignorance

    @staticmethod
    def of(bundle: Bundle) -> "Answerer":
        inner = bundle.personal.inner
        return Answerer(
            bundle,
            next(inner.model.parameters()).dtype,
            stored_holding(bundle, SERVED_LEVEL),
            can_doubt(bundle.personal, bundle.schema),
        )

    @torch.inference_mode()  # a sixth faster than without gradients alone, for a single row
    def __call__(self, x: Tensor) -> tuple[list[dict[str, Any]], Answers]:
        """Rows in raw units, (n, d) float64, -> values for JSON, and the columns they came from."""
        x = x.to(self.kind)
        try:
            found, why = answer_with_reasons(self.bundle, x)
        except FedloreError:  # such as a lower bound above the upper one
            raise self.find_no_answer(x) from None
        replies = write_answers(self.bundle, found, why)
        for row, more in zip(replies, self._more(x, found), strict=True):
            row |= more
        return replies, found

    def _more(self, x: Tensor, found: Answers) -> list[dict[str, Any]]:
        """Of each row what holds, and noise and ignorance, as far as the bundle can say."""
        n, classes = len(found), self.bundle.schema.classes
        held: list[Any] = [None] * n
        if self.holding is not None:
            held = found.hold(self.holding.cut).tolist()
            if found.interval is None:
                held = [list(compress(classes, row)) for row in held]
        doubt = doubt_rows(self.bundle, x) if self.doubts else None
        if doubt is None:
            return [{"held": h, "noise": None, "ignorance": None, "far": None} for h in held]
        both = zip(held, doubt.noise.tolist(), doubt.ignorance.tolist(), strict=True)
        return [{"held": h, "noise": a, "ignorance": b, "far": b > a} for h, a, b in both]

    def find_no_answer(self, x: Tensor) -> NoAnswer:
        """The first row without an answer, found by halving, and what is said about it alone."""
        first, last = 0, len(x)
        while last - first > 1:
            middle = (first + last) // 2
            try:
                answer_rows(self.bundle, x[first:middle])
            except FedloreError:
                last = middle
            else:
                first = middle
        try:
            answer_rows(self.bundle, x[first:last])
        except FedloreError as error:
            return NoAnswer(f"row {first + 1}: the knowledge has no answer: {error}", first + 1)
        return NoAnswer("the knowledge has no answer")

    @torch.inference_mode()
    def what_if(self, x: Tensor) -> dict[str, Any]:
        """What moved the answer of one row (1, d), and the nearest changes to another one."""
        x = x.to(self.kind)
        try:
            moved = moved_by(self.bundle, x, answer_rows(self.bundle, x))[0]
            changes = nearest_changes(self.bundle, x[0])
        except FedloreError:
            raise self.find_no_answer(x) from None
        schema, classes = self.bundle.schema, self.bundle.task == "classification"
        listed = []
        for one in changes:
            levels = schema.features[one.column].levels
            answer = schema.classes[int(one.predicted)] if classes else one.predicted
            value = levels[int(one.value)] if levels else one.value
            listed.append({"input": schema.names[one.column], "value": value, "predicted": answer})
        said = [*moved, change_reason(self.bundle, x[0], changes)]
        return {"changes": listed, "sentences": [one.text for one in said]}


class DayAnswerer:
    """The answerer of the day of each question; of a bundle without dates it is always the same."""

    def __init__(self, bundle: Bundle, as_of: date | None = None) -> None:
        self._day, self._now = as_of, Answerer.of(bundle)

    @property
    def now(self) -> Answerer:
        """As of today, or the day that was fixed; on a new day rules may begin or end."""
        try:
            bundle = bundle_on(self._now.bundle, self._day)
        except FedloreError as error:  # such as members who hear what is valid no more
            raise NoAnswer(str(error)) from None
        if bundle is not self._now.bundle:
            self._now = Answerer.of(bundle)
        return self._now

    @property
    def about(self) -> dict[str, str]:
        """The day that an answer is as of, where that makes a difference."""
        timeline = self.now.bundle.timeline
        return {} if timeline is None else {"as_of": timeline.day.isoformat()}

    def __call__(self, x: Tensor) -> tuple[list[dict[str, Any]], Answers]:
        return self.now(x)

    def what_if(self, x: Tensor) -> dict[str, Any]:
        return self.now.what_if(x)


def write_answers(bundle: Bundle, found: Answers, why: Reasons) -> list[dict[str, Any]]:
    """Answers as values of `RowAnswer`, a dictionary for each row; reasons not yet in words."""
    classes, nothing = bundle.schema.classes, [None] * len(found)
    ends = {"low": found.low, "high": found.high, "interval": found.interval}
    predicted, expert = found.predicted.tolist(), found.expert.tolist()
    if found.low is None:  # of a class there is no least and greatest
        predicted = [classes[place] for place in predicted]
        expert = [classes[place] if place >= 0 else None for place in expert]
    else:  # a number he did not name is NaN
        expert = [None if number != number else number for number in expert]
    columns = {
        "predicted": predicted,
        "probabilities": (dict(zip(classes, p, strict=True)) for p in found.probabilities.tolist()),
        "allowed": (list(compress(classes, row)) for row in found.allowed.tolist()),
        **{name: nothing if end is None else end.tolist() for name, end in ends.items()},
        "expert": expert,
        "decided": (DECIDED[place] for place in found.decided.tolist()),
        # 0.3 and not the 0.30000001 of float32
        "trust": (round(trust, 6) for trust in found.trust.tolist()),
        "in_scope": found.in_scope.tolist(),
        "reasons": why,
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def in_words(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with its reasons as texts, in the language of whoever asks."""
    return answer | {"reasons": [one.text for one in answer["reasons"]]}


#: Rows that are answered in the event loop. More go to a thread, so that others need not wait.
DIRECT = 32

_Made = TypeVar("_Made")
_Reply = tuple[list[dict[str, Any]], Sequence[bool]]  # values for JSON, and whether in scope


class Batcher:
    """The queue before a bundle; it belongs to one event loop.

    A request that comes alone is answered at once and alone. Those that arrive while another is
    being answered wait for it, and then share one pass through knowledge and network.
    """

    def __init__(self, answering: Answerer | DayAnswerer) -> None:
        self._answering = answering
        self._waiting: list[tuple[Tensor, asyncio.Future[_Reply]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._many = asyncio.Lock()

    async def __call__(self, x: Tensor) -> _Reply:
        """Answers for rows in raw units, (n, d)."""
        if len(x) > DIRECT:
            return _reply(*await self.aside(self._answering, x))
        answer: asyncio.Future[_Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((x, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def aside(self, work: Callable[[Tensor], _Made], x: Tensor) -> _Made:
        """Long work in a thread, so that others need not wait."""
        async with self._many:  # two at once would only fight for the interpreter
            return await asyncio.to_thread(work, x)

    async def _work(self) -> None:
        while self._waiting:
            rows, some = 0, []
            while self._waiting and rows + len(self._waiting[0][0]) <= DIRECT:
                some.append(self._waiting.pop(0))
                rows += len(some[-1][0])
            self._answer(some)
            await asyncio.sleep(0)  # let answers out and new requests in

    def _answer(self, some: list[tuple[Tensor, asyncio.Future[_Reply]]]) -> None:
        try:
            values, scope = _reply(*self._answering(torch.cat([x for x, _ in some])))
        except NoAnswer as error:
            if len(some) > 1:  # one request's bad row is no other's business
                for one in some:
                    self._answer([one])
                return
            _resolve(some[0][1], error)
        except Exception as error:  # each asker gets the failure, and the queue goes on
            for _, answer in some:
                _resolve(answer, error)
        else:
            start = 0
            for x, answer in some:
                end = start + len(x)
                _resolve(answer, (values[start:end], scope[start:end]))
                start = end


def _resolve(answer: "asyncio.Future[_Reply]", result: _Reply | Exception) -> None:
    if answer.done():  # whoever asked has left
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _reply(values: list[dict[str, Any]], found: Answers) -> _Reply:
    return values, found.in_scope.tolist()


def describe_route(*, guarded: bool, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What OpenAPI says of a route: its body, its refusals, and whether it needs the token."""
    codes = (401, 408, 409, 413, 415, 421, 422) if body else (401, 413, 421)
    more: dict[str, Any] = {"security": [{"bearer": []}]} if guarded else {}
    if body:
        more["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return {"responses": problems(*codes), "openapi_extra": more}


def one_or_many(title: str, one: dict[str, Any], most: int) -> dict[str, Any]:
    """JSON Schema of one thing, or of a list of so many."""
    several = {"type": "array", "items": one, "minItems": 1, "maxItems": most}
    return {"title": title, "anyOf": [one, several]}


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of refusals."""
    return {code: {"model": Problem, "description": HTTPStatus(code).phrase} for code in codes}


def need_json(request: Request) -> None:
    """Refuse a body that says to be anything but JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # also what keeps other web pages out: a browser asks before it sends this type
        raise HTTPException(415, "the body must be application/json")
