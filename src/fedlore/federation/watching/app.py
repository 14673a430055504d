"""One read-only page over HTTP: for people, for Prometheus, for probes and for programs."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from html import escape
from importlib.resources import files
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response

from ...bundle.serve.guard import OPEN, Doorkeeper, Receive, Scope, Send
from ...bundle.serve.limits import ServeLimits
from ...bundle.serve.web import Page
from ...look.style import CSS
from .overview import Overview

_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_LIMITS = ServeLimits(body=1, patience=5.0)  # nothing is sent to it


@dataclass(frozen=True)
class Shown:
    """What is watched, in the forms in which it is asked for."""

    title: str
    page: Callable[[], str]  # HTML of what stands in it
    measures: Callable[[], bytes]
    state: Callable[[], Any]  # a dataclass
    ready: Callable[[], bool]


def make_watch(shown: Shown, *, token: str | None, hosts: Sequence[str] | None) -> Doorkeeper:
    """The page and its parts as one application, its guard outermost."""
    app = WatchApp(shown, guarded=token is not None)
    return Doorkeeper(app, _LIMITS, None, token, hosts, without_token=(*OPEN, "/ready"))


class WatchApp:
    """Answers GET and HEAD, and nothing else."""

    def __init__(self, shown: Shown, *, guarded: bool) -> None:
        self._shown, self._guarded = shown, guarded
        folder = files(__package__) / "page"
        html, style, script = (
            (folder / f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
        )
        self._page = Page.join(html, CSS + style, script)
        self._paths: dict[str, Callable[[], Response]] = {
            "/": self._whole,
            "/part": lambda: HTMLResponse(shown.page()),
            "/state.json": lambda: _json(shown.state()),
            "/metrics": lambda: Response(shown.measures(), media_type=_METRICS),
            "/health": lambda: JSONResponse({"status": "ok", "token": guarded}),
            "/ready": self._ready,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        make = self._paths.get(scope["path"])
        if make is None:
            answer: Response = JSONResponse({"error": "there is no such page"}, 404)
        elif scope["method"] not in ("GET", "HEAD"):
            answer = JSONResponse({"error": "this page is read-only"}, 405, {"Allow": "GET, HEAD"})
        else:
            answer = make()
        await answer(scope, receive, send)

    def _whole(self) -> Response:
        # with a token the page comes empty and fills itself once it has been entered
        main = "" if self._guarded else self._shown.page()
        whole = self._page.html.replace("/*title*/", escape(self._shown.title))
        whole = whole.replace("/*main*/", main)
        return HTMLResponse(whole, headers={"Content-Security-Policy": self._page.policy})

    def _ready(self) -> Response:
        ready = self._shown.ready()
        return JSONResponse({"ready": ready}, 200 if ready else 503)


def _json(state: Any) -> Response:
    return Response(json.dumps(as_plain(state), indent=1), media_type="application/json")


def as_plain(value: Any) -> Any:
    """A dataclass as JSON has it: what is not finite is null."""
    if isinstance(value, Overview):  # sites by their names
        return as_plain(vars(value) | {"sites": {site.name: site for site in value.sites}})
    if is_dataclass(value) and not isinstance(value, type):
        return as_plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): as_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
