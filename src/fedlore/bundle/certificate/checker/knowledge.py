"""knowledge.toml and its tables, read from scratch: what each source says of rows and of boxes."""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .cells import Column, Unreadable, read_rules, single
from .directions import Direction, read_directions, read_region
from .expressions import Tree, columns_in, parse, value
from .intervals import Boxes
from .orders import never_above
from .tables import Table
from .trusting import Leaning, read_leaning, read_trust

Array = Any  # of numpy
_EPS = float(np.finfo(np.float32).eps)


@dataclass(frozen=True, eq=False)
class Limits:
    """A range between two formulas: all classes that meet [lower, upper]."""

    lower: Tree | None
    upper: Tree | None
    edges: Array  # (k - 1,)
    crossed: str
    columns: tuple[int, ...] = ()  # a formula has no thresholds

    @property
    def trees(self) -> list[Tree]:
        return [tree for tree in (self.lower, self.upper) if tree is not None]

    def lacks(self, x: Array) -> Array:
        """Rows in which a value that either formula looks at is missing, (n,)."""
        return _lacks(self.trees, x)

    def says(self, x: Array) -> tuple[Array, Array]:
        low = np.full(len(x), -np.inf, np.float32) if self.lower is None else value(self.lower, x)
        high = np.full(len(x), np.inf, np.float32) if self.upper is None else value(self.upper, x)
        low = np.where(np.isfinite(low), low, np.float32(-np.inf))
        high = np.where(np.isfinite(high), high, np.float32(np.inf))
        if self.crossed == "all" and len(self.trees) == 2:  # with the value they might cross
            low = np.where(self.lacks(x), np.float32(-np.inf), low)
            high = np.where(self.lacks(x), np.float32(np.inf), high)
        with np.errstate(invalid="ignore"):
            near = np.float32(_EPS * 16) * np.maximum(np.abs(low), np.abs(high))
            far = (low > high) & (low - high > near)
        least = np.where(far, -np.inf, np.minimum(low, high))
        most = np.where(far, np.inf, np.maximum(low, high))
        grades = np.arange(len(self.edges) + 1)
        first, last = grade(least, self.edges)[:, None], grade(most, self.edges)[:, None]
        allowed = (first <= grades) & (grades <= last)
        return allowed, far & (self.crossed == "error")

    def sure(self, boxes: Boxes) -> Array:
        grades = np.arange(len(self.edges) + 1)
        first = np.zeros(len(boxes.low), int)
        last = np.full(len(boxes.low), len(self.edges))
        if self.lower is not None:
            top = boxes.bounds(self.lower)[1]
            first = np.where(np.isnan(top), 0, grade(top, self.edges))
        if self.upper is not None:
            bottom = boxes.bounds(self.upper)[0]
            last = np.where(np.isnan(bottom), last, grade(bottom, self.edges))
        return (first[:, None] <= grades) & (grades <= last[:, None])

    def safe(self, boxes: Boxes) -> Array:
        if self.crossed != "error" or self.lower is None or self.upper is None:
            return np.ones(len(boxes.low), bool)
        return never_above(self.lower, self.upper, boxes)


@dataclass(frozen=True, eq=False)
class Graded:
    """A prediction: the class of a formula's value, or a blurred one."""

    tree: Tree
    written: tuple[float, ...]  # the edges
    spread: float | None = None
    columns: tuple[int, ...] = ()  # a formula has no thresholds

    @property
    def trees(self) -> list[Tree]:
        return [self.tree]

    @property
    def edges(self) -> Array:
        """The edges as values are held against them, (k - 1,)."""
        return np.array(self.written, np.float32)

    def lacks(self, x: Array) -> Array:
        """Rows in which a value that the formula looks at is missing, (n,)."""
        return _lacks(self.trees, x)

    def says(self, x: Array) -> tuple[Array, Array]:
        found = value(self.tree, x)
        known = np.isfinite(found)
        never = np.zeros(len(x), bool)
        if self.spread is None:
            rows = grade(found, self.edges)[:, None] == np.arange(len(self.edges) + 1)
            return (rows & known[:, None]).astype(np.float32), never
        z = (np.array(self.written) - found[:, None]) / (self.spread * math.sqrt(2))
        below = (1 + np.vectorize(math.erf, otypes=[float])(np.nan_to_num(z))) * 0.5
        rows = np.diff(below, axis=1, prepend=0.0, append=1.0).astype(np.float32)
        return np.where(known[:, None], rows, np.float32(0)), never

    def may_say(self, boxes: Boxes) -> Array:
        k = len(self.edges) + 1
        if self.spread is not None:
            return np.ones((len(boxes.low), k), bool)
        least, most = boxes.bounds(self.tree)
        never = np.isnan(least)
        first, last = (grade(np.nan_to_num(e), self.edges)[:, None] for e in (least, most))
        grades = np.arange(k)
        return (first <= grades) & (grades <= last) & ~never[:, None]

    def safe(self, boxes: Boxes) -> Array:
        return np.ones(len(boxes.low), bool)


@dataclass(frozen=True, eq=False)
class Side:
    """The sources of [predict] or [range] and how they are combined."""

    sources: list[Any]
    combine: str
    empty: str = "error"
    weights: tuple[float, ...] = ()


class Scoped(Protocol):
    """Knowledge of any task, as far as its scope and its sources matter."""

    @property
    def columns(self) -> tuple[Column, ...]: ...

    @property
    def predict(self) -> Side: ...

    @property
    def range(self) -> Side: ...

    @property
    def directions(self) -> tuple[Direction, ...]: ...


@dataclass(frozen=True, eq=False)
class Known:
    """All that a knowledge file says."""

    columns: tuple[Column, ...]
    classes: tuple[str, ...]
    trust: float
    conflict: str
    predict: Side
    range: Side
    confusion: Array | None = None  # (k, k) of an expert who is heard through it
    directions: tuple[Direction, ...] = ()  # of features with a shape
    leaning: Leaning | None = None  # λ row by row

    @property
    def k(self) -> int:
        return len(self.classes)


def read_columns(said: Mapping[str, Any]) -> tuple[Column, ...]:
    """The features of a knowledge file."""
    return tuple(
        Column(
            entry["name"],
            float(entry.get("low", -math.inf)),
            float(entry.get("high", math.inf)),
            tuple(entry.get("levels", ())),
            str(entry.get("unit", "")),
            entry.get("missing", "refuse") != "refuse",
            bool(entry.get("other", False)),
        )
        for entry in said["features"]
    )


def read_knowledge(files: Mapping[str, str]) -> Known:
    """Knowledge from the texts of its files; what is no table or formula is refused."""
    if "knowledge.toml" not in files:
        raise Unreadable("there is no knowledge.toml")
    said = tomllib.loads(files["knowledge.toml"])
    columns = read_columns(said)
    classes = tuple(said["classes"])
    sides = {}
    for name in ("predict", "range"):
        part = said.get(name, {})
        around = Around(name, columns, classes, said.get("edges", ()), files)
        sources = [_source(entry, around) for entry in part.get("sources", ())]
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
        read_trust(said),
        said.get("conflict", "abstain"),
        sides["predict"],
        sides["range"],
        directions=read_directions(said, columns),
        leaning=read_leaning(said, read_region(columns)),
    )


@dataclass(frozen=True, eq=False)
class Around:
    """What a source needs to know of the file around it."""

    side: str  # predict or range
    columns: tuple[Column, ...]
    classes: tuple[str, ...]
    edges: Any  # of formulas that have none of their own
    files: Mapping[str, str]

    def tree(self, text: str) -> Tree:
        return parse(text, [column.name for column in self.columns])

    def cut(self, entry: Mapping[str, Any]) -> tuple[float, ...]:
        return tuple(map(float, entry.get("edges") or self.edges))


def _table(entry: Mapping[str, Any], around: Around) -> Table:
    text = around.files.get(entry["table"])
    if text is None:
        raise Unreadable(f"the table {entry['table']} is not there")
    rules, ranked = read_rules(text, around.columns, around.classes, entry.get("outcome"))
    default = "intersect" if around.side == "range" else "priority" if ranked else "first"
    policy = entry.get("hit") or default
    if policy == "priority":
        rules = sorted(rules, key=lambda rule: rule.priority)
    return Table(entry["table"], rules, policy, len(around.classes))


def _read_graded(entry: Mapping[str, Any], around: Around) -> Graded:
    return Graded(around.tree(entry["formula"]), around.cut(entry), entry.get("spread"))


def _limits(entry: Mapping[str, Any], around: Around) -> Limits:
    lower, upper = (around.tree(entry[key]) if key in entry else None for key in ("lower", "upper"))
    edges = np.array(around.cut(entry), np.float32)
    return Limits(lower, upper, edges, entry.get("crossed", "error"))


#: How each kind of source is read, by the key that names it.
READERS: dict[str, Callable[[Mapping[str, Any], Around], Any]] = {
    "table": _table,
    "formula": _read_graded,
    "lower": _limits,
    "upper": _limits,
}


def _source(entry: Mapping[str, Any], around: Around) -> Any:
    kind = next((key for key in READERS if key in entry), None)
    if kind is None:
        kind = next((key for key in ("onnx", "entry", "conformal") if key in entry), "unknown")
        raise Unreadable(f"a source of kind '{kind}' is neither a table nor a formula")
    return READERS[kind](entry, around)


def _lacks(trees: list[Tree], x: Array) -> Array:
    columns = sorted({column for tree in trees for column in columns_in(tree)})
    return np.isnan(x[:, columns]).any(1)


def grade(values: Array, edges: Array) -> Array:
    """The class of each number; one on an edge belongs to the class above it."""
    return np.searchsorted(edges.astype(np.float64), values.astype(np.float64), side="right")


def scope_of(known: Scoped) -> tuple[Array, Array]:
    """The scope as a box of single-precision rows, (d,) each."""
    largest = float(np.finfo(np.float32).max)
    low = [0.0 if c.levels else max(single(c.low), -largest) for c in known.columns]
    high = [
        float(len(c.levels) - 1) if c.levels else min(single(c.high), largest)
        for c in known.columns
    ]
    return np.array(low), np.array(high)
