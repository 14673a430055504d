"""fedlore flower: an app for a Flower grid that somebody runs already."""

from pathlib import Path
from typing import Annotated

import typer

from .screen import current_screen

flower_app = typer.Typer(help="Train with knowledge on a Flower grid that you already run.")


@flower_app.callback()
def _group() -> None:
    """Keeps the name of the one command below it."""


@flower_app.command("init")
def init_(
    folder: Annotated[Path, typer.Argument(help="The app's folder, which is not there yet.")],
    schema: Annotated[Path, typer.Option(help="A knowledge.toml with features and classes.")],
    name: Annotated[str, typer.Option(help="The app's name.")] = "knowing",
    sites: Annotated[int, typer.Option(min=1, help="SuperNodes that a run waits for.")] = 3,
) -> None:
    """Write an app for flwr run: pyproject.toml, a ServerApp, a ClientApp, federation.toml."""
    from ..federation.kits.app import write_app
    from ..knowledge.files import read_document

    found = read_document(schema)
    written = write_app(folder, name=name, schema=found.schema, target=found.target, sites=sites)
    screen = current_screen()
    for path in written:
        screen.say(f"Wrote {path}")
    screen.remark(f"Look federation.toml over, then: flwr run {folder}")
    screen.give({"written": written})
