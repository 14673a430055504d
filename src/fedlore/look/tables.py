"""Tables of plain text: no markup in them, so any writer can escape them."""

from dataclasses import dataclass

__all__ = ["Cell", "TextTable"]


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
