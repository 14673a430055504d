"""Options of several commands: how rows are written, whose code is loaded."""

from __future__ import annotations

from typing import Annotated

import typer

from ..data.rows import FileForm

__all__ = [
    "DecimalOption",
    "EncodingOption",
    "FileForm",
    "PluginOption",
    "SeparatorOption",
    "SheetOption",
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
