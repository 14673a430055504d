"""What long-running commands share: lines they print, logs they write, pages beside them."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import FedloreError
from .screen import current_screen

if TYPE_CHECKING:
    from ..federation.logs import LogForm


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


def log_lines(level: str, *, as_json: bool) -> tuple[Callable[[str], None], "LogForm"]:
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
