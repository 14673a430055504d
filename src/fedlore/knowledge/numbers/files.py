"""knowledge.toml for a number: the same file as for classes, with a [target] in their place."""

from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ...answers import Bins
from ...config import build
from ...errors import KnowledgeError
from ...kernel.schema import Feature, Schema
from ..card import Card
from ..combine import AllOf, AnyOf, FirstOf
from ..content import Where, files_at, toml_in
from ..files import (
    ShapeTable,
    check_sources,
    combine_models,
    feature_values,
    hash_values,
    pack_knowledge,
    write_knowledge,
)
from ..policies import Outside
from ..rowtrust import TrustTable, read_trust, trust_values
from ..shapes.shape import shape_values
from ..sources.kind import Setting
from ..sources.opening import naming, open_source, open_sources
from ..sources.writing import source_of
from .numbers import EmptySet, NumberConflict, Numbers


@dataclass(frozen=True)
class Target:
    """[target]: what is predicted. The federation declares bounds and bins, the site its name."""

    lower: float  # the least value that is possible
    upper: float  # and the greatest
    bins: int = 50  # k
    edges: tuple[float, ...] = ()  # all k + 1, in place of equal widths
    name: str = "y"  # the column of a data file that holds the number
    unit: str = ""  # in which it is measured

    @property
    def bounds(self) -> tuple[float, float]:
        return self.lower, self.upper

    def cut(self) -> Bins:
        if not self.edges:
            return Bins(self.lower, self.upper, self.bins)
        if (self.edges[0], self.edges[-1]) != (self.lower, self.upper):
            raise KnowledgeError(
                f"edges must begin and end at the bounds {self.lower!r} and {self.upper!r}, got "
                f"{self.edges[0]!r} and {self.edges[-1]!r}"
            )
        return Bins.at(self.edges)

    def schema(self, features: tuple[Feature, ...]) -> Schema:
        """Columns, and the bins in place of classes."""
        edges = self.cut().edges
        names = tuple(f"[{a:g}..{b:g})" for a, b in zip(edges, edges[1:], strict=False))
        apart = names if len(set(names)) == len(names) else tuple(map(str, range(len(names))))
        return Schema(features, apart, self.name, unit=self.unit)


@dataclass(frozen=True)
class NumberPredict:
    """[predict]: experts who name a number, heard in order."""

    sources: tuple[dict[str, Any], ...] = ()  # asked in order; each has the keys of its kind
    spread: float | None = None  # σ of a soft prior


@dataclass(frozen=True)
class NumberRange:
    """[range]: intervals, intersected or joined."""

    sources: tuple[dict[str, Any], ...] = ()  # each has the keys of its kind
    combine: Literal["all", "any"] = "all"  # what all of them allow, or what any does
    empty: EmptySet = "error"  # where an intersection leaves nothing


@dataclass(frozen=True)
class NumberDocument:
    """All that a knowledge.toml for a number may say."""

    features: tuple[Feature, ...]  # the columns
    target: Target
    trust: float | TrustTable = 0.0  # λ: how far predictions follow the expert, 0 to 1
    reliance: float | None = None  # λ at prediction where it differs; None: trust
    outside: Outside = "error"  # a training label outside the range: refuse, widen or drop
    conflict: NumberConflict = "abstain"  # a prediction outside it: silence, move in, refuse
    entry_points: bool = False  # whether this file may name Python functions
    examples: str | None = None  # rows with the answer that is expected, see lint.expected
    card: Card = field(default_factory=Card)
    predict: NumberPredict = field(default_factory=NumberPredict)
    range: NumberRange = field(default_factory=NumberRange)
    shape: ShapeTable = field(default_factory=ShapeTable)

    @property
    def schema(self) -> Schema:
        return self.target.schema(self.features)


@dataclass(frozen=True)
class NumberFile:
    """What a knowledge.toml about a number holds."""

    schema: Schema
    bins: Bins
    knowledge: Numbers
    card: Card


def read_number_document(where: Where) -> NumberDocument:
    """A knowledge.toml with a [target] as it stands, before any source is opened."""
    files, name = files_at(where)
    with naming(name):
        document = build(NumberDocument, toml_in(files, name))
        check_sources(document.predict.sources, document.range.sources)
        document.target.cut()
        document.shape.read(document.schema, document.target.bounds)
        read_trust(document.trust, document.schema)
    return document


def write_numbers(numbers: Numbers, schema: Schema, bins: Bins, path: str | Path) -> None:
    """Write knowledge.toml with its tables beside it; reading gives equal knowledge."""
    write_knowledge(pack_knowledge(describe_numbers(numbers, schema, bins), check=True), path)


def fingerprint_numbers(numbers: Numbers, schema: Schema, bins: Bins) -> str:
    """A hash of everything the knowledge says; it changes when any rule does."""
    return hash_values(describe_numbers(numbers, schema, bins))


def read_numbers(where: Where) -> NumberFile:
    """Read a knowledge.toml with a [target], and the tables it names."""
    files, name = files_at(where)
    document = read_number_document(where)
    schema, bins = document.schema, document.target.cut()
    setting = Setting(files, schema, open_source, entry_points=document.entry_points)
    points = open_sources(document.predict.sources, "number", setting, name)
    ranges = open_sources(document.range.sources, "set", setting, name)
    empty = document.range.empty
    limits = AnyOf if document.range.combine == "any" else partial(AllOf, empty=empty)
    with naming(name):
        trust, row_trust = read_trust(document.trust, schema)
        known = Numbers(
            combine_models(FirstOf, points),
            combine_models(limits, ranges),
            trust,
            document.reliance,
            document.predict.spread,
            document.outside,
            document.conflict,
            empty,
            schema,
            document.card,
            document.shape.read(schema, document.target.bounds),
            row_trust,
        )
    return NumberFile(schema, bins, known, document.card)


def describe_numbers(numbers: Numbers, schema: Schema, bins: Bins) -> dict[str, Any]:
    """Knowledge about a number as the values of a document; files stand for themselves."""
    target: dict[str, Any] = {"lower": bins.lower, "upper": bins.upper, "name": schema.label}
    target |= {"bins": bins.k} if bins.inner is None else {"edges": list(bins.edges)}
    target |= {"unit": schema.unit} if schema.unit else {}
    values: dict[str, Any] = {
        "trust": trust_values(numbers.trust, numbers.row_trust),
        **({} if numbers.reliance is None else {"reliance": numbers.reliance}),
        "outside": numbers.outside,
        "conflict": numbers.conflict,
        "features": [feature_values(feature) for feature in schema.features],
        "target": target,
        **({} if numbers.card in (None, Card()) else {"card": asdict(numbers.card or Card())}),
    }
    point, limit = numbers.prediction, numbers.range
    points = point.predictions if isinstance(point, FirstOf) else () if point is None else (point,)
    ranges: tuple[Any, ...] = () if limit is None else (limit,)
    predict: dict[str, Any] = {} if numbers.spread is None else {"spread": numbers.spread}
    limits: dict[str, Any] = {"empty": numbers.empty}
    if isinstance(limit, AllOf | AnyOf):
        ranges = limit.ranges
        limits["combine"] = "all" if isinstance(limit, AllOf) else "any"
    if points:
        predict["sources"] = [source_of(one, schema) for one in points]
    if ranges:
        limits["sources"] = [source_of(one, schema) for one in ranges]
    shape = {} if numbers.shapes is None else {"sources": shape_values(numbers.shapes.shapes)}
    values |= {"shape": shape} if shape else {}
    return values | ({"predict": predict} if predict else {}) | {"range": limits}
