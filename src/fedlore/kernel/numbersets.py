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
from .expressions import Tree
from .graded import Limits
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
