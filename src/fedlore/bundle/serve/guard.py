"""The door: who may ask, how much, for how long; and what every answer carries.

A plain ASGI layer around the application, so that nothing reaches it unchecked.
"""

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.responses import JSONResponse

from .limits import ServeLimits

Scope = MutableMapping[str, Any]
_Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[_Message]]
Send = Callable[[_Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: What can be had without the token: a page without data, and a sign of life.
OPEN = ("/", "/health")

_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_log = logging.getLogger("fedlore")


class Recorder(Protocol):
    """Whoever counts requests."""

    def note(self, path: str, method: str, status: int, seconds: float) -> None: ...


class _Gone(Exception):
    """The client left before its request was complete."""


@dataclass(frozen=True)
class Doorkeeper:
    """An application behind host names, a token, a size and a patience."""

    app: App
    limits: ServeLimits
    measures: Recorder | None = None
    token: str | None = None
    hosts: Sequence[str] | None = None
    without_token: Sequence[str] = OPEN  # what holds no data of the site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def answer(message: _Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_ALWAYS]
            await send(message)

        try:
            await self._admit(scope, receive, answer)
        except _Gone:
            return
        except Exception:  # a fault of ours: the log gets the trace, the client a sentence
            _log.exception("a request failed")
            if not status:
                await _refuse(500, "the service failed to answer")(scope, receive, answer)
        finally:
            if status and self.measures is not None:
                spent = time.perf_counter() - began
                self.measures.note(scope["path"], scope["method"], status, spent)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        refusal = self._checked(scope["path"], headers)
        if refusal is None:
            try:
                async with asyncio.timeout(self.limits.patience):
                    body = await self._body(receive)
            except TimeoutError:
                body = None
                refusal = _refuse(408, f"the body took over {self.limits.patience:g} seconds")
            else:
                if body is None:
                    refusal = self._too_large()
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        assert body is not None
        await self.app(scope, _replay(body, receive), send)

    def _checked(self, path: str, headers: dict[bytes, bytes]) -> JSONResponse | None:
        """What speaks against a request before its body is looked at."""
        if self.hosts is not None and _host(headers.get(b"host", b"")) not in self.hosts:
            return _refuse(421, "this name is not one of this service: ask it as localhost")
        if self.token is not None and path not in self.without_token:
            if not _same(headers.get(b"authorization", b""), self.token):
                return _refuse(401, "a bearer token is needed", {"WWW-Authenticate": "Bearer"})
        said = headers.get(b"content-length", b"0")
        if not said.isdigit() or int(said[:20]) > self.limits.body:
            return self._too_large()
        return None

    def _too_large(self) -> JSONResponse:
        return _refuse(413, f"a body may have {self.limits.body} bytes, this one has more")

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body, also one that is sent in pieces; None once it is too large."""
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            part = message.get("body", b"")
            size += len(part)
            if size > self.limits.body:
                return None
            parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more for the application; after it, whatever really comes."""
    done = False

    async def again() -> _Message:
        nonlocal done
        if done:
            return await receive()
        done = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _refuse(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    # the rest of a body may still be under way: it is not worth reading
    closing = {"Connection": "close", **(headers or {})}
    return JSONResponse({"error": text, "row": None, "column": None}, status, headers=closing)


def _same(authorization: bytes, token: str) -> bool:
    kind, _, said = authorization.partition(b" ")
    # hashed first, so that the time to compare says nothing about the length either
    given, wanted = (hashlib.sha256(t).digest() for t in (said.strip(), token.encode()))
    return hmac.compare_digest(given, wanted) and kind.lower() == b"bearer"


def _host(header: bytes) -> str:
    """The name of a Host header, without port and brackets."""
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]
