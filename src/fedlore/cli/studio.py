"""fedlore studio: a page on which an expert writes, checks and tries knowledge."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ..errors import FedloreError
from .screen import current_screen, explain_stop


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
