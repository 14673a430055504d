"""The studio as a process."""

from collections.abc import Callable

from ..bundle.serve.limits import check_host, names_of
from ..bundle.serve.server import run_app
from .app import make_studio
from .desk import Workdesk
from .workplace import Workplace


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
    app = make_studio(Workdesk(place), token=token, hosts=names)
    run_app(app, host=host, port=port, on_ready=on_ready)
