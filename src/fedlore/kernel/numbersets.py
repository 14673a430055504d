"""Knowledge about a number: sets of rows, and whether they are never empty, all over the scope.

The line of numbers is cut at every end that a table names and at the bounds, into points and what
lies between them; to a table these pieces are its classes, and between formulas a row's set is what
lies between two numbers. A set is then pieces, met with such an interval.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from .cells import parse_set
from .directions import Direction, read_directions, read_region
from .enclosure import Boxes
from .expressions import Tree, columns_in, value
from .graded import Limits
from .holes import seen_rows, unusable_rows
from .knowledge import Around, Side, read_columns
from .schema import Feature
from .sheets import outcome_texts
from .tables import Table
from .trusting import Leaning, read_leaning, read_trust

Array = Any  # of numpy
Pair = tuple[float, float]


@dataclass(frozen=True, eq=False)
class NamedNumber:
    """A formula that names a number."""

    tree: Tree
    columns: tuple[int, ...] = ()  # a formula has no thresholds

    def lacks(self, x: Array) -> Array:
        """Rows in which a value that it needs is missing, (n,)."""
        return np.isnan(x[:, sorted(columns_in(self.tree))]).any(1)

    @property
    def trees(self) -> list[Tree]:
        return [self.tree]

    def speaks(self, boxes: Boxes) -> Array:
        """Boxes in which every row gets a number, (b,)."""
        return ~boxes.interval(self.tree).undefined

    def safe(self, boxes: Boxes) -> Array:
        """It refuses no row."""
        return np.ones(len(boxes), bool)


@dataclass(frozen=True, eq=False)
class NumberKnown:
    """All that a knowledge file about a number says."""

    columns: tuple[Feature, ...]
    lower: float
    upper: float
    target: dict[str, Any]
    trust: float
    conflict: str
    predict: Side
    range: Side
    pieces: Array  # (p, 2), the ends of each
    spread: float | None = None  # of a bell around the expert's number
    directions: tuple[Direction, ...] = ()  # of features with a shape
    leaning: Leaning | None = None  # λ row by row

    @cached_property
    def inside(self) -> Array:
        """The pieces that lie in the bounds, (p,)."""
        found: Array = (self.pieces[:, 0] >= self.lower) & (self.pieces[:, 1] <= self.upper)
        return found


def is_about_number(files: Mapping[str, str]) -> bool:
    """Whether the knowledge in these files has a target in place of classes."""
    return "target" in tomllib.loads(files.get("knowledge.toml", ""))


def read_number_knowledge(files: Mapping[str, str]) -> NumberKnown:
    """Knowledge from the texts of its files; what is no table or formula is refused."""
    said = tomllib.loads(files["knowledge.toml"])
    columns = read_columns(said)
    target = dict(said["target"])
    low, high = float(target["lower"]), float(target["upper"])
    ends = {low, high}
    arounds = {name: Around(name, columns, (), (), files) for name in ("predict", "range")}
    for name, around in arounds.items():
        for entry in said.get(name, {}).get("sources", ()):
            if "table" in entry:
                for text in outcome_texts(around.page(entry), entry.get("outcome")):
                    ends |= {end for pair in parse_set(text) for end in pair}
    pieces = _cut(sorted(end for end in ends if math.isfinite(end)))
    sides = {}
    for name, around in arounds.items():
        part = said.get(name, {})
        sources = [_source(entry, around, pieces) for entry in part.get("sources", ())]
        sides[name] = Side(sources, part.get("combine", "all"), part.get("empty", "error"))
    trust = read_trust(said)
    conflict = said.get("conflict", "abstain")
    return NumberKnown(
        *(columns, low, high, target, trust, conflict, sides["predict"], sides["range"], pieces),
        spread=said.get("predict", {}).get("spread"),
        directions=read_directions(said, columns),
        leaning=read_leaning(said, read_region(columns)),
    )


def _cut(ends: list[float]) -> Array:
    line: list[Pair] = []
    before = -math.inf
    for end in ends:
        line += [(before, end), (end, end)]
        before = end
    return np.array([*line, (before, math.inf)])


def _source(entry: Mapping[str, Any], around: Around, pieces: Array) -> Any:
    if "confidence" in entry:
        raise KnowledgeError("a source about a number has a confidence")
    if "formula" in entry:
        return NamedNumber(around.tree(entry["formula"]))
    if "lower" in entry or "upper" in entry:
        low, high = (around.tree(entry[k]) if k in entry else None for k in ("lower", "upper"))
        return Limits(low, high, np.zeros(0), "error")
    if "table" not in entry:
        kind = next(iter(entry), "unknown")
        raise KnowledgeError(f"a source of kind '{kind}' is neither a table nor a formula")
    page = around.page(entry)
    words = outcome_texts(page, entry.get("outcome"))
    found = around.rules(entry, page, words)
    if min(found.confidences) < 1.0:
        raise KnowledgeError("a rule about a number has a confidence")
    held = [_held(parse_set(word), pieces) for word in words]
    rules = [found.rules[index] for index in found.order]
    rules = [replace(rule, outcome=held[rule.outcome[0]]) for rule in rules]
    return Table(entry["table"], rules, found.policy, len(pieces))


def _held(pairs: tuple[Pair, ...], pieces: Array) -> tuple[int, ...]:
    inside = np.zeros(len(pieces), bool)
    for low, high in pairs:
        inside |= (pieces[:, 0] >= low) & (pieces[:, 1] <= high)
    return tuple(np.flatnonzero(inside).tolist())


@dataclass(frozen=True, eq=False)
class SetRows:
    """Each row's set: where the pieces that are allowed meet [low, high]; several are joined."""

    parts: list[tuple[Array, Array, Array]]  # allowed (n, p), low (n,), high (n,)
    refused: Array  # (n,)

    def row(self, known: NumberKnown, place: int) -> list[Pair]:
        """The intervals of one row, in order, those that touch made one."""
        found: list[Pair] = []
        for allowed, low, high in self.parts:
            for piece in known.pieces[allowed[place]]:
                first, last = max(piece[0], low[place]), min(piece[1], high[place])
                if first <= last:
                    found.append((float(first), float(last)))
        joined: list[Pair] = []
        for first, last in sorted(found):
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], last))
            else:
                joined.append((first, last))
        return joined

    def holds(self, known: NumberKnown, values: Array) -> Array:
        """Whether each row's number lies in its set, (n,); NaN does not."""
        v = values[:, None]
        here = (known.pieces[None, :, 0] <= v) & (v <= known.pieces[None, :, 1])
        found = np.zeros(len(values), bool)
        for allowed, low, high in self.parts:
            found |= (allowed & here).any(1) & (low <= values) & (values <= high)
        return found

    def empty(self, known: NumberKnown) -> Array:
        """Rows without any number, (n,)."""
        some = np.zeros(len(self.refused), bool)
        for allowed, low, high in self.parts:
            first = np.maximum(known.pieces[None, :, 0], low[:, None])
            last = np.minimum(known.pieces[None, :, 1], high[:, None])
            some |= (allowed & (first <= last)).any(1)
        return ~some


def sets_of(known: NumberKnown, x: Array) -> SetRows:
    """The sets of rows (n, d), in single precision, within the bounds, and who is refused."""
    side, n, x = known.range, len(x), seen_rows(known, x)
    low, high = np.full(n, known.lower), np.full(n, known.upper)
    every = np.ones((n, len(known.pieces)), bool)
    whole = (every, low, high)
    refused = np.zeros(n, bool)
    if not side.sources:
        return SetRows([whole], refused)
    parts = []
    for source in side.sources:
        first, last, allowed = np.full(n, -np.inf), np.full(n, np.inf), every
        if isinstance(source, Limits):
            first, last = _ends(source, x)
            refused = refused | (first > last)
        else:
            allowed = source.says(x)[0]
        parts.append((allowed, first, last))
    if side.combine == "all":
        allowed = np.logical_and.reduce([part[0] for part in parts])
        first = np.maximum.reduce([part[1] for part in parts])
        last = np.minimum.reduce([part[2] for part in parts])
        parts = [(allowed, first, last)]
    parts = [(a, np.maximum(low, first), np.minimum(high, last)) for a, first, last in parts]
    none = SetRows(parts, refused).empty(known)
    if side.empty == "error":
        return SetRows(parts, refused | none)
    none = none | np.any([source.lacks(x) for source in side.sources], axis=0)
    return SetRows([*parts, (every & none[:, None], low, high)], refused)


def _ends(source: Limits, x: Array) -> tuple[Array, Array]:
    n = len(x)
    low = np.full(n, -np.inf) if source.lower is None else value(source.lower, x).astype(float)
    high = np.full(n, np.inf) if source.upper is None else value(source.upper, x).astype(float)
    return np.where(np.isfinite(low), low, -np.inf), np.where(np.isfinite(high), high, np.inf)


def points_of(known: NumberKnown, x: Array) -> tuple[Array, Array]:
    """The number that the expert names, (n,), NaN where he is silent, and who is refused."""
    x = seen_rows(known, x)
    said, refused = np.full(len(x), np.nan), np.zeros(len(x), bool)
    over = refused  # whoever lacks a value might have spoken
    for source in known.predict.sources:
        if isinstance(source, NamedNumber):
            number = value(source.tree, x).astype(float)
        else:
            rows, wrong = source.says(x)
            refused = refused | wrong
            number = np.where(rows.any(1), known.pieces[rows.argmax(1), 0], np.nan)
        number = np.where(np.isfinite(number) & ~over, number, np.nan)
        said = np.where(np.isnan(said), number, said)
        over = over | source.lacks(x)
    return said, refused


def refused_rows(known: NumberKnown, x: Array) -> Array:
    """Rows that get no answer: for what is no value, by range, disagreement or policy."""
    sets = sets_of(known, x)
    said, wrong = points_of(known, x)
    refused: Array = sets.refused | wrong | unusable_rows(known, x)
    if known.conflict == "error":
        refused = refused | (~np.isnan(said) & ~sets.holds(known, said))
    return refused


@dataclass(frozen=True, eq=False)
class Bands:
    """Each row's set as columns of ends, in order, NaN where there is no interval."""

    lower: Array  # (n, s)
    upper: Array  # (n, s)

    def nearest(self, values: Array) -> Array:
        """The number of each set that is nearest to the row's, (n,); of two the lower one."""
        moved = np.minimum(np.maximum(values[:, None], self.lower), self.upper)
        away = np.where(np.isnan(moved), np.inf, np.abs(moved - values[:, None]))
        found: Array = np.take_along_axis(moved, away.argmin(1)[:, None], 1)[:, 0]
        return found

    def holds(self, values: Array) -> Array:
        """Whether each row's number lies in its set, (n,)."""
        v = values[:, None]
        found: Array = ((self.lower <= v) & (v <= self.upper)).any(1)
        return found

    @property
    def ends(self) -> tuple[Array, Array]:
        """The least and the greatest number of each, (n,)."""
        return np.nanmin(self.lower, 1), np.nanmax(self.upper, 1)


def bands_of(known: NumberKnown, x: Array) -> Bands:
    """The set of each row."""
    sets = sets_of(known, x)
    rows = [sets.row(known, place) for place in range(len(x))]
    width = max((len(row) for row in rows), default=1) or 1
    ends = np.full((len(x), width, 2), np.nan)
    for place, row in enumerate(rows):
        ends[place, : len(row)] = np.reshape(row, (-1, 2))
    return Bands(ends[:, :, 0], ends[:, :, 1])


def number_within(known: NumberKnown, said: Array, bands: Bands) -> Array:
    """The expert's numbers, those outside the set silenced or moved as the policy says."""
    outside = ~np.isnan(said) & ~bands.holds(said)
    moved = bands.nearest(np.nan_to_num(said)) if known.conflict == "project" else np.nan
    return np.where(outside, moved, said)
