"""How numbers, times and states are put on a page."""

from collections.abc import Sequence
from html import escape

from ...look.page import show_pairs, show_table
from ...look.tables import Cell, TextTable
from .states import TROUBLE

_GOOD = ("training", "sent")


def say_seconds(seconds: float | None) -> str:
    """A span of time as people say it.

    >>> [say_seconds(s) for s in (None, 0.4, 12.3, 95, 7300, 400_000)]
    ['', '0.4 s', '12 s', '1 min 35 s', '2 h 1 min', '4 days 15 h']
    """
    if seconds is None:
        return ""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} days {whole % 86_400 // 3600} h"


def say_bytes(count: float) -> str:
    """A number of bytes as people say it.

    >>> [say_bytes(n) for n in (0, 999, 30_318, 2_500_000)]
    ['0 B', '999 B', '30.3 kB', '2.5 MB']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f} {letter}B"
    return f"{count:.0f} B"


def state_cell(state: str) -> Cell:
    """A word that says how something stands; its colour says nothing that the word does not."""
    mark = "bad" if state in TROUBLE else "is" if state in _GOOD else "plain"
    return Cell(state, mark=mark)


def rows_table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    words: Sequence[int] = (0,),
    notes: Sequence[str] = (),
) -> str:
    """A table as HTML; plain texts become cells."""
    body = tuple(
        tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows
    )
    return show_table(TextTable(title, tuple(head), body, tuple(notes), tuple(words)))


def head_line(title: str, line: str, facts: dict[str, str], warnings: Sequence[str]) -> str:
    """The top of a page: what it is about, how it stands, what is wrong."""
    parts = [f"<h1>{escape(title)}</h1>", f'<p id="line" role="status">{escape(line)}</p>']
    parts += [f'<p class="warn">{escape(text)}</p>' for text in warnings]
    return "\n".join([*parts, show_pairs(facts)])
