"""Options of several commands: how rows are written, which day counts, whose code is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..data.rows import FileForm
from .screen import Screen

if TYPE_CHECKING:
    from ..bundle import Bundle

__all__ = [
    "AsOfOption",
    "DecimalOption",
    "EncodingOption",
    "FileForm",
    "PluginOption",
    "SeparatorOption",
    "SheetOption",
    "say_dates",
]


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
    typer.Option("--as-of", help="Day whose rules apply, such as 2025-06-01; default today."),
]


def say_dates(bundle: Bundle, screen: Screen) -> None:
    """As of which day it answers, and what has run out or will soon."""
    if bundle.timeline is None:
        return
    screen.aside(bundle.timeline.sentence)
    for words in bundle.timeline.warnings:
        screen.aside(f"warning: {words}")
