"""Files of text opened: unpacked where they are .gz, in the encoding that they are written in."""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from ..errors import FedloreError

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
    def differences(self) -> str:
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


_FAULT = "table-file"  # the code of errors raised here
HEAD_BYTES = 1 << 16  # bytes that decide on separator and decimal mark
_BLOCK = 1 << 20
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
UNPACKING = (OSError, EOFError, zlib.error)  # what a damaged .gz raises


def open_bytes(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked where it is .gz."""
    try:
        if path.suffix.lower() == ".gz":
            return cast(IO[bytes], gzip.open(path, "rb"))
        return open(path, "rb")
    except OSError as error:
        raise FedloreError(f"cannot read '{path}': {error.strerror}") from None


def open_text(path: Path, encoding: str = "utf-8-sig") -> IO[str]:
    """The text of a file, unpacked where it is .gz, with line ends as they are."""
    return io.TextIOWrapper(open_bytes(path), encoding=encoding, newline="")


def find_dialect(
    path: Path,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Dialect:
    """How a file is written; what is given is not looked for."""
    coded = encoding or find_encoding(path)
    lines = _head(path, coded)
    split = separator or ("\t" if ".tsv" in path.suffixes else find_separator(lines))
    return Dialect(split, decimal or find_decimal(lines, split), coded)


def marked_encoding(start: bytes) -> str | None:
    """What the mark at the start of a file says, None where it has none."""
    return next((name for mark, name in _MARKS if start.startswith(mark)), None)


def find_encoding(path: Path) -> str:
    """UTF-8 or UTF-16 by its mark; UTF-8 where all of it can be read so; else Latin-1."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_bytes(path) as file:
        try:
            block = file.read(_BLOCK)
            if (marked := marked_encoding(block)) is not None:
                return marked
            if b"\0" in block:
                raise FedloreError(f"'{path}' is not a table of text: it holds zero bytes")
            while block:
                if not block.isascii() or decoder.getstate()[0]:
                    decoder.decode(block)
                block = file.read(_BLOCK)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "latin-1"
        except UNPACKING as error:
            raise FedloreError(f"'{path}' is not a table of text: {error}") from None
    return "utf-8-sig"


def _head(path: Path, encoding: str) -> list[str]:
    """The first lines, whole ones only where there are more."""
    with open_text(path, encoding) as file:
        try:
            text = file.read(HEAD_BYTES)
        except (UnicodeError, LookupError, *UNPACKING) as error:
            raise FedloreError(f"'{path}' is not a table of text: {error}") from None
    lines = text.splitlines(keepends=True)
    return lines[:-1] if len(text) == HEAD_BYTES and len(lines) > 1 else lines
