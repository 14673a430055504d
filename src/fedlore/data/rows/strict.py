"""Records that are checked to the letter, for whoever takes rows from strangers.

Nothing is turned into anything here: a number must be one already, and a level must be its name.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import FedloreError
from ...kernel.answers import convert
from ...kernel.schema import Feature, Schema
from .cells import date_cells, read_date

LARGEST_VALUE = 1e30  # of a feature: well inside float32


class Unusable(FedloreError):
    """What cannot be read, with the record (from 1) and the column where it went wrong."""

    def __init__(self, message: str, row: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


def strict_values(records: Sequence[Any], schema: Schema) -> list[list[float]]:
    """Records of floats, level names and dates as numbers in the schema's order, n lists of d.

    A date goes by the title of its column, its parts as numbers by their own names. Any other
    column has the name of its feature or its title in data files. None stands for a value where
    it may be missing, and becomes NaN. A column that is no feature is refused, and so is one that
    is absent, unless the site does not have it.
    """
    titles, dates = schema.titles, schema.dates
    return [_record(record, schema, titles, dates, row) for row, record in enumerate(records, 1)]


def excerpt(text: str) -> str:
    """What may be shown of a stranger's text: little, and always encodable."""
    return text[:60].encode("utf-8", "replace").decode()


def _record(
    record: Any,
    schema: Schema,
    titles: Mapping[str, str],
    dates: Mapping[str, Sequence[Feature]],
    row: int,
) -> list[float]:
    if not isinstance(record, dict):
        raise Unusable(f"row {row} must be an object of columns, got {_kind(record)}", row)
    if dates:
        record = _without_dates(record, dates, row)
    record = _with_measures(record, schema, row)
    named = {titles.get(title, title): value for title, value in record.items()}
    if len(named) < len(record):
        own = [titles.get(title, title) for title in record]
        twice = excerpt(next(name for name in own if own.count(name) > 1))
        raise Unusable(f"row {row}: the column '{twice}' is there twice", row, twice)
    values = []
    for feature in schema.features:
        if feature.name not in named and feature.have:
            title = next((t for t, parts in dates.items() if feature in parts), feature.name)
            raise Unusable(f"row {row}: the column '{title}' is missing", row, title)
        values.append(_value(named.get(feature.name), feature, row))
    extra = next((title for title in record if title not in titles), None)
    if extra is not None:
        shown = excerpt(extra)
        raise Unusable(f"row {row}: there is no column '{shown}'", row, shown)
    return values


def _without_dates(
    record: dict[str, Any], dates: Mapping[str, Sequence[Feature]], row: int
) -> dict[str, Any]:
    """A record with the parts of its dates in place of these."""
    found = {title: value for title, value in record.items() if title not in dates}
    for title in record.keys() & dates.keys():
        blank = record[title] is None and all(f.may_miss for f in dates[title])
        value, kind = record[title], _kind(record[title])
        if not blank and (kind != "text" or read_date(value) is None):
            shown = f"'{excerpt(value)}'" if kind == "text" else kind
            text = f"must be a date such as 2024-03-05, got {shown}"
            raise Unusable(f"row {row}, column '{title}': {text}", row, title)
        for feature in dates[title]:
            if feature.name in record:
                text = f"row {row}: the column '{feature.name}' is there twice"
                raise Unusable(text, row, feature.name)
            parts, _ = date_cells([record[title]], feature.date)
            found[feature.name] = None if blank else float(parts[0])
    return found


def _with_measures(record: dict[str, Any], schema: Schema, row: int) -> dict[str, Any]:
    """A record with features in place of other measures of them."""
    for feature in schema.features:
        own = feature.own
        title = (
            None if own is None else next((t for t in (own.name, own.column) if t in record), None)
        )
        if own is None or title is None:
            continue
        if feature.name in record:
            text = f"row {row}: give '{feature.name}' or '{title}', which is another measure of it"
            raise Unusable(text, row, title)
        value = record[title]
        if value is not None:
            number = _value(value, Feature(own.name), row)
            value = float(convert(own, [number])[0])
            if math.isnan(value):
                text = f"row {row}, column '{title}': '{own.by}' has no value of {number:g}"
                raise Unusable(text, row, title)
        record = {k: v for k, v in record.items() if k != title} | {feature.name: value}
    return record


def _value(value: Any, feature: Feature, row: int) -> float:
    def refuse(text: str) -> Unusable:
        return Unusable(f"row {row}, column '{feature.name}': {text}", row, feature.name)

    if value is None and feature.may_miss:
        return math.nan
    is_text = isinstance(value, str)
    if value is None or (is_text and not value.strip()):
        raise refuse("the value is missing")
    if feature.levels:
        if not is_text:
            raise refuse(f"must be one of {', '.join(feature.levels)}, got {_kind(value)}")
        if value not in feature.levels and feature.other:
            return float(len(feature.levels))
        if value not in feature.levels:
            raise refuse(f"must be one of {', '.join(feature.levels)}, got '{excerpt(value)}'")
        return float(feature.levels.index(value))
    if not isinstance(value, float):  # JSON's whole numbers are read as floats too
        raise refuse(f"must be a number, got {_kind(value)}")
    if not abs(value) <= LARGEST_VALUE:
        raise refuse(f"must lie within ±{LARGEST_VALUE:g}, got {value:g}")
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", float: "a number", bool: "a boolean"}
    return names.get(type(value), "null")
