"""Tables on a terminal: they fit its width, or turn into blocks; no cell is ever cut."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ..look.tables import TextTable

__all__ = ["Grid", "grid_of"]


class Grid(Table):
    """A table that becomes one block of lines per row where the terminal is too narrow."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = Measurement.get(console, options.update(width=10_000), self).minimum
        if needed <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield Text.from_markup(self.title) if isinstance(self.title, str) else self.title
        for at in range(self.row_count):
            for place, column in enumerate(self.columns):
                title, cell = _text(column.header), _text(list(column.cells)[at])
                named = Text.assemble(title, ": ", cell) if title else cell
                if place:
                    named = Text.assemble("  ", named)
                else:
                    named.stylize("bold")
                yield named


def grid_of(table: TextTable) -> Grid:
    """A table as a terminal shows it: words to the left, numbers to the right."""
    grid = Grid(title=Text(table.title), title_justify="left")
    for i, head in enumerate(table.head):
        grid.add_column(Text(head), justify="left" if i in table.words else "right")
    for line in table.body:
        grid.add_row(*(Text(cell.text, style="bold" if cell.best else "") for cell in line))
    return grid


def _text(cell: object) -> Text:
    """A cell or a title in one line."""
    found = cell.copy() if isinstance(cell, Text) else Text.from_markup(str(cell))
    return Text(" ").join(found.split("\n"))
