"""How a table of text is written: encoding, separator and decimal mark, decided once per file."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

SEPARATORS = ",;\t|"
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", ".": "point"}

_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,234 may be either


@dataclass(frozen=True)
class Dialect:
    """The writing of one file."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8-sig"

    @property
    def said(self) -> str:
        """What is not as usual, in words; empty for comma, point and UTF-8."""
        words = []
        if self.separator != ",":
            words.append(f"cells end at a {NAMES.get(self.separator, self.separator)}")
        if self.decimal != ".":
            words.append("decimals follow a comma")
        if self.encoding != "utf-8-sig":
            words.append(f"the text is {self.encoding.upper()}")
        if self.encoding == "latin-1":
            words[-1] += ", for it is not UTF-8"
        return ", ".join(words)


def find_separator(lines: Sequence[str]) -> str:
    """The separator under which the first lines agree with their header best.

    >>> find_separator(["ash;volatile", "9,5;28,5"]), find_separator(["ash, dry;s", "1;2"])
    (';', ';')
    """
    best, found = (0.0, 0), ","
    for separator in SEPARATORS:
        widths = [len(cells) for cells in split_lines(lines, separator) if cells]
        if not widths or widths[0] < 2:
            continue
        agreeing = sum(width == widths[0] for width in widths) / len(widths)
        if (agreeing, widths[0]) > best:
            best, found = (agreeing, widths[0]), separator
    return found


def find_decimal(lines: Sequence[str], separator: str) -> str:
    """The mark that most decimals below the header have; a point where none has any.

    1,234 alone decides nothing, except beside semicolons, as spreadsheets write decimal commas.

    >>> find_decimal(["a;b", "9,5;x"], ";"), find_decimal(["a\\tb", "1,234\\t2"], "\\t")
    (',', '.')
    """
    counts: Counter[str] = Counter()
    for cells in split_lines(lines, separator)[1:]:
        for cell in map(str.strip, cells):
            if _POINT.fullmatch(cell):
                counts["."] += 1
            elif _COMMA.fullmatch(cell) and (separator == ";" or not _THOUSANDS.fullmatch(cell)):
                counts[","] += 1
    return "," if counts[","] > counts["."] else "."


def split_lines(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Cells of some first lines, as far as they can be read."""
    found = []
    try:
        for cells in csv.reader(lines, delimiter=separator):
            found.append(cells)
    except csv.Error:  # said with its place by whoever reads the whole file
        pass
    return found
