"""fedlore draft: a first knowledge file from a table of rows."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..core.store import write_whole
from ..data.draft import draft_knowledge, read_cells
from ..errors import FedloreError
from .options import DecimalOption, EncodingOption, FileForm, SeparatorOption, SheetOption
from .screen import current_screen


def draft_command(
    rows: Annotated[Path, typer.Argument(help="Rows: CSV, XLSX, Parquet or JSON.")],
    label: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path | None, typer.Option(help="File to write; else it is printed.")] = None,
    sheet: SheetOption = None,
    separator: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
) -> None:
    """Write a knowledge.toml with the columns, levels, units and scope of a table."""
    table = read_cells(rows, form=FileForm(separator, decimal, encoding, sheet))
    found = draft_knowledge(table, label, name=rows.name)
    screen = current_screen()
    if out is not None:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            write_whole(out, found.text)
        except OSError as error:
            raise FedloreError(f"cannot write '{out}': {error.strerror}") from None
    if screen.as_json:
        screen.give({"out": out, **asdict(found)})
    elif out is None:
        print(found.text, end="")
    else:
        what = f"{len(found.classes)} classes" if found.classes else "a number"
        screen.say(f"{found.features} features, {what}, written to {out}")
        for name, why in found.left_out.items():
            screen.say(f"'{name}' is left out: {why}")
        screen.remark(f"Next: fedlore lint {out} --data {rows}")
