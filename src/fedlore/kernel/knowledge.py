"""knowledge.toml and its tables as a tree: what sources say of classes or of a number.

Of a number the line is cut at every end that a table names and at the bounds, into points and what
lies between them: to a table these pieces are its classes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..errors import KnowledgeError
from .cells import cut_line, parse_set, single
from .document import (
    FILE,
    Document,
    FormulaEntry,
    LimitsEntry,
    TableEntry,
    Target,
    check_edges,
    check_spread,
    check_trust,
    check_weights,
    read_document,
    read_entry,
)
from .expressions import Tree, columns_in, parse
from .schema import Feature, Schema
from .search import Scope
from .sheets import Rules, Sheet, examine_rules, outcome_texts, parse_csv, refusal
from .sources import Grades, Limits, Prediction, Side, Soft, Table, soften, split

#: How many numbers of the expert stand beside the features that a network or a member takes.
HEARD = 4  # of a network of a number: see `Measured.heard`
HEARD_PLACES = 2  # of a network that keeps shapes: the middle of the range and the expert's place
HEARD_OF_ORDER = 3  # of a member that names a place: that place, middle and half width of the range

Array = Any  # of numpy
Pair = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Line:
    """The number that a file is about, within bounds."""

    lower: float
    upper: float
    name: str
    pieces: Array  # (p, 2), the ends of each
    edges = None  # it is not cut into classes

    @property
    def k(self) -> int:
        return len(self.pieces)

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

    def touched(self, low: Array, high: Array) -> Array:
        """The pieces in which numbers between two ends may lie, (b, p)."""
        (first, last), (low, high) = self.pieces.T, (low[:, None], high[:, None])
        point = first == last
        return ((last > low) & (first < high)) | (point & (last >= low) & (first <= high))

    def within(self, low: Array, high: Array) -> Array:
        """The pieces that lie between two ends, (b, p)."""
        first, last = self.pieces.T
        found: Array = (low[:, None] <= first) & (last <= high[:, None])
        return found


class Direction(NamedTuple):
    """A shape or a piece of one: its column, the sign of its effect, the rows where it holds."""

    column: int
    sign: int
    region: Tree | None
    shape: int = 0  # which of the file's shapes it is a piece of
    side: str = ""  # of the turn, "<=" or ">="; empty: it has none
    turn: float = 0.0


class Bend(NamedTuple):
    """A shape that says how the slope of the number moves with a column: -1 down, 1 up."""

    column: int
    sign: int
    shape: int  # which of the file's shapes it is


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
    bends: tuple[Bend, ...] = ()  # of features in which a number is concave or convex
    row_trust: RowTrust | None = None
    soft: tuple[Soft, ...] = ()  # ranges that hold in most cases only
    line: Line | None = None  # in place of classes
    least_trust: float = 0.0  # λ is no smaller, whoever learned it

    @property
    def k(self) -> int:
        return len(self.classes) if self.line is None else self.line.k

    @property
    def number(self) -> Line:
        """The line of a file that is about a number."""
        assert self.line is not None
        return self.line


def read_knowledge(files: Mapping[str, str]) -> Known:
    """Knowledge from the texts of its files; what is no table or formula is refused."""
    if FILE not in files:
        raise KnowledgeError(f"there is no {FILE}")
    document = read_document(files[FILE])
    Schema(
        document.features, document.classes or ("lower", "upper")
    )  # refuses a name that stands twice
    plain = FileContext("predict", document, files)
    line = None if document.target is None else _read_line(document.target, plain)
    plain = replace(plain, line=line)
    predict = [_source(entry, plain) for entry in document.predict.sources]
    parts = [
        split(_source(entry, replace(plain, side="range"))) for entry in document.range.sources
    ]
    ranges = [one for hard, _ in parts for one in hard]
    weights = document.predict.weights or (1.0,) * len(predict)
    check_weights(weights, len(predict))
    trust, rows = document.trusts.value, _read_row_trust(document)
    check_trust(trust=trust, reliance=document.reliance, least_trust=document.least_trust,
                by_row=rows is not None)  # fmt: skip
    return Known(
        document.features,
        document.classes,
        max(trust if document.reliance is None else document.reliance, document.least_trust),
        document.conflict,
        Side(predict, document.predict.combine, weights=weights),
        Side(ranges, document.range.combine, document.range.empty),
        directions=_read_directions(document),
        bends=_read_bends(document),
        row_trust=rows,
        soft=tuple(one for _, soft in parts for one in soft),
        line=line,
        least_trust=document.least_trust,
    )


@dataclass(frozen=True, eq=False)
class FileContext:
    """What a source needs to know of the file around it."""

    side: str  # predict or range
    said: Document
    files: Mapping[str, str]
    line: Line | None = None

    def tree(self, text: str | None) -> Tree | None:
        return None if text is None else parse(text, self.said.features)

    def cells(self, edges: tuple[float, ...]) -> Line | Grades:
        """The line, or the classes that numbers are cut into."""
        if self.line is not None:
            return self.line
        edges = edges or self.said.edges
        check_edges(edges)
        if len(edges) + 1 != len(self.said.classes):
            raise KnowledgeError(f"{len(edges)} edges do not make {len(self.said.classes)} classes")
        return Grades(edges)

    def page(self, entry: TableEntry) -> Sheet:
        """The sheet that a source names."""
        text = self.files.get(entry.table)
        if text is None:
            raise KnowledgeError(f"the table {entry.table} is not there")
        if entry.sheet is not None:
            raise KnowledgeError(f"{entry.table}: a CSV file has no sheet '{entry.sheet}'")
        return parse_csv(text, entry.table)

    def rules(self, entry: TableEntry, page: Sheet, classes: Sequence[str]) -> Rules:
        """The rules of a sheet, of which the entry says how they are read."""
        rules, findings = examine_rules(
            page,
            self.said.features,
            classes,
            kind="range" if self.side == "range" else "predict",
            policy=entry.hit,
            outcome=entry.outcome,
            confidence=entry.confidence,
        )
        if rules is None:
            raise refusal(findings)
        return rules


def _read_line(target: Target, around: FileContext) -> Line:
    """The line of numbers, cut at the bounds and at every end that a table names."""
    ends = {*target.bounds}
    for entry in (*around.said.predict.sources, *around.said.range.sources):
        if "table" in entry:
            one = read_entry(entry, "range")
            assert isinstance(one, TableEntry)
            for text in outcome_texts(around.page(one), one.outcome):
                ends |= {end for pair in parse_set(text) for end in pair}
    return Line(*target.bounds, target.name, cut_line(ends))


def _table(entry: TableEntry, around: FileContext) -> Any:
    page = around.page(entry)
    if around.line is None:
        found = around.rules(entry, page, around.said.classes)
        spoken = [found.rules[index] for index in found.order]
        table = Table(entry.table, spoken, found.policy, len(around.said.classes))
        return soften(table, [found.confidences[index] for index in found.order])
    words = outcome_texts(page, entry.outcome)
    found = around.rules(entry, page, words)
    if min(found.confidences) < 1.0:
        raise KnowledgeError("a rule about a number has a confidence")
    places = [around.line.places(parse_set(word)) for word in words]
    rules = [found.rules[index] for index in found.order]
    rules = [replace(rule, outcome=places[rule.outcome[0]]) for rule in rules]
    return Table(entry.table, rules, found.policy, len(around.line.pieces))


def _formula(entry: FormulaEntry, around: FileContext) -> Any:
    tree = parse(entry.formula, around.said.features)
    spread = entry.spread if around.line is None else None
    if spread is not None:
        check_spread(spread)
    return soften(Prediction(tree, around.cells(entry.edges), spread), [entry.confidence or 1.0])


def _limits(entry: LimitsEntry, around: FileContext) -> Any:
    crossed = entry.crossed if around.line is None else "error"
    lower, upper = around.tree(entry.lower), around.tree(entry.upper)
    limits = Limits(lower, upper, around.cells(entry.edges), crossed)
    return soften(limits, [entry.confidence or 1.0])


READERS: dict[type, Callable[[Any, FileContext], Any]] = {
    TableEntry: _table,
    FormulaEntry: _formula,
    LimitsEntry: _limits,
}


def _source(values: Mapping[str, Any], around: FileContext) -> Any:
    entry = read_entry(values, around.side)
    if around.line is not None and entry.confidence is not None:
        raise KnowledgeError("a source about a number has a confidence")
    return READERS[type(entry)](entry, around)


def _read_directions(document: Document) -> tuple[Direction, ...]:
    """The shapes that a knowledge file declares, piece by piece."""
    names = [column.name for column in document.features]
    found = []
    for place, one in enumerate(document.shape.sources):
        column = names.index(one.feature)
        if not one.pieces and not one.bend:
            raise KnowledgeError(f"no model can be held to '{one}'")
        for piece in one.pieces:
            region = _region(one.where, document) if one.where else None
            if piece.side:
                turn = (piece.side, ("column", column), ("number", single(piece.turn)))
                both = turn if region is None else ("and", region[1], turn)
                region = ("where", both, ("number", 1.0), ("number", 0.0))
            found.append(Direction(column, piece.sign, region, place, piece.side, piece.turn))
    return tuple(found)


def _read_bends(document: Document) -> tuple[Bend, ...]:
    """The features in which the number is said to be concave or convex, everywhere."""
    names = [column.name for column in document.features]
    found = []
    for place, one in enumerate(document.shape.sources):
        if one.bend:
            if document.target is None or one.where:
                raise KnowledgeError(f"no model can be held to '{one}'")
            found.append(Bend(names.index(one.feature), one.bend, place))
    return tuple(found)


def _read_row_trust(document: Document) -> RowTrust | None:
    """λ row by row where the file says so; None where it is one number."""
    table = document.trusts
    regions = tuple(
        (_region(one.where, document), one.trust) for one in table.regions if one.trust is not None
    )
    for _, trust in regions:
        check_trust(trust=trust, least_trust=0.0, by_row=True)
    learned = parse(table.formula, document.features, words=True) if table.formula else None
    return RowTrust(regions, learned) if regions or learned is not None else None


def _region(where: str, document: Document) -> Tree:
    """1 in the rows that a comparison holds for, 0 in others; it may name levels."""
    return parse(f"where({where}, 1, 0)", document.features, words=True)


def scope_of(features: Sequence[Feature]) -> Scope:
    """The declared scope as a box of single-precision rows."""
    sides = [(0.0, len(f.levels) - 1.0) if f.levels else (f.low, f.high) for f in features]
    return Scope.of(sides, [bool(f.levels) for f in features])
