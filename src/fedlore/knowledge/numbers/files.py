"""knowledge.toml for a number: the same file as for classes, with a [target] in their place."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...config import build, read_toml
from ...errors import FedloreError, KnowledgeError
from ..card import Card
from ..entrypoint import entry_point
from ..formulas.formula import Formula
from ..models import Outside
from ..schema import Feature, Schema
from ..sources import Conformal, Source, read_source
from ..views import Mask
from .bins import Bins
from .conformal import ConformalInterval
from .numbers import Conflict, Empty, Number, Numbers, SetModel
from .ranges import Between, FirstSaid, Join, Meet
from .tables import read_numbers_table


@dataclass(frozen=True)
class Target:
    """[target]: what is predicted. The federation declares bounds and bins, the site its name."""

    lower: float
    upper: float
    bins: int = 50  # k
    edges: tuple[float, ...] = ()  # all k + 1, in place of equal widths
    name: str = "y"
    unit: str = ""

    def cut(self) -> Bins:
        if not self.edges:
            return Bins(self.lower, self.upper, self.bins)
        if (self.edges[0], self.edges[-1]) != (self.lower, self.upper):
            raise KnowledgeError(
                f"edges must begin and end at the bounds {self.lower!r} and {self.upper!r}, got "
                f"{self.edges[0]!r} and {self.edges[-1]!r}"
            )
        return Bins.at(self.edges)


@dataclass(frozen=True)
class Predict:
    """[predict]: experts who name a number, heard in order."""

    sources: tuple[Source, ...] = ()
    spread: float | None = None  # σ of a soft prior


@dataclass(frozen=True)
class Range:
    """[range]: intervals, intersected or joined."""

    sources: tuple[Source, ...] = ()
    combine: Literal["all", "any"] = "all"
    empty: Empty = "error"


@dataclass(frozen=True)
class Document:
    """All that a knowledge.toml for a number may say."""

    features: tuple[Feature, ...]
    target: Target
    trust: float = 0.0
    rely: float | None = None
    outside: Outside = "error"
    conflict: Conflict = "abstain"
    entry_points: bool = False  # whether this file may name Python functions
    card: Card = field(default_factory=Card)
    predict: Predict = field(default_factory=Predict)
    range: Range = field(default_factory=Range)

    @property
    def schema(self) -> Schema:
        edges = self.target.cut().edges
        names = tuple(f"[{a:g}..{b:g})" for a, b in zip(edges, edges[1:], strict=False))
        apart = names if len(set(names)) == len(names) else tuple(map(str, range(len(names))))
        return Schema(self.features, apart, self.target.name)


@dataclass(frozen=True)
class NumberFile:
    """What a knowledge.toml about a number holds."""

    schema: Schema
    bins: Bins
    knowledge: Numbers
    card: Card


def read_numbers(path: str | Path) -> NumberFile:
    """Read a knowledge.toml with a [target], and the tables it names."""
    path = Path(path)
    with _naming(path.name):
        document = build(Document, read_toml(path))
        schema, bins = document.schema, document.target.cut()

    def opened(sources: tuple[Source, ...], side: Literal["predict", "range"]) -> list[Any]:
        found = []
        for place, source in enumerate(sources, 1):
            with _naming(f"{path.name}, [{side}] source {place}"):
                make = _point if side == "predict" else _range
                found.append(make(source, document, schema, path.parent))
        return found

    points = opened(document.predict.sources, "predict")
    ranges = opened(document.range.sources, "range")
    together = Meet if document.range.combine == "all" else Join
    with _naming(path.name):
        known = Numbers(
            points[0] if len(points) == 1 else FirstSaid(tuple(points)) if points else None,
            ranges[0] if len(ranges) == 1 else together(tuple(ranges)) if ranges else None,
            document.trust,
            document.rely,
            document.predict.spread,
            document.outside,
            document.conflict,
            document.range.empty,
        )
    return NumberFile(schema, bins, known, document.card)


def _point(source: Source, document: Document, schema: Schema, folder: Path) -> Number:
    """A source of [predict]: a formula, a table of numbers, or a function that gives them."""
    if source.sort == "formula":
        assert source.formula is not None
        return Formula.parse(source.formula, schema)
    if source.sort == "table":
        return _table(source, schema, folder, "predict")  # type: ignore[no-any-return]
    if source.sort == "entry":
        return _function(source, document, schema)  # type: ignore[no-any-return]
    raise KnowledgeError(f"'{source.sort}' is no source of a number: formula, table or entry")


def _range(source: Source, document: Document, schema: Schema, folder: Path) -> SetModel:
    """A source of [range]: formulas, a table of intervals, a function, a calibrated interval."""
    if source.sort in ("lower", "upper"):
        sides = (source.lower, source.upper)
        return Between(*(None if text is None else Formula.parse(text, schema) for text in sides))
    if source.sort == "table":
        return _table(source, schema, folder, "range")  # type: ignore[no-any-return]
    if source.sort == "entry":
        return _function(source, document, schema)  # type: ignore[no-any-return]
    if source.sort == "conformal":
        assert source.conformal is not None
        return _conformal(source.conformal, document, schema, folder)
    raise KnowledgeError(
        f"'{source.sort}' is no source of intervals: lower, upper, table, entry or conformal"
    )


def _table(source: Source, schema: Schema, folder: Path, kind: Literal["predict", "range"]) -> Any:
    assert source.table is not None
    return read_numbers_table(
        folder / source.table,
        schema,
        kind=kind,
        policy=source.hit,
        outcome=source.outcome,
        sheet=source.sheet,
    )


def _function(source: Source, document: Document, schema: Schema) -> Any:
    assert source.entry is not None
    function = entry_point(source.entry, allow=document.entry_points)
    if not source.columns:
        return function
    return Mask(tuple(schema.column(name) for name in source.columns), function)


def _conformal(
    found: Conformal, document: Document, schema: Schema, folder: Path
) -> ConformalInterval:
    if len(found.thresholds) != 1:
        raise KnowledgeError(
            f"a conformal interval has one threshold, its radius, got {len(found.thresholds)}"
        )
    scorer = _point(read_source(found.scorer), document, schema, folder)
    return ConformalInterval(scorer, found.thresholds[0], found.alpha, found.rows)


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Put the place before whatever is refused inside."""
    try:
        yield
    except FedloreError as error:
        raise KnowledgeError(f"{place}: {error}") from None
