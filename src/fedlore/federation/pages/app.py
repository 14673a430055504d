"""One read-only page over HTTP: for people, for Prometheus, for probes and for programs."""

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response

from ...bundle.serve.guard import (
    OPEN,
    Doorkeeper,
    Page,
    Receive,
    Scope,
    Send,
    ServeLimits,
    check_host,
    names_of,
)
from ...bundle.serve.server import showing
from ...errors import ConfigError
from ...look.page import CSS
from ...look.tables import plain_values
from .coordinator import Brief, brief_overview, overview_changes, show_overview
from .overview import Watcher, measure
from .site import SiteWatcher, brief_site, measure_site, show_site, site_changes

_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_LIMITS = ServeLimits(body=1, patience=5.0)  # nothing is sent to it


@dataclass(frozen=True)
class Shown:
    """What is watched, in the forms in which it is asked for."""

    look: Callable[[], Any]  # what is seen now: a dataclass with a name
    page: Callable[[Any], str]  # it as HTML
    measures: Callable[[Any], bytes]
    ready: Callable[[Any], bool]
    brief: Callable[[Any], Brief]
    changes: Callable[[Any, Any], list[str]]  # from one look to the next


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
            "/part": lambda: HTMLResponse(shown.page(shown.look())),
            "/state.json": lambda: Response(
                json.dumps(as_plain(shown.look()), indent=1), media_type="application/json"
            ),
            "/metrics": lambda: Response(shown.measures(shown.look()), media_type=_METRICS),
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
        seen = self._shown.look()
        main = "" if self._guarded else self._shown.page(seen)
        whole = self._page.html.replace("/*title*/", escape(seen.name))
        whole = whole.replace("/*main*/", main)
        return HTMLResponse(whole, headers={"Content-Security-Policy": self._page.policy})

    def _ready(self) -> Response:
        ready = self._shown.ready(self._shown.look())
        return JSONResponse({"ready": ready}, 200 if ready else 503)


def as_plain(seen: Any) -> Any:
    """What is seen as JSON has it, sites by their names."""
    found = plain_values(seen)
    if "sites" in found:
        found["sites"] = {site["name"]: site for site in found["sites"]}
    return found


@dataclass(frozen=True)
class PagePlace:
    """Where a page is shown: host:port, a port alone for loopback."""

    host: str
    port: int
    asked: bool = True  # False: another port will do as well

    @staticmethod
    def read(text: str) -> "PagePlace":
        """
        >>> PagePlace.read("9464"), PagePlace.read("[::1]:80").host
        (PagePlace(host='127.0.0.1', port=9464, asked=True), '::1')
        """
        host, colon, port = text.rpartition(":")
        if not port.isdigit() or int(port) > 65535:
            raise ConfigError(f"a page is shown at a port or at host:port, got '{text}'")
        return PagePlace(host.strip("[]") if colon else "127.0.0.1", int(port))


USUAL_PAGE = PagePlace("127.0.0.1", 8764, asked=False)


def watch_folder(folder: Path) -> Shown:
    """What there is to show of a coordinator's folder, or of a site's."""
    if (folder / "federation.toml").exists():
        look, up = Watcher(folder).look, lambda seen: bool(seen.server == "up")
        return Shown(look, show_overview, measure, up, brief_overview, overview_changes)
    if (folder / "site.toml").exists():
        look_at_site, joined = SiteWatcher(folder).look, lambda seen: bool(seen.joined)
        return Shown(look_at_site, show_site, measure_site, joined, brief_site, site_changes)
    raise ConfigError(
        f"'{folder}' holds neither a federation.toml (a coordinator's folder) nor a site.toml (a "
        "site's kit, which it joined with)"
    )


@contextmanager
def showing_folder(
    folder: Path, place: PagePlace, *, token: str | None, say: Callable[[str], None]
) -> Iterator[str]:
    """The page of a folder while something else is done; its address."""
    check_host(place.host, token=token, insecure=False)
    names = names_of(place.host, token=token, insecure=False)
    app = make_watch(watch_folder(folder), token=token, hosts=names)
    port = place.port if place.asked or _is_free(place) else 0
    with showing(app, host=place.host, port=port) as address:
        say(f"status page at {address}/")
        yield address


def _is_free(place: PagePlace) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((place.host, place.port)) != 0
