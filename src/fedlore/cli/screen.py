"""Tables of plain text on a terminal."""

from rich.table import Table as Grid
from rich.text import Text

from ..look.tables import TextTable


def grid_of(table: TextTable) -> Grid:
    """A table as a terminal shows it: words to the left, numbers to the right."""
    grid = Grid(title=Text(table.title), title_justify="left")
    for i, head in enumerate(table.head):
        grid.add_column(Text(head), justify="left" if i in table.words else "right")
    for line in table.body:
        grid.add_row(*(Text(cell.text, style="bold" if cell.best else "") for cell in line))
    return grid
