"""Knowledge with dates: what of it is valid on a day.

A row of a table, or a source of knowledge.toml, may say from which day on it holds (`from`, that
day included) and until when (`until`, that day not). Dates have one meaning: knowledge as of a day
is the same file without what is not valid on that day (`as_of`). Whoever evaluates, compiles or
proves sees files without dates only; `read_knowledge` refuses others.
"""

import csv
import io
import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from ..errors import ConfigError, KnowledgeError
from .cells import ALWAYS, Validity, parse_day
from .document import FILE, dump
from .findings import Place
from .schema import Feature
from .sheets import (
    DATES,
    Sheet,
    SheetCell,
    SheetColumn,
    parse_csv,
    parse_date_cell,
    read_titles,
)

_FAULT = "dates"  # the code of errors raised here

SIDES = ("predict", "range")
MOST_DAYS = 1_000  # different dates in one file


class Dated(NamedTuple):
    """One thing that holds on some days: a source, or a rule of its table."""

    side: str  # predict or range
    source: int  # counted from 1
    place: Place
    validity: Validity


def today() -> date:
    """The day at this machine: the one place that asks for it."""
    return date.today()


def day_of(day: date | str | None) -> date:
    """A day that somebody named, or today."""
    if day is None:
        return today()
    return parse_day(day) if isinstance(day, str) else day


def split_source(values: Mapping[str, Any], where: str = "") -> tuple[dict[str, Any], Validity]:
    """A source without its dates, and those."""
    found: list[date | None] = []
    for key in DATES:
        value = values.get(key)
        try:
            if type(value) not in (date, str, type(None)):
                raise KnowledgeError(f"{value!r:.60} is not a date: write it as 2025-06-01")
            found.append(parse_day(value) if isinstance(value, str) else value)
        except KnowledgeError as error:
            raise KnowledgeError(f"{where}{key}: {error}") from None
    return {k: v for k, v in values.items() if k not in DATES}, Validity(*found)


def date_keys(validity: Validity) -> dict[str, str]:
    """The dates of a source, as its keys."""
    pairs = zip(DATES, validity, strict=True)
    return {key: day.isoformat() for key, day in pairs if day is not None}


def list_dated(files: Mapping[str, str]) -> list[Dated]:
    """Every source with its dates, a table rule by rule."""
    values = tomllib.loads(files[FILE])
    found = []
    for side, number, source in _sources(values):
        _, whole = split_source(source, f"{FILE}, [{side}] source {number}, ")
        table = source.get("table")
        if not isinstance(table, str) or table not in files:
            found.append(Dated(side, number, Place(FILE), whole))
            continue
        page = parse_csv(files[table], table)
        for row, validity in _rows(page, _features(values), source.get("outcome")):
            found.append(Dated(side, number, page.place(row), validity.within(whole)))
    return found


def named_days(files: Mapping[str, str]) -> tuple[date, ...]:
    """The days on which something begins or ends, in order; between them nothing changes."""
    days = {day for one in list_dated(files) for day in one.validity if day is not None}
    if len(days) > MOST_DAYS:
        raise KnowledgeError(
            f"a knowledge file may name {MOST_DAYS} different dates, this one names {len(days)}"
        )
    return tuple(sorted(days))


def stretch_of(days: Sequence[date], day: date) -> Validity:
    """The stretch of time around a day in which nothing changes, given the named days."""
    return next(one for one in stretches_of(days) if one.holds(day))


def stretches_of(days: Sequence[date]) -> list[Validity]:
    """All of them, in order."""
    return [Validity(*ends) for ends in itertools.pairwise([None, *days, None])]


def run_out(files: Mapping[str, str]) -> dict[str, date]:
    """By side the day from which on nothing of it is valid any more; one without end is not there.

    A rule that never holds, because it ends before it begins, puts nothing off.
    """
    ends: dict[str, list[date | None]] = {}
    for one in list_dated(files):
        ends.setdefault(one.side, [])
        if not one.validity.empty:
            ends[one.side].append(one.validity.until)
    return {
        side: max(day for day in some if day is not None)
        for side, some in ends.items()
        if some and None not in some
    }


def as_of(files: Mapping[str, str], day: date) -> dict[str, str]:
    """The texts of a knowledge file without what is not valid on a day, and without any date.

    A table of which no rule is valid is no source. Rules keep their rows. What has no dates comes
    back as it was.
    """
    if all(one.validity == ALWAYS for one in list_dated(files)):
        return dict(files)
    values = tomllib.loads(files[FILE])
    features, tables = _features(values), dict[str, str]()
    for side in SIDES:
        value = values.get(side)
        if not isinstance(value, dict) or "sources" not in value:
            continue
        kept = []
        for place, source in enumerate(value["sources"]):
            bare, validity = split_source(source)
            table = bare.get("table")
            if not validity.holds(day):
                continue
            if isinstance(table, str) and table in files:
                text = _table_on(files[table], table, features, bare.get("outcome"), day)
                if text is None:
                    continue
                tables[table] = text
            kept.append((place, bare))
        values[side] = _side_with(value, kept)
    named = {s.get("table") for _, _, s in _sources(tomllib.loads(files[FILE]))}
    rest = {n: t for n, t in files.items() if n != FILE and (n not in named or n in tables)}
    return {**rest, **tables, FILE: dump(values)}


def _side_with(table: Mapping[str, Any], kept: Sequence[tuple[int, Any]]) -> dict[str, Any]:
    """One side of the file with some of its sources, each with its weight in an average."""
    found = {key: value for key, value in table.items() if key != "sources"}
    weights = found.pop("weights", None)
    if kept and isinstance(weights, list):
        found["weights"] = [weights[place] for place, _ in kept if place < len(weights)]
    return found | ({"sources": [bare for _, bare in kept]} if kept else {})


def _table_on(
    text: str, name: str, features: Sequence[Feature], outcome: Any, day: date
) -> str | None:
    """A table with the rules of a day, without dates and each in its row; None: it has none."""
    page = parse_csv(text, name)
    header, columns = _titles(page, features, outcome)
    if header is None or not any(column.role in DATES for column in columns):
        return text
    valid = {row for row, validity in _rows(page, features, outcome) if validity.holds(day)}
    if not valid:
        return None
    dropped = {place for place, column in enumerate(columns) if column.role in DATES}
    lines: list[list[SheetCell]] = []
    for row, cells in page.rows:
        if row == header or row in valid:
            lines += [[]] * (row - 1 - len(lines))
            lines.append([cell for place, cell in enumerate(cells) if place not in dropped])
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def _rows(page: Sheet, features: Sequence[Feature], outcome: Any) -> Iterator[tuple[int, Validity]]:
    """The rules of a sheet by their rows, with the days on which each holds."""
    header, columns = _titles(page, features, outcome)
    for row, cells in page.filled:
        if header is None or row <= header:
            continue
        days: dict[str, date | None] = {}
        for column, cell in zip(columns, cells, strict=False):
            if column.role in DATES:
                try:
                    days[column.role] = parse_date_cell(cell)
                except KnowledgeError as error:
                    raise KnowledgeError(f"{page.place(row, column.title)}: {error}") from None
        yield row, Validity(days.get("from"), days.get("until"))


def _titles(
    page: Sheet, features: Sequence[Feature], outcome: Any
) -> tuple[int | None, list[SheetColumn]]:
    """The row of the titles, and the columns; nothing of a sheet that cannot be read."""
    wrong: list[Any] = []
    for header in page.filled[:1]:
        columns = read_titles(page, header, features, outcome, wrong)
        if not wrong:
            return header[0], columns
    return None, []


def _features(values: Mapping[str, Any]) -> tuple[Feature, ...]:
    """The columns of a file, as far as titles of tables need them."""
    columns = values.get("features", [])
    try:
        return tuple(
            Feature(one["name"], one.get("unit", ""), column=one.get("column")) for one in columns
        )
    except (KeyError, TypeError, ConfigError):
        raise KnowledgeError(f"{FILE}: its features cannot be read") from None


def _sources(values: Mapping[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for side in SIDES:
        table = values.get(side)
        some = table.get("sources", ()) if isinstance(table, dict) else ()
        for number, source in enumerate(some, 1):
            if isinstance(source, dict):
                yield side, number, source
