"""What several commands share: options, the day that rules are asked of, logs and pages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import FedloreError
from .screen import Screen, current_screen

if TYPE_CHECKING:
    from ..bundle import Bundle
    from ..federation.logs import LogForm

__all__ = ["DecimalOption", "EncodingOption", "PluginOption", "SeparatorOption", "SheetOption"]

SheetOption = Annotated[str | None, typer.Option(help="Sheet of a workbook; the first by default.")]
SeparatorOption = Annotated[str | None, typer.Option(help="Column separator: , ; tab or |.")]
DecimalOption = Annotated[str | None, typer.Option(help="Decimal mark: . or ,")]
EncodingOption = Annotated[str | None, typer.Option(help="Text encoding, such as latin-1.")]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-plugin",
        help="A kind of source of another package that the bundle may load; repeatable.",
    ),
]

AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", help="The day whose rules count, as 2025-06-01; today if not said."),
]


def say_dates(bundle: Bundle, screen: Screen) -> None:
    """As of which day it answers, and what has run out or will soon."""
    if bundle.timeline is None:
        return
    screen.aside(bundle.timeline.sentence)
    for words in bundle.timeline.warnings:
        screen.aside(f"warning: {words}")


PageOption = Annotated[
    str,
    typer.Option(
        help="Where to show the read-only page and /metrics: a port of this machine, host:port, "
        "auto (8764, or another where it is taken) or none."
    ),
]
TokenOption = Annotated[
    Path | None, typer.Option(help="File with the page's bearer token; else FEDLORE_TOKEN.")
]
LevelOption = Annotated[str, typer.Option(help="debug, info, warning or error.")]
JsonLogOption = Annotated[bool, typer.Option("--log-json", help="One JSON object per line.")]


def log_lines(level: str, *, as_json: bool) -> tuple[Callable[[str], None], LogForm]:
    """How a long-running command prints its lines, and how it writes its logs."""
    from ..federation.logs import LogForm

    form = LogForm(level, as_json)

    def say(line: str) -> None:
        if form.shows("info"):
            print(form.line(line), flush=True) if as_json else current_screen().say(line)

    return say, form


@contextmanager
def page_beside(
    folder: Path, page: str, *, token_file: Path | None, say: Callable[[str], None]
) -> Iterator[None]:
    """A page to watch a folder by, while something else is done; none where none is wanted."""
    with ExitStack() as stack:
        if page != "none":
            try:
                from ..bundle.serve.guard import read_token
                from ..federation.pages.app import USUAL_PAGE, PagePlace, showing_folder
            except ModuleNotFoundError as error:
                raise FedloreError(
                    f"{error.name} is missing: pip install 'fedlore[flower]', or --page none"
                ) from None
            place = USUAL_PAGE if page == "auto" else PagePlace.read(page)
            token = read_token(token_file, os.environ.get("FEDLORE_TOKEN"))
            stack.enter_context(showing_folder(folder, place, token=token, say=say))
        yield
