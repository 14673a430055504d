"""Cells to numbers, columns by their titles, and what is wrong with a table, all of it together."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...errors import FedloreError, unknown
from ...kernel.schema import Feature, Schema
from ...kernel.sheets import Broken

UNUSABLE = ": it cannot be used"  # where many faults are alike, not each is put into words
SHOWN = 20  # problems that are written out; the others are counted


class Stumbled(FedloreError):
    """A fault that a fast reader met and only the slow one can place."""


@dataclass(frozen=True, order=True)
class Fault:
    """One fault: the row as an editor numbers it, the header being row 1, and what is wrong."""

    row: int
    order: int  # of the column, where several are wrong in one row
    text: str = field(compare=False)

    def __str__(self) -> str:
        return f"row {self.row}{self.text}"


@dataclass
class Problems:
    """The first problems of a table, and how many there are."""

    place: str  # what messages call the table; may be empty
    count: int = 0
    first: list[Fault] = field(default_factory=list)
    most: int | None = SHOWN  # how many are written out; None: all

    def add(
        self, wrong: Mapping[int, str], lines: Sequence[int], column: str = "", order: int = 0
    ) -> None:
        """Faults by their position in a batch whose rows have these numbers."""
        self.count += len(wrong)
        named = f", column '{column}'" if column else ""
        some = sorted(wrong)[: self.most]
        self.first += [Fault(lines[i], order, named + (wrong[i] or UNUSABLE)) for i in some]
        self.first = sorted(self.first)[: self.most]

    def check(self) -> None:
        """Raise them all, if there are any."""
        if self.count:
            raise refusal(self.place, [str(problem) for problem in self.first], self.count)


def refusal(place: str, texts: Sequence[str], count: int | None = None) -> FedloreError:
    """One error for everything that is wrong with a table."""
    total = len(texts) if count is None else count
    if total == 1:
        return FedloreError(f"{place}: {texts[0]}" if place else texts[0])
    return FedloreError("\n".join(_lines(place, texts, total)))


def _lines(place: str, texts: Iterable[str], total: int) -> Iterator[str]:
    yield f"{place} has {total} problems:" if place else f"there are {total} problems:"
    shown = list(texts)[:SHOWN]
    yield from (f"  {text}" for text in shown)
    if total > len(shown):
        yield f"  and {total - len(shown)} more"


BLANK = frozenset(  # as spreadsheets, statistics packages and laboratories write it
    ("", "-", "?", "NA", "N/A", "n/a", "#N/A", "#NV", "<NA>", "NaN", "nan", "NULL", "null", "None")
)
MISSING = float("nan")

Floats = NDArray[np.float64]
Wrong = dict[int, str]  # position -> what is wrong there


def _kind(cells: Any) -> str:
    """The kind of numpy's array; empty for any other column."""
    return cells.dtype.kind if isinstance(cells, np.ndarray) else ""


def number_cells(cells: Any, decimal: str = ".") -> tuple[Floats, Wrong]:
    """A column of numbers, (n,) float64 with NaN for blanks, and the cells that are none."""
    if _kind(cells) in ("f", "i", "u"):
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


_DATE = re.compile(r"(\d{4}-\d\d-\d\d)([T ].*)?")


def date_cells(cells: Any, part: str) -> tuple[Floats, Wrong]:
    """One part of a column of dates, (n,) float64 with NaN for blanks, and what is no date.

    Numbers are that part already: an array has no columns of dates. The time of a day is left out.
    """
    if _kind(cells) == "M":
        return _part_of(cells.astype("datetime64[D]"), part), {}
    if _kind(cells) in ("f", "i", "u"):
        return number_cells(cells)
    days = np.full(len(cells), "NaT", dtype="datetime64[D]")
    wrong: Wrong = {}
    for i, cell in enumerate(_as_list(cells)):
        found = read_date(cell)
        if found is not None:
            days[i] = found
        elif not is_blank(cell):
            wrong[i] = f": {str(cell)!r:.60} is not a date: write it as 2024-03-05"
    return _part_of(days, part), wrong


def read_date(cell: Any) -> date | None:
    """The day in a cell: a date, or its text as 2024-03-05, with or without a time behind it."""
    found = _DATE.fullmatch(str(cell).strip())
    try:
        return None if found is None else date.fromisoformat(found[1])
    except ValueError:
        return None


def _part_of(days: NDArray[np.datetime64], part: str) -> Floats:
    """A part of dates as a number; NaN where there is none."""
    count = days.astype(np.int64)
    values = {
        "day": count,
        "month": days.astype("datetime64[M]").astype(np.int64) % 12 + 1,
        "weekday": (count + 3) % 7 + 1,  # 1970-01-01 was a Thursday
    }[part]
    return np.where(np.isnat(days), MISSING, values)


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


Extra = Literal["ignore", "error"]

_TITLE = re.compile(r"\s*(.*?)\s*(?:\[([^\[\]]*)\]|\(([^()]*)\))?\s*", re.DOTALL)


def name_and_unit(title: str) -> tuple[str, str | None]:
    """A title without its unit, and the unit where there is one.

    >>> name_and_unit(" ash [%]"), name_and_unit("heat (MJ/kg)"), name_and_unit("oven")
    (('ash', '%'), ('heat', 'MJ/kg'), ('oven', None))
    """
    parts = _TITLE.fullmatch(title)
    assert parts is not None  # the pattern takes any text
    return parts[1], parts[2] if parts[2] is not None else parts[3]


def find_columns(
    titles: Sequence[str],
    schema: Schema,
    *,
    label: str | None = None,
    extra: Extra = "ignore",
    also: Sequence[str] = (),
    units: Mapping[int, str] | None = None,
    place: str = "",
) -> list[int]:
    """Where each feature stands, then the label if one is asked for.

    Absent, doubled or wrongly measured columns are refused together; so are those that nobody
    asked for where `extra` is "error", except the label and `also`. `units` come from the file
    beside its titles.
    """
    known, dates = schema.titles, schema.dates
    features = {feature.name: feature for feature in schema.features}
    asked = [*schema.names, *([] if label is None else [label])]
    found: dict[str, int] = {}
    wrong: list[str] = []
    for position, title in enumerate(titles):
        full = title.strip()
        plain = full in known or full in dates or full == label
        name, unit = (full, None) if plain else name_and_unit(title)
        if name in dates:
            wrong += [
                f"the column '{f.name}' is there twice" for f in dates[name] if f.name in found
            ]
            found |= {f.name: position for f in dates[name] if f.name not in found}
            continue
        name = known.get(name, name)
        if name not in asked:
            if extra == "error" and name != schema.label and title not in also:
                near = _near(name, schema.names)
                wrong.append(f"there is no feature '{name}'{near} (extra columns are refused)")
            continue
        if name in found:
            wrong.append(f"the column '{name}' is there twice")
        found.setdefault(name, position)
        stated = (units or {}).get(position, unit)
        if name in features and stated is not None and not _same_unit(stated, features[name]):
            own = features[name].unit
            wrong.append(f"the column '{name}' is in [{stated}], the model takes it in [{own}]")
    for name in asked:
        if name not in found:
            sought = features[name].column or name if name in features else name
            lacks = name in features and features[name].may_miss
            hint = "; if it is not measured here, say have = false of its feature" if lacks else ""
            wrong.append(f"the column '{sought}' is missing{_near(sought, titles)}{hint}")
    if wrong:
        raise refusal(place, list(dict.fromkeys(wrong)))
    return [found[name] for name in asked]


def features_of(titles: Sequence[str], schema: Schema) -> tuple[Feature, ...]:
    """The features as a table has them: a date's part under its own name is a number there."""
    there = {name for title in titles for name in (title.strip(), name_and_unit(title)[0])}
    return tuple(replace(f, date="") if f.date and f.name in there else f for f in schema.features)


def passed_over(titles: Sequence[str], schema: Schema, also: Sequence[str]) -> tuple[str, ...]:
    """The titles of columns that are neither features nor the label nor `also`."""
    measures = [f.own for f in schema.features if f.own is not None]
    listed = [*schema.features, *measures]
    known = {*schema.names, *(f.column for f in listed), schema.label, *also}
    known |= {f.name for f in measures}
    return tuple(t for t in titles if not {t, t.strip(), name_and_unit(t)[0]} & known)


def _same_unit(stated: str, feature: Feature) -> bool:
    """A feature without a unit is not contradicted by one."""
    return not feature.unit or stated.split() == feature.unit.split()


def _near(name: str, titles: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, titles, n=1)
    if near:
        return f"; did you mean '{near[0]}'?"
    return "; there are: " + ", ".join(titles[:8]) + (", ..." if len(titles) > 8 else "")
