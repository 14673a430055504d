"""The studio as one ASGI application: a page, its modules, and what they ask."""

from collections.abc import Callable, Sequence
from importlib.resources import files

from fastapi import Depends, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from ..bundle.serve.guard import OPEN, Doorkeeper, ServeLimits, check_host, names_of
from ..bundle.serve.server import run_app
from ..errors import FedloreError
from ..look.page import THEME
from ..words import LANGUAGE, pick_language
from .draft import Stale, Workplace, Workspace
from .routes import add_routes

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
}
#: Nothing from elsewhere, nothing inline: whatever a table says, it cannot become code.
STUDIO_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
STUDIO_LIMITS = ServeLimits(body=32_000_000, patience=30.0)


def make_studio(
    workspace: Workspace, *, token: str | None = None, hosts: Sequence[str] | None = None
) -> Doorkeeper:
    """The whole studio of one site, its guard outermost."""
    app = FastAPI(
        title=f"fedlore studio: {workspace.place.folder.resolve().name}",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(_only_json), Depends(_speak)],
    )
    _handle_errors(app)
    shown = _add_page(app, guarded=token is not None)
    add_routes(app, workspace)
    return Doorkeeper(app, STUDIO_LIMITS, None, token, hosts, without_token=(*OPEN, *shown))


def _only_json(request: Request) -> None:
    """What keeps other web pages out: a browser asks before it sends this type elsewhere."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method != "GET" and kind != "application/json":
        raise HTTPException(415, "the body must be application/json")


async def _speak(request: Request) -> None:
    """Findings and reasons in the language that the page asks for."""
    LANGUAGE.set(pick_language(request.headers.get("accept-language", "")))


def _add_page(app: FastAPI, *, guarded: bool) -> list[str]:
    """The page and its parts, read once; the paths of all of them."""
    contents = {f"/page/{name}": data for name, data in _page_files().items()}
    contents["/page/theme.css"] = THEME.encode()
    languages = sorted(
        path.removeprefix("/page/words.").removesuffix(".json")
        for path in contents
        if path.startswith("/page/words.") and path.endswith(".json")
    )

    @app.get("/")
    async def page() -> Response:
        return _part("/page/page.html", contents["/page/page.html"])

    @app.get("/health")
    async def health() -> Response:
        return JSONResponse({"status": "ok", "token": guarded, "languages": languages})

    @app.get("/page/{name}")
    async def part(name: str) -> Response:
        path = f"/page/{name}"
        if path not in contents:
            raise HTTPException(404, "there is no such part of the page")
        return _part(path, contents[path])

    return list(contents)


def _part(path: str, data: bytes) -> Response:
    kind = _KINDS[path[path.rindex(".") :]]
    return Response(data, media_type=kind, headers={"Content-Security-Policy": STUDIO_POLICY})


def _page_files() -> dict[str, bytes]:
    folder = files(__package__) / "page"
    return {
        part.name: part.read_bytes()
        for part in folder.iterdir()
        if part.name.endswith(tuple(_KINDS))
    }


def _handle_errors(app: FastAPI) -> None:
    """Every refusal in one shape, and never more than a sentence."""

    @app.exception_handler(Stale)
    async def stale(_: Request, error: Stale) -> Response:
        return JSONResponse({"error": str(error)}, 409)

    @app.exception_handler(FedloreError)
    async def refused(_: Request, error: FedloreError) -> Response:
        return JSONResponse({"error": str(error)}, 422)

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code)


def run_studio(
    place: Workplace,
    *,
    host: str = "127.0.0.1",
    port: int = 8766,
    token: str | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Show the studio of a site until it is told to stop; other machines need a token."""
    check_host(host, token=token, insecure=False)
    names = names_of(host, token=token, insecure=False)
    app = make_studio(Workspace(place), token=token, hosts=names)
    run_app(app, host=host, port=port, on_ready=on_ready)
