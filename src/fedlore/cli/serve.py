"""fedlore serve: one site's bundle behind HTTP; fedlore studio: a page to write knowledge on."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ..errors import FedloreError
from ..kernel.cells import parse_day
from .lint import AcceptOption, refuse_bundle
from .options import AsOfOption, PluginOption, say_dates
from .screen import current_screen, explain_stop


def serve_command(
    bundle: Annotated[Path, typer.Argument(help="A bundle: a folder or a .lore file.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8765,
    token_file: Annotated[
        Path | None, typer.Option(help="File with a bearer token; by default FEDLORE_TOKEN.")
    ] = None,
    max_body: Annotated[str, typer.Option(help="Largest request, such as 1MB.")] = "1MB",
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows of one request.")] = 1000,
    monitor: Annotated[
        Path | None, typer.Option(help="Accept measured rows (POST /measured) into this record.")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Labelled rows of the past: a new record starts from them.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve other machines without a token.")
    ] = False,
    as_of: AsOfOption = None,
    accept: AcceptOption = False,
    plugins: PluginOption = None,
) -> None:
    """Serve predictions over HTTP, with a page where a person can type or paste a row."""
    try:
        from ..bundle.serve import ServeLimits
        from ..bundle.serve import serve_bundle as run
        from ..bundle.serve.guard import bytes_of, read_token
    except ModuleNotFoundError as error:
        raise FedloreError(str(error)) from None
    from ..bundle import read_bundle
    from ..bundle.monitor import MeasuredRows, lock_record
    from ..bundle.predict import read_labelled

    if reference is not None and monitor is None:
        raise FedloreError("--reference gives the claims of a record: name one with --monitor")
    limits = ServeLimits(body=bytes_of(max_body), rows=max_rows)
    token = read_token(token_file, os.environ.get("FEDLORE_TOKEN"))
    opened = read_bundle(bundle, plugins=plugins or (), as_of=as_of)
    screen = current_screen()
    say_dates(opened, screen)
    refuse_bundle(opened, screen, accept=accept, ensemble=bundle.parent)
    guarded = "needs a token" if token else "open to whoever can connect"

    def ready(address: str) -> None:
        screen.say(f"{opened.client} ({opened.fingerprint[:12]}) at {address}, {guarded}")

    before = None if reference is None else MeasuredRows(*read_labelled(opened, reference))
    kept = "a service keeps nothing" if monitor is None else f"measured rows are in {monitor}"
    with ExitStack() as held, explain_stop(f"{kept}; fedlore serve {bundle} starts it again"):
        record = None
        if monitor is not None:
            record = held.enter_context(lock_record(monitor, opened, reference=before))
        run(
            opened,
            host=host,
            port=port,
            token=token,
            limits=limits,
            insecure=insecure,
            record=record,
            as_of=None if as_of is None else parse_day(as_of),
            on_ready=ready,
        )
    screen.say("stopped")


def studio_command(
    site: Annotated[Path, typer.Argument(help="The folder of a site.")],
    data: Annotated[Path | None, typer.Option(help="Labelled rows; else the site's own.")] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="A .lore file; by default one in the folder.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8766,
    token_file: Annotated[
        Path | None, typer.Option(help="File with a bearer token; by default FEDLORE_TOKEN.")
    ] = None,
) -> None:
    """Write, check and try a site's knowledge in a browser, on this machine."""
    try:
        from ..bundle.serve.guard import read_token
        from ..studio import find_workplace, run_studio
    except ModuleNotFoundError as error:
        raise FedloreError(str(error)) from None
    token = read_token(token_file, os.environ.get("FEDLORE_TOKEN"))
    place = find_workplace(site, data=data, bundle=bundle)
    screen = current_screen()
    guarded = "needs a token" if token else "for this machine alone"

    def ready(address: str) -> None:
        screen.say(f"{site.resolve().name} at {address}, {guarded}")

    with explain_stop(f"what was saved is kept in {site}; fedlore studio {site} opens it again"):
        run_studio(place, host=host, port=port, token=token, on_ready=ready)
    screen.say("stopped")
