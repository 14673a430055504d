"""The service as a process: a socket, uvicorn, and an end that lets requests finish."""

import gc
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial

import torch
import uvicorn

from ...errors import FedloreError
from .. import Bundle
from ..monitor.record import Record
from ..store import refuse_draft
from .app import make_app
from .guard import App, ServeLimits, check_host, names_of

_GRACE = 10  # seconds for requests under way when the service is stopped
CONNECTIONS = 1_000  # at once; beyond it a request is told to come back


def serve_bundle(
    bundle: Bundle,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    limits: ServeLimits | None = None,
    insecure: bool = False,
    record: Record | None = None,
    as_of: date | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Answer until SIGTERM or SIGINT; `on_ready` is told the address once it can be asked.

    A bundle that wants signed knowledge and holds a draft is refused. With a `record`, held by
    whoever calls, measured rows are taken in and monitored.

    A host that other machines can reach is refused without a token, unless `insecure`.
    """
    refuse_draft(bundle)
    check_host(host, token=token, insecure=insecure)
    names = names_of(host, token=token, insecure=insecure)
    app = make_app(bundle, limits=limits, token=token, hosts=names, record=record, as_of=as_of)
    run_app(app, host=host, port=port, on_ready=on_ready)


def run_app(
    app: App, *, host: str, port: int, on_ready: Callable[[str], None] | None = None
) -> None:
    """Run an application until it is told to stop, as `serve_bundle` does."""
    door = _open(host, port)
    torch.set_num_threads(1)  # rows are few: more threads only wait for each other
    server = _Server(_settings(app, grace=_GRACE))
    if on_ready is not None:
        server.on_ready = partial(on_ready, _address(host, door))
    gc.collect()
    gc.freeze()  # what is here now stays: looking through it again would be a pause of its own
    # uvicorn sends a signal once more after it has stopped: to end well is no failure. After
    # Ctrl-C that is a KeyboardInterrupt, for whoever called
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        server.run(sockets=[door])
    finally:
        signal.signal(signal.SIGTERM, before)
        gc.unfreeze()
        door.close()


@contextmanager
def showing(app: App, *, host: str, port: int) -> Iterator[str]:
    """Run an application beside other work, in a thread; its address."""
    door = _open(host, port)
    server = uvicorn.Server(_settings(app, grace=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    try:
        yield _address(host, door)
    finally:
        server.should_exit = True
        thread.join(5.0)
        door.close()


class _Server(uvicorn.Server):
    """Tells that it can be asked after it has taken over the signals: Ctrl-C then ends it well."""

    on_ready: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.on_ready is not None and not self.should_exit:
            self.on_ready()


def _settings(app: App, *, grace: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=grace,
    )


def _open(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise FedloreError(f"cannot listen on {host}:{port}: {error}") from None


def _address(host: str, door: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{door.getsockname()[1]}"
