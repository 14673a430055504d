"""Options of several commands: how a file of rows is written, and whose code a bundle may load."""

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


SheetOption = Annotated[str | None, typer.Option(help="The sheet of a workbook; else the first.")]
SeparatorOption = Annotated[str | None, typer.Option(help="What ends a cell: , ; tab or |.")]
DecimalOption = Annotated[str | None, typer.Option(help="The decimal mark: . or ,")]
EncodingOption = Annotated[str | None, typer.Option(help="Of the text, such as latin-1.")]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-plugin",
        help="A kind of source of an installed package that the bundle may load; repeatable.",
    ),
]
