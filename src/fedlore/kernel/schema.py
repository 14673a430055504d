"""The names behind the columns: features with units and scope, classes in order."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ..errors import KnowledgeError, unknown

_FAULT = "schema"  # the code of errors raised here

DATE_PARTS = ("day", "month", "weekday")  # days since 1970-01-01, 1 to 12, 1 (Monday) to 7


@dataclass(frozen=True)
class Feature:
    """One column. A feature with levels is categorical; its tensor column holds the level's index.

    `low` and `high` are the scope: where the expert declares the knowledge to hold. `missing` says
    what stands for a missing value in the network: nothing ("refuse": such a row is refused), the
    federation's "mean" or "median", a number or a level, or for levels nothing but the sign that
    it is missing ("level"). With `other` a level that is not named is taken as one more. With
    `date` its column holds dates as 2024-03-05, of which it is one part, a number everywhere else.
    Without `have` tables and records may come without its column: it is then missing in each row.
    """

    name: str  # a word of letters, digits and _
    unit: str = ""  # in which it is measured
    low: float = -math.inf  # the scope: where the expert declares the knowledge to hold
    high: float = math.inf  # and its upper end
    levels: tuple[str, ...] = ()  # names of a categorical feature
    column: str | None = None  # its title in data files, where that is no such word
    missing: str | float = "refuse"  # what stands for a missing value; see above
    other: bool = False  # a level that is not named is taken as one more
    date: str = ""  # day, month or weekday: which part of the dates in its column it is
    have: bool = True  # whether this site measures it; without it is missing in every row
    equals: str = ""  # the feature that this is another measure of, at this site alone
    by: str = ""  # what that comes to: a formula over this one's name
    within: float = 0.0  # how far what it comes to can lie from the feature
    counted: bool = False  # whether the ranges have that error in them already
    own: Feature | None = None  # the other measure that stands for this one here

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise KnowledgeError(
                f"a feature name must be a word of letters, digits and _, got '{self.name}'"
            )
        if math.isnan(self.low) or math.isnan(self.high) or not self.low < self.high:
            raise KnowledgeError(
                f"feature '{self.name}': the scope must have low < high, "
                f"got {self.low:g} and {self.high:g}"
            )
        if len(set(self.levels)) != len(self.levels):
            raise KnowledgeError(f"feature '{self.name}': a level is named twice")
        if self.column is not None and not self.column.strip():
            raise KnowledgeError(f"feature '{self.name}': its column must have a title, got blanks")
        if self.other and not self.levels:
            raise KnowledgeError(
                f"feature '{self.name}': other = true is for a feature with levels"
            )
        if self.date and (self.date not in DATE_PARTS or self.levels):
            raise KnowledgeError(
                f"feature '{self.name}': date must be day, month or weekday, and without levels, "
                f"got '{self.date}'"
            )
        if self.date and self.column in (None, self.name):
            raise KnowledgeError(
                f"feature '{self.name}' is the {self.date} of a date: say which column holds the "
                f'dates, column = "...", and call the feature something else'
            )
        self._check_measure()
        if not self.have and self.missing == "refuse":
            object.__setattr__(self, "missing", "level" if self.levels else "mean")
        self._check_missing()

    @property
    def may_miss(self) -> bool:
        """Whether rows may come without it."""
        return self.missing != "refuse"

    def values(self) -> dict[str, Any]:
        """What a bundle, a graph and a page say of it, in what JSON has: an open end is null."""
        low, high = (float(end) if math.isfinite(end) else None for end in (self.low, self.high))
        known = {"name": self.name, "unit": self.unit, "low": low, "high": high}
        return known | {"levels": list(self.levels)}

    def describe(self) -> dict[str, Any]:
        """What a page must know of it."""
        known = self.values() | {"other": self.other}
        if self.date:  # a number, unless a row says the whole date by the title of its column
            return known | {"column": None, "date": {"part": self.date, "column": self.column}}
        return known | {"column": self.column}

    def _check_measure(self) -> None:
        """Refuse another measure that is none, and its keys where there is none."""
        if not self.equals and (self.by or self.within or self.counted):
            raise KnowledgeError(
                f"feature '{self.name}': by, within and counted belong to equals, the feature that "
                "this is another measure of"
            )
        if self.equals and not self.by:
            raise KnowledgeError(
                f"feature '{self.name}': equals = '{self.equals}' needs a formula, such as by = "
                f'"0.93*log10({self.name}) + 0.2"'
            )
        if self.equals and (self.levels or self.date or self.may_miss or not self.have):
            raise KnowledgeError(
                f"feature '{self.name}': equals is for a number in a column of its own; levels, "
                f"date, missing and have belong to '{self.equals}'"
            )
        if not 0.0 <= self.within < math.inf:
            raise KnowledgeError(
                f"feature '{self.name}': within must be a number from 0, got {self.within:g}"
            )

    def _check_missing(self) -> None:
        if isinstance(self.missing, str):
            words = ("level", *self.levels) if self.levels else ("mean", "median")
            fine = self.missing in ("refuse", *words)
            if self.missing == "median" and fine and math.isinf(self.high - self.low):
                raise KnowledgeError(
                    f"feature '{self.name}': missing = median needs a scope, low and high, which "
                    "the sites' counts are taken over"
                )
        else:
            fine = not self.levels and math.isfinite(self.missing)
        if not fine:
            able = "level or one of its levels" if self.levels else "mean, median or a number"
            raise KnowledgeError(
                f"feature '{self.name}': missing must be refuse, {able}, got {self.missing!r}"
            )


@dataclass(frozen=True)
class Schema:
    """Columns and classes by name. Classes are in order where the task has one (grades).

    Whether they are `ordered` is something all sites must agree on; where nobody says so, names
    with one prefix and rising numbers (CSR30, CSR32) are.
    """

    features: tuple[Feature, ...]  # the columns
    classes: tuple[str, ...]  # the answers, in order where they have one
    label: str = "label"  # the column of a data file that holds the class
    ordered: bool = field(default=None)  # type: ignore[assignment]  # None: read off the names
    unit: str = ""  # of a label that is a number

    def __post_init__(self) -> None:
        if cast("bool | None", self.ordered) is None:  # nobody said
            object.__setattr__(self, "ordered", in_order(self.classes))
        for what, names in (("feature", self.names), ("class", self.classes)):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise KnowledgeError(f"{what} '{min(twice)}' is named twice")
        read = [(f.column.strip() if f.column else f.name, f.date) for f in self.features]
        for title, date in read:
            if read.count((title, date)) > 1 or (date and (title, "") in read):
                raise KnowledgeError(f"two features are read from the column '{title}'")
        if len(self.classes) < 2:
            raise KnowledgeError(f"there must be at least 2 classes, got {len(self.classes)}")
        if not self.features:
            raise KnowledgeError("there must be at least one feature")
        if self.label in self.absent:
            raise KnowledgeError(
                f"feature '{self.label}' has have = false and is the label, which cannot be absent "
                "where it is to be learned: take it out of the features"
            )
        if not any(f.have for f in self.features):
            raise KnowledgeError(
                "every feature has have = false, so that nothing is left to learn from: leave it "
                "out of at least one"
            )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @property
    def absent(self) -> tuple[str, ...]:
        """The features that this site does not measure, which no other place may be told."""
        return tuple(feature.name for feature in self.features if not feature.have)

    @property
    def shared(self) -> Schema:
        """The same without what a site has of it: what all sites of a federation know."""
        if all(f.have and f.own is None for f in self.features):
            return self
        plain = tuple(replace(f, have=True, own=None) for f in self.features)
        return replace(self, features=plain)

    @property
    def titles(self) -> dict[str, str]:
        """The name behind each title that a column of data may have: that of the feature first."""
        columns = {f.column.strip(): f.name for f in self.features if f.column and not f.date}
        return columns | {name: name for name in self.names}

    @property
    def dates(self) -> dict[str, tuple[Feature, ...]]:
        """The features behind each column of dates, by its title."""
        found: dict[str, tuple[Feature, ...]] = {}
        for feature in self.features:
            if feature.date and feature.column:
                title = feature.column.strip()
                found[title] = (*found.get(title, ()), feature)
        return found

    def values(self) -> dict[str, Any]:
        """What bundle.json says of it."""
        return {
            "features": list_features(self.features),
            "classes": list(self.classes),
            "label": self.label,
        }

    def column(self, name: str) -> int:
        """The position of a feature."""
        if name not in self.names:
            raise KnowledgeError(unknown("feature", name, self.names))
        return self.names.index(name)

    def grade(self, name: str) -> int:
        """The position of a class."""
        if name not in self.classes:
            raise KnowledgeError(unknown("class", name, self.classes))
        return self.classes.index(name)

    def check(self, x: Any) -> None:
        if x.ndim != 2 or x.shape[1] != len(self.features):
            raise KnowledgeError(
                f"rows must have the {len(self.features)} columns of the schema, "
                f"got shape {tuple(x.shape)}"
            )


def in_order(classes: Sequence[str]) -> bool:
    """Whether names share a prefix and end in rising numbers.

    >>> in_order(["CSR30", "CSR32", "CSR34"]), in_order(["low", "high"])
    (True, False)
    """
    parts = [re.fullmatch(r"(.*?\D)(\d{1,9})", name) for name in classes]
    found = [(part[1], int(part[2])) for part in parts if part is not None]
    if len(found) < max(2, len(classes)):
        return False
    rising = all(a < b for (_, a), (_, b) in itertools.pairwise(found))
    return rising and len({prefix for prefix, _ in found}) == 1


def fill_features(own: tuple[Feature, ...], asked: Sequence[Feature]) -> tuple[Feature, ...]:
    """A site's features among those of its federation, of which it does not have the others.

    Where it names one that is not asked for, or has another order, they stay as they are.
    """
    known = {feature.name: feature for feature in own}
    common = [feature.name for feature in asked if feature.name in known]
    if common != [feature.name for feature in own]:
        return own
    return tuple(
        known.get(feature.name) or replace(feature, have=False, own=None) for feature in asked
    )


def list_features(features: Sequence[Feature]) -> list[dict[str, Any]]:
    """Features as bundle.json lists them: with what may be missing, where anything may."""
    return [
        one.values()
        | ({"missing": one.missing} if one.may_miss else {})
        | ({"other": True} if one.other else {})
        | ({} if one.have else {"have": False})
        for one in features
    ]


def name_columns(names: Sequence[str], classes: Sequence[str]) -> Schema:
    """A schema without units or scope."""
    return Schema(tuple(Feature(name) for name in names), tuple(classes))
