"""Tables of plain text, and values as JSON has them: no markup, so any writer can escape them."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

__all__ = ["Cell", "TextTable", "literal", "markdown"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table; the best of its column may be marked."""

    text: str
    best: bool = False
    mark: str = ""  # a word of the style sheet, for cells that say how something stands


@dataclass(frozen=True)
class TextTable:
    """A table of plain text: no markup in it, so any writer can escape it."""

    title: str
    head: tuple[str, ...]
    body: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    words: tuple[int, ...] = (0,)  # columns that hold words, not numbers

    @staticmethod
    def of(
        title: str,
        head: Iterable[str],
        rows: Iterable[Iterable[str | Cell]],
        notes: Sequence[str] = (),
        words: tuple[int, ...] = (0,),
    ) -> "TextTable":
        """A table of rows whose cells are texts, or cells already."""
        body = (tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows)
        return TextTable(title, tuple(head), tuple(body), tuple(notes), words)


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


def plain_values(value: object) -> Any:
    """A result in what JSON has: paths are text, numbers that are none are null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain_values(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain_values(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_values(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
