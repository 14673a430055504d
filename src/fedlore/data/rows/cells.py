"""Cells to numbers: decimals with point or comma, levels and classes by name, blanks as NaN."""

from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...errors import unknown
from ...kernel.sheets import Broken
from .problems import SHOWN

BLANK = frozenset(  # as spreadsheets, statistics packages and laboratories write it
    ("", "-", "?", "NA", "N/A", "n/a", "#N/A", "#NV", "<NA>", "NaN", "nan", "NULL", "null", "None")
)
MISSING = float("nan")

Floats = NDArray[np.float64]
Wrong = dict[int, str]  # position -> what is wrong there


def number_cells(cells: Any, decimal: str = ".") -> tuple[Floats, Wrong]:
    """A column of numbers, (n,) float64 with NaN for blanks, and the cells that are none."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiu":
        return cells.astype(np.float64, copy=False), {}
    listed = _as_list(cells)
    quick = _plain_numbers(listed, decimal)
    if quick is not None:
        return quick, {}
    values = np.full(len(listed), MISSING)
    wrong: Wrong = {}
    for i, cell in enumerate(listed):
        found = _number(cell, decimal)
        if found is None:
            wrong[i] = _not_a_number(cell, decimal) if len(wrong) < SHOWN else ""
        else:
            values[i] = found
    return values, wrong


def place_cells(
    cells: Any, names: Sequence[str], what: str, *, other: bool = False
) -> tuple[Floats, Wrong]:
    """A column of names as positions in a list of them; NaN for blanks, and the strange ones.

    With `other` there are no strange ones: they have the position after the last.
    """
    place = {name: i for i, name in enumerate(names)}
    listed = _as_list(cells)
    if all(type(cell) is str for cell in listed):
        quick = list(map(place.get, listed))
        if None not in quick:
            return np.array(quick, dtype=np.float64), {}
    values = np.full(len(listed), MISSING)
    wrong: Wrong = {}
    for i, cell in enumerate(listed):
        word = _word(cell)
        if word in place:
            values[i] = place[word]
        elif isinstance(cell, Broken):
            wrong[i] = f": {cell.reason}"
        elif other and word not in BLANK:
            values[i] = len(names)
        elif word not in BLANK:
            wrong[i] = f": {unknown(what, word[:60], names)}" if len(wrong) < SHOWN else ""
    return values, wrong


def text_cells(cells: Any) -> list[str]:
    """A column as text, empty where it is blank."""
    return [_word(cell) for cell in _as_list(cells)]


def is_blank(cell: Any) -> bool:
    """Whether a cell says nothing: None, NaN, NA of a frame, or a word for it."""
    if isinstance(cell, str):
        return cell.strip() in BLANK
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, Real | Decimal) and bool(cell != cell)


def _as_list(cells: Any) -> list[Any]:
    if isinstance(cells, np.ndarray | Tensor):
        found: list[Any] = cells.tolist()
        return found
    return list(cells)


def _plain_numbers(cells: list[Any], decimal: str) -> Floats | None:
    """All cells at once, where all are texts of numbers; float() alone would take 1_000."""
    try:
        joined = "\0".join(cells)
    except TypeError:
        return None
    if not joined.isascii() or "_" in joined or (decimal == "," and "." in joined):
        return None
    texts = joined.replace(",", ".").split("\0") if decimal == "," else cells
    try:
        found = np.array(list(map(float, texts)), dtype=np.float64)
    except ValueError:
        return None
    return None if np.isnan(found).any() else found


def _number(cell: Any, decimal: str) -> float | None:
    """The number in a cell, NaN where it is blank, None where it holds something else."""
    if is_blank(cell):
        return MISSING
    try:
        if isinstance(cell, str):
            if not cell.isascii() or "_" in cell or (decimal == "," and "." in cell):
                return None
            found = float(cell.replace(",", ".") if decimal == "," else cell)
            return None if found != found else found
        if isinstance(cell, bool | np.bool_) or not isinstance(cell, Real | Decimal):
            return None
        return float(cell)
    except ValueError:
        return None
    except OverflowError:
        return float("inf")


def _not_a_number(cell: Any, decimal: str) -> str:
    if isinstance(cell, Broken):
        return f": {cell.reason}"
    other = "," if decimal == "." else "."
    hint = ""
    if isinstance(cell, str) and _number(cell, other) is not None:
        taken = "point" if decimal == "." else "comma"
        hint = f" (the decimal mark is taken to be a {taken}: say decimal = '{other}' otherwise)"
    return f": {cell!r:.60} is not a number{hint}"


def _word(cell: Any) -> str:
    """The name in a cell; 2.0 names the level 2, as frames turn whole numbers into floats."""
    if isinstance(cell, str):
        return cell.strip()
    if is_blank(cell) or isinstance(cell, Broken):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
