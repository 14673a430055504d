"""knowledge.toml and its tables, read from scratch: what sources say of classes or of a number.

Of a number the line is cut at every end that a table names and at the bounds, into points and what
lies between them: to a table these pieces are its classes.
"""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..errors import KnowledgeError
from .cells import parse_set
from .expressions import Tree, columns_in, parse
from .schema import Feature
from .search import Scope
from .sheets import Rules, Sheet, outcome_texts, parse_csv, read_rules
from .sources import Graded, Limits, NamedNumber, Soft, Table, soften, split

Array = Any  # of numpy
Pair = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Side:
    """The sources of [predict] or [range] and how they are combined."""

    sources: list[Any]
    combine: str
    empty: str = "error"
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Line:
    """The number that a file is about, within bounds."""

    lower: float
    upper: float
    name: str
    pieces: Array  # (p, 2), the ends of each

    @property
    def bounds(self) -> Pair:
        return self.lower, self.upper

    @cached_property
    def inside(self) -> Array:
        """The pieces that lie in the bounds, (p,)."""
        found: Array = (self.pieces[:, 0] >= self.lower) & (self.pieces[:, 1] <= self.upper)
        return found

    def places(self, pairs: Sequence[Pair]) -> tuple[int, ...]:
        """The pieces that lie in some intervals."""
        within = np.zeros(len(self.pieces), bool)
        for low, high in pairs:
            within |= (self.pieces[:, 0] >= low) & (self.pieces[:, 1] <= high)
        return tuple(np.flatnonzero(within).tolist())


class Direction(NamedTuple):
    """The shape of a feature: its column, the sign of its effect, the rows in which it holds."""

    column: int
    sign: int
    region: Tree | None


class RowTrust(NamedTuple):
    """λ row by row: where the owner says it, and elsewhere what the site has learned."""

    regions: tuple[tuple[Tree, float], ...]  # 1 inside, 0 outside, NaN unknown; and λ there
    learned: Tree | None

    @property
    def columns(self) -> set[int]:
        """The columns that λ looks at."""
        trees = [tree for tree, _ in self.regions]
        trees += [] if self.learned is None else [self.learned]
        return {column for tree in trees for column in columns_in(tree)}


@dataclass(frozen=True, eq=False)
class Known:
    """All that a knowledge file says."""

    columns: tuple[Feature, ...]
    classes: tuple[str, ...]
    trust: float  # λ where a row has none of its own
    conflict: str
    predict: Side
    range: Side
    confusion: Array | None = None  # (k, k) of an expert who is heard through it
    directions: tuple[Direction, ...] = ()  # of features with a shape
    row_trust: RowTrust | None = None
    soft: tuple[Soft, ...] = ()  # ranges that hold in most cases only
    line: Line | None = None  # in place of classes

    @property
    def k(self) -> int:
        return len(self.classes)

    @property
    def number(self) -> Line:
        """The line of a file that is about a number."""
        assert self.line is not None
        return self.line


def read_knowledge(files: Mapping[str, str]) -> Known:
    """Knowledge from the texts of its files; what is no table or formula is refused."""
    if "knowledge.toml" not in files:
        raise KnowledgeError("there is no knowledge.toml")
    said = tomllib.loads(files["knowledge.toml"])
    columns = tuple(
        Feature(**{**entry, "levels": tuple(entry.get("levels", ()))}) for entry in said["features"]
    )
    classes = () if "target" in said else tuple(said["classes"])
    plain = Around("", columns, classes, said.get("edges", ()), files)
    line = _read_line(said, plain) if "target" in said else None
    sides, mostly = {}, list[Soft]()
    for name in ("predict", "range"):
        part, around = said.get(name, {}), replace(plain, side=name, line=line)
        sources = [_source(entry, around) for entry in part.get("sources", ())]
        if name == "range":
            parts = [split(source) for source in sources]
            sources = [one for hard, _ in parts for one in hard]
            mostly = [one for _, soft in parts for one in soft]
        default = "first" if name == "predict" else "all"
        sides[name] = Side(
            sources,
            part.get("combine", default),
            part.get("empty", "error"),
            tuple(part.get("weights", ()) or (1.0,) * len(sources)),
        )
    return Known(
        columns,
        classes,
        _read_trust(said),
        said.get("conflict", "abstain"),
        sides["predict"],
        sides["range"],
        directions=_read_directions(said, columns),
        row_trust=_read_row_trust(said, columns),
        soft=tuple(mostly),
        line=line,
    )


@dataclass(frozen=True, eq=False)
class Around:
    """What a source needs to know of the file around it."""

    side: str  # predict or range
    columns: tuple[Feature, ...]
    classes: tuple[str, ...]
    edges: Any  # of formulas that have none of their own
    files: Mapping[str, str]
    line: Line | None = None

    def tree(self, text: str) -> Tree:
        return parse(text, self.columns)

    def page(self, entry: Mapping[str, Any]) -> Sheet:
        """The sheet that a source names."""
        text = self.files.get(entry["table"])
        if text is None:
            raise KnowledgeError(f"the table {entry['table']} is not there")
        return parse_csv(text, entry["table"])

    def rules(self, entry: Mapping[str, Any], page: Sheet, classes: Sequence[str]) -> Rules:
        """The rules of a sheet, of which the entry says how they are read."""
        return read_rules(
            page,
            self.columns,
            classes,
            kind="range" if self.side == "range" else "predict",
            policy=entry.get("hit"),
            outcome=entry.get("outcome"),
            confidence=entry.get("confidence"),
        )

    def cut(self, entry: Mapping[str, Any]) -> tuple[float, ...]:
        return tuple(map(float, entry.get("edges") or self.edges))


def _read_line(said: Mapping[str, Any], around: Around) -> Line:
    """The line of numbers, cut at the bounds and at every end that a table names."""
    target = said["target"]
    low, high = float(target["lower"]), float(target["upper"])
    ends = {low, high}
    for name in ("predict", "range"):
        for entry in said.get(name, {}).get("sources", ()):
            if "table" in entry:
                for text in outcome_texts(around.page(entry), entry.get("outcome")):
                    ends |= {end for pair in parse_set(text) for end in pair}
    pieces: list[Pair] = []
    before = -math.inf
    for end in sorted(end for end in ends if math.isfinite(end)):
        pieces += [(before, end), (end, end)]
        before = end
    return Line(low, high, target.get("name", "y"), np.array([*pieces, (before, math.inf)]))


def _table(entry: Mapping[str, Any], around: Around) -> Any:
    page = around.page(entry)
    if around.line is None:
        found = around.rules(entry, page, around.classes)
        spoken = [found.rules[index] for index in found.order]
        table = Table(entry["table"], spoken, found.policy, len(around.classes))
        return soften(table, [found.confidences[index] for index in found.order])
    words = outcome_texts(page, entry.get("outcome"))
    found = around.rules(entry, page, words)
    if min(found.confidences) < 1.0:
        raise KnowledgeError("a rule about a number has a confidence")
    places = [around.line.places(parse_set(word)) for word in words]
    rules = [found.rules[index] for index in found.order]
    rules = [replace(rule, outcome=places[rule.outcome[0]]) for rule in rules]
    return Table(entry["table"], rules, found.policy, len(around.line.pieces))


def _formula(entry: Mapping[str, Any], around: Around) -> Any:
    tree = around.tree(entry["formula"])
    if around.line is not None:
        return NamedNumber(tree)
    source = Graded(tree, around.cut(entry), entry.get("spread"))
    return soften(source, [entry.get("confidence", 1.0)])


def _limits(entry: Mapping[str, Any], around: Around) -> Any:
    lower, upper = (around.tree(entry[key]) if key in entry else None for key in ("lower", "upper"))
    if around.line is not None:
        return Limits(lower, upper, np.zeros(0), "error")
    edges = np.array(around.cut(entry), np.float32)
    source = Limits(lower, upper, edges, entry.get("crossed", "error"))
    return soften(source, [entry.get("confidence", 1.0)])


#: How each kind of source is read, by the key that names it.
READERS: dict[str, Callable[[Mapping[str, Any], Around], Any]] = {
    "table": _table,
    "formula": _formula,
    "lower": _limits,
    "upper": _limits,
}


def _source(entry: Mapping[str, Any], around: Around) -> Any:
    kind = next((key for key in READERS if key in entry), None)
    if kind is None:
        kind = next(iter(entry), "unknown")
        raise KnowledgeError(f"a source of kind '{kind}' is neither a table nor a formula")
    if around.line is not None and "confidence" in entry:
        raise KnowledgeError("a source about a number has a confidence")
    return READERS[kind](entry, around)


def _read_directions(said: Mapping[str, Any], columns: Sequence[Feature]) -> tuple[Direction, ...]:
    """The shapes that a knowledge file declares."""
    names = [column.name for column in columns]
    return tuple(
        Direction(
            names.index(one["feature"]),
            {"raises": 1, "lowers": -1}[one["effect"]],
            _region(one["where"], columns) if one.get("where") else None,
        )
        for one in said.get("shape", {}).get("sources", ())
    )


def _read_trust(said: Mapping[str, Any]) -> float:
    reliance = said.get("reliance")
    table = said.get("trust", 0.0)
    one = table.get("value", 0.0) if isinstance(table, Mapping) else table
    return max(float(one if reliance is None else reliance), float(said.get("least_trust", 0.0)))


def _read_row_trust(said: Mapping[str, Any], columns: Sequence[Feature]) -> RowTrust | None:
    """λ row by row where the file says so; None where it is one number."""
    table = said.get("trust", 0.0)
    if not isinstance(table, Mapping):
        return None
    stated = [one for one in table.get("regions", ()) if "trust" in one]
    regions = tuple((_region(one["where"], columns), float(one["trust"])) for one in stated)
    if any(not 0.0 <= trust <= 1.0 for _, trust in regions):
        raise KnowledgeError(f"λ of a region lies outside [0, 1]: {[t for _, t in regions]}")
    text = table.get("formula")
    learned = parse(text, columns, words=True) if text else None
    return RowTrust(regions, learned) if regions or learned is not None else None


def _region(where: str, columns: Sequence[Feature]) -> Tree:
    """1 in the rows that a comparison holds for, 0 in others; it may name levels."""
    return parse(f"where({where}, 1, 0)", columns, words=True)


def scope_of(features: Sequence[Feature]) -> Scope:
    """The declared scope as a box of single-precision rows."""
    sides = [(0.0, len(f.levels) - 1.0) if f.levels else (f.low, f.high) for f in features]
    return Scope.of(sides, [bool(f.levels) for f in features])
