"""The door: who may ask, how much, for how long; what every answer carries, and the page.

A plain ASGI layer around the application, so that nothing reaches it unchecked.
"""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import logging
import re
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from starlette.responses import JSONResponse

from ...errors import ConfigError, FedloreError
from ...look.page import THEME
from ...words import TAGS, read_language

SHORTEST = 16  # characters of a token


@dataclass(frozen=True)
class ServeLimits:
    """How much one request may ask for."""

    body: int = 1_000_000  # bytes
    rows: int = 1_000
    patience: float = 10.0  # seconds until a body must have arrived

    def __post_init__(self) -> None:
        for name in ("body", "rows"):
            if getattr(self, name) < 1:
                raise ConfigError(f"max-{name} must be at least 1, got {getattr(self, name)}")


def bytes_of(text: str) -> int:
    """A size such as 1MB, 512KB or 100000.

    >>> bytes_of("1MB"), bytes_of("64 kb"), bytes_of("900")
    (1000000, 64000, 900)
    """
    found = re.fullmatch(r"(\d+)\s*([kmg]?)b?", text.strip().lower())
    if found is None:
        raise ConfigError(f"a size must be a whole number with B, KB, MB or GB, got '{text}'")
    return int(found[1]) * {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}[found[2]]


def read_token(file: Path | None, environment: str | None) -> str | None:
    """The bearer token of a file, else of the environment, None where there is neither."""
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FedloreError(f"cannot read the token file '{file}': {error}") from None
    elif environment is not None:
        token = environment.strip()
    else:
        return None
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"a token must have at least {SHORTEST} ASCII characters without blanks, this one has "
            f"{len(token)}"
        )
    return token


def is_loopback(host: str) -> bool:
    """Whether every address of a host name is reachable from this machine only."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise FedloreError(f"the host '{host}' has no address: {error.strerror}") from None
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)


def check_host(host: str, *, token: str | None, insecure: bool) -> None:
    """Refuse to show a site's model to a network unless it is guarded, or asked for in words."""
    if token is None and not insecure and not is_loopback(host):
        raise FedloreError(
            f"'{host}' can be reached from other machines: set a token (--token-file, or "
            "FEDLORE_TOKEN), or say --insecure"
        )


def names_of(host: str, *, token: str | None, insecure: bool) -> Sequence[str] | None:
    """The names a request may use for this service; None for any.

    Without a token, a web page of somebody else could point its own name at the loopback address
    and so ask on behalf of the person who looks at it.
    """
    if token is not None or insecure:
        return None
    return ("localhost", "127.0.0.1", "::1", host)


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


@dataclass(frozen=True)
class Page:
    """The page and the policy under which a browser shows it."""

    html: str
    policy: str

    @staticmethod
    def read() -> "Page":
        """The page as it is sent; only this very style and this very script may run in it."""
        folder = files(__package__) / "page"
        html, style, monitor, script = (
            (folder / name).read_text(encoding="utf-8")
            for name in ("page.html", "page.css", "monitor.js", "page.js")
        )
        script += monitor
        own = {
            tag: {
                english: text
                for english, text in read_language(tag).texts.items()
                if english in html + script
            }
            for tag in TAGS
        }
        return Page.join(html, THEME + style, script.replace("/*texts*/{}", json.dumps(own)))

    @staticmethod
    def join(html: str, style: str, script: str) -> "Page":
        """Style and script put into the places that the page has for them."""
        whole = html.replace("/*style*/", style).replace("/*script*/", script)
        policy = (
            f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        return Page(whole, policy)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
