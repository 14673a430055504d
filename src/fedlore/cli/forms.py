"""Options that say how a file of rows is written, for every command that reads one."""

from typing import Annotated

import typer

from ..data.rows import FileForm

SheetOption = Annotated[str | None, typer.Option(help="The sheet of a workbook; else the first.")]
SeparatorOption = Annotated[str | None, typer.Option(help="What ends a cell: , ; tab or |.")]
DecimalOption = Annotated[str | None, typer.Option(help="The decimal mark: . or ,")]
EncodingOption = Annotated[str | None, typer.Option(help="Of the text, such as latin-1.")]

__all__ = ["DecimalOption", "EncodingOption", "FileForm", "SeparatorOption", "SheetOption"]
