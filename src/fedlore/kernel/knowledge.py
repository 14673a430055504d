"""knowledge.toml and its tables, read from scratch: what each source says of rows and of boxes."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..errors import KnowledgeError
from .directions import Direction, read_directions, read_region
from .expressions import Tree, parse
from .graded import Graded, Limits
from .schema import Feature
from .search import Scope
from .sheets import Rules, Sheet, parse_csv, read_rules
from .soft import Soft, soften, split
from .tables import Table
from .trusting import Leaning, read_leaning, read_trust

Array = Any  # of numpy


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
    def columns(self) -> tuple[Feature, ...]: ...

    @property
    def predict(self) -> Side: ...

    @property
    def range(self) -> Side: ...

    @property
    def directions(self) -> tuple[Direction, ...]: ...


@dataclass(frozen=True, eq=False)
class Known:
    """All that a knowledge file says."""

    columns: tuple[Feature, ...]
    classes: tuple[str, ...]
    trust: float
    conflict: str
    predict: Side
    range: Side
    confusion: Array | None = None  # (k, k) of an expert who is heard through it
    directions: tuple[Direction, ...] = ()  # of features with a shape
    leaning: Leaning | None = None  # λ row by row
    soft: tuple[Soft, ...] = ()  # ranges that hold in most cases only

    @property
    def k(self) -> int:
        return len(self.classes)


def read_columns(said: Mapping[str, Any]) -> tuple[Feature, ...]:
    """The features of a knowledge file."""
    return tuple(
        Feature(**{**entry, "levels": tuple(entry.get("levels", ()))}) for entry in said["features"]
    )


def read_knowledge(files: Mapping[str, str]) -> Known:
    """Knowledge from the texts of its files; what is no table or formula is refused."""
    if "knowledge.toml" not in files:
        raise KnowledgeError("there is no knowledge.toml")
    said = tomllib.loads(files["knowledge.toml"])
    columns = read_columns(said)
    classes = tuple(said["classes"])
    sides, mostly = {}, list[Soft]()
    for name in ("predict", "range"):
        part = said.get(name, {})
        around = Around(name, columns, classes, said.get("edges", ()), files)
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
        read_trust(said),
        said.get("conflict", "abstain"),
        sides["predict"],
        sides["range"],
        directions=read_directions(said, columns),
        leaning=read_leaning(said, read_region(columns)),
        soft=tuple(mostly),
    )


@dataclass(frozen=True, eq=False)
class Around:
    """What a source needs to know of the file around it."""

    side: str  # predict or range
    columns: tuple[Feature, ...]
    classes: tuple[str, ...]
    edges: Any  # of formulas that have none of their own
    files: Mapping[str, str]

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


def _table(entry: Mapping[str, Any], around: Around) -> Any:
    rules = around.rules(entry, around.page(entry), around.classes)
    spoken = [rules.rules[index] for index in rules.order]
    table = Table(entry["table"], spoken, rules.policy, len(around.classes))
    return soften(table, [rules.confidences[index] for index in rules.order])


def _read_graded(entry: Mapping[str, Any], around: Around) -> Any:
    source = Graded(around.tree(entry["formula"]), around.cut(entry), entry.get("spread"))
    return soften(source, [entry.get("confidence", 1.0)])


def _limits(entry: Mapping[str, Any], around: Around) -> Any:
    lower, upper = (around.tree(entry[key]) if key in entry else None for key in ("lower", "upper"))
    edges = np.array(around.cut(entry), np.float32)
    source = Limits(lower, upper, edges, entry.get("crossed", "error"))
    return soften(source, [entry.get("confidence", 1.0)])


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
        kind = next(iter(entry), "unknown")
        raise KnowledgeError(f"a source of kind '{kind}' is neither a table nor a formula")
    return READERS[kind](entry, around)


def scope_of(features: Sequence[Feature]) -> Scope:
    """The declared scope as a box of single-precision rows."""
    sides = [(0.0, len(f.levels) - 1.0) if f.levels else (f.low, f.high) for f in features]
    return Scope.of(sides, [bool(f.levels) for f in features])
