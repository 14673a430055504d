"""Tables as Markdown."""

import re
from collections.abc import Iterable

from .tables import Cell, TextTable

__all__ = ["literal", "markdown"]


def markdown(tables: Iterable[TextTable]) -> str:
    """The tables as GitHub-flavoured Markdown, the best in bold.

    >>> body = ((Cell("FL"), Cell("80.1", True)),)
    >>> print(markdown([TextTable("TA, %", ("approach", "mean"), body)]))
    ### TA, %
    <BLANKLINE>
    | approach | mean |
    |:---|---:|
    | FL | **80.1** |
    <BLANKLINE>
    """
    return "\n".join(_one(table) for table in tables)


def _one(table: TextTable) -> str:
    align = [":---" if i in table.words else "---:" for i in range(len(table.head))]
    lines = [f"### {literal(table.title)}", ""]
    lines.append(f"| {' | '.join(literal(name) for name in table.head)} |")
    lines.append(f"|{'|'.join(align)}|")
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in table.body]
    for note in table.notes:
        lines += ["", literal(note)]
    return "\n".join(lines) + "\n"


def _cell(cell: Cell) -> str:
    return f"**{literal(cell.text)}**" if cell.best else literal(cell.text)


def literal(text: str) -> str:
    """Text that Markdown takes literally, HTML included."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", text).replace("&", "&amp;")
