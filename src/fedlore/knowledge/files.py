"""knowledge.toml: one site's knowledge, as an expert writes it. It never leaves the site."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ..config import build
from ..errors import KnowledgeError
from ..kernel.schema import Feature, Schema, in_order
from .card import Card
from .combine import AllOf, AnyOf, Average, Empty, FirstOf
from .content import FILE, Files, Where, files_at, toml_in
from .policies import Conflict, Outside
from .protocols import PredictionModel, RangeModel
from .rowtrust import RowTrust, TrustTable, read_trust, trust_values
from .shapes.shape import FeatureShape, SiteShapes, shape_values
from .soft import Softened, soften, split_ranges
from .sources.kind import Setting
from .sources.opening import check_entry, naming, open_source, open_sources
from .sources.writing import kind_of_model, leaves, pack_sources, plain, source_of
from .toml import dump

_FAULT = "knowledge-file"  # the code of errors raised here


class Stated(Protocol):
    """What `Knowledge` says, as far as a file holds it."""

    @property
    def prediction(self) -> PredictionModel | None: ...
    @property
    def range(self) -> RangeModel | None: ...
    @property
    def trust(self) -> float: ...
    @property
    def reliance(self) -> float | None: ...
    @property
    def outside(self) -> Outside: ...
    @property
    def conflict(self) -> Conflict: ...
    @property
    def schema(self) -> Schema | None: ...
    @property
    def card(self) -> Card | None: ...
    @property
    def floor(self) -> float: ...
    @property
    def shapes(self) -> SiteShapes | None: ...
    @property
    def row_trust(self) -> RowTrust | None: ...


@dataclass(frozen=True)
class Predict:
    """[predict]: one or more experts, heard in order or averaged."""

    sources: tuple[dict[str, Any], ...] = ()  # asked in order; each has the keys of its kind
    combine: Literal["first", "average"] = "first"  # the first that speaks, or their mean
    weights: tuple[float, ...] | None = None  # of an average


@dataclass(frozen=True)
class Range:
    """[range]: one or more ranges, intersected or joined."""

    sources: tuple[dict[str, Any], ...] = ()  # each has the keys of its kind
    combine: Literal["all", "any"] = "all"  # what all of them allow, or what any does
    empty: Empty = "error"  # where an intersection leaves nothing


@dataclass(frozen=True)
class ShapeTable:
    """[shape]: in which direction features move the answer."""

    sources: tuple[FeatureShape, ...] = ()

    def read(self, schema: Schema, bounds: tuple[float, float] | None = None) -> SiteShapes | None:
        """The shapes, checked against the columns; None where there are none."""
        return SiteShapes(self.sources, schema, bounds) if self.sources else None


@dataclass(frozen=True)
class Document:
    """All that a knowledge.toml may say."""

    features: tuple[Feature, ...]  # the columns
    classes: tuple[str, ...]  # the answers, from worst to best where they have an order
    label: str = "label"  # the column of a data file that holds the answer
    ordered: bool | None = None  # whether the classes rise; None: read off their names
    edges: tuple[float, ...] = ()  # of every formula that has none of its own
    trust: float | TrustTable = 0.0  # λ: how far predictions follow the expert, 0 to 1
    reliance: float | None = None  # λ at prediction where it differs; None: trust
    outside: Outside = "error"  # a training label outside the range: refuse, widen or drop
    conflict: Conflict = "abstain"  # a prediction outside it: silence, restrict or refuse
    floor: float = 0.0  # ε: weight of classes outside the range in the training loss alone
    entry_points: bool = False  # whether this file may name Python functions
    examples: str | None = None  # rows with the answer that is expected, see lint.expected
    card: Card = field(default_factory=Card)
    predict: Predict = field(default_factory=Predict)
    range: Range = field(default_factory=Range)
    shape: ShapeTable = field(default_factory=ShapeTable)

    @property
    def schema(self) -> Schema:
        ordered = in_order(self.classes) if self.ordered is None else self.ordered
        return Schema(self.features, self.classes, self.label, ordered)


def read_document(where: Where) -> Document:
    """A knowledge.toml as it stands, before any source is opened."""
    files, name = files_at(where)
    with naming(name):
        values = toml_in(files, name)
        document = build(Document, values)
        check_sources(document.predict.sources, document.range.sources)
        document.shape.read(document.schema)
        read_trust(document.trust, document.schema)
    return document


def check_sources(predict: tuple[dict[str, Any], ...], limits: tuple[dict[str, Any], ...]) -> None:
    """Refuse keys that no kind of source has."""
    for side, sources in (("predict", predict), ("range", limits)):
        for place, source in enumerate(sources):
            check_entry(source, f"{side}.sources[{place}]")


def read_parts(where: Where) -> tuple[str, dict[str, Any]]:
    """The name of a knowledge file, and all that it says: the fields of `Knowledge`."""
    files, name = files_at(where)
    document = read_document(where)
    setting = setting_of(document, files)
    predict = open_sources(document.predict.sources, "prediction", setting, name)
    ranges = open_sources(document.range.sources, "range", setting, name)
    return name, assemble(document, predict, ranges)


def setting_of(document: Document, files: Files) -> Setting:
    """What the sources of a document need to know of it."""
    return Setting(files, document.schema, open_source, document.edges, document.entry_points)


def assemble(document: Document, predict: list[Any], ranges: list[Any]) -> dict[str, Any]:
    """The fields of `Knowledge`, given a document and the models of its sources."""
    weights, empty = document.predict.weights, document.range.empty
    always, mostly = split_ranges(ranges)
    experts: Mapping[str, Callable[[Any], Any]] = {
        "first": FirstOf,
        "average": lambda some: Average(some, weights),
    }
    limits: Mapping[str, Callable[[Any], Any]] = {
        "all": lambda some: AllOf(some, empty),
        "any": AnyOf,
    }
    trust, row_trust = read_trust(document.trust, document.schema)
    return {
        "prediction": soften(combine_models(experts[document.predict.combine], predict), mostly),
        "range": combine_models(limits[document.range.combine], always),
        "trust": trust,
        "reliance": document.reliance,
        "outside": document.outside,
        "conflict": document.conflict,
        "schema": document.schema,
        "card": document.card,
        "floor": document.floor,
        "shapes": document.shape.read(document.schema),
        "row_trust": row_trust,
    }


def write(knowledge: Stated, path: str | Path) -> None:
    """Write knowledge.toml with its tables and models beside it; reading gives equal knowledge."""
    write_knowledge(pack_knowledge(describe(knowledge), check=True), path)


def write_knowledge(members: Mapping[str, bytes], path: str | Path) -> None:
    """Packed knowledge as files, knowledge.toml itself last and under the name of `path`."""
    from ..core.store import write_whole  # it has to do with tensors, whoever reads has not

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, data in members.items():
        if name != FILE:
            (path.parent / name).write_bytes(data)
    write_whole(path, members[FILE])


def pack_knowledge(values: Mapping[str, Any], *, check: bool = False) -> dict[str, bytes]:
    """Described knowledge as knowledge.toml and the files beside it, by their names.

    Without `check` whoever reads it again finds out whether it is still the same.
    """
    files: dict[str, bytes] = {}
    named = pack_sources(values, files, check=check)
    return {FILE: dump(named).encode(), **files}


def describe(knowledge: Stated) -> dict[str, Any]:
    """Knowledge as the values of a document; files stand for themselves, see `Attached`."""
    schema = knowledge.schema
    if schema is None:
        raise KnowledgeError("knowledge without a schema cannot be written: name its features")
    values: dict[str, Any] = {
        "trust": trust_values(knowledge.trust, knowledge.row_trust),
        "reliance": knowledge.reliance,
        "outside": knowledge.outside,
        "conflict": knowledge.conflict,
        "floor": knowledge.floor or None,
        "label": schema.label,
        "classes": list(schema.classes),
        # where the names say the same it need not be said, so that older files stay as they are
        "ordered": None if schema.ordered == in_order(schema.classes) else schema.ordered,
        "features": [feature_values(feature) for feature in schema.features],
        "card": asdict(knowledge.card or Card()),
    }
    said = knowledge.prediction
    expert, mostly = (said.expert, said.ranges) if isinstance(said, Softened) else (said, ())
    limits, always = _parts(knowledge.range, (AllOf, AnyOf), "ranges")
    sides = {
        "predict": _parts(expert, (FirstOf, Average), "predictions"),
        "range": (limits, [*always, *mostly]),
    }
    for side, (extras, models) in sides.items():
        if models:
            values[side] = {**extras, "sources": [source_of(m, schema) for m in models]}
    if knowledge.shapes is not None:
        values["shape"] = {"sources": shape_values(knowledge.shapes.shapes)}
    kinds = [kind_of_model(model) for model in leaves(knowledge.prediction, knowledge.range)]
    values["entry_points"] = any(kind is not None and kind.code for kind in kinds)
    return {key: value for key, value in values.items() if value is not None}


def fingerprint(knowledge: Stated) -> str:
    """A hash of everything the knowledge says; it changes when any rule does."""
    return hash_values(describe(knowledge))


def hash_values(values: Mapping[str, Any]) -> str:
    """The hash of described knowledge; its card does not count."""
    said = {key: value for key, value in values.items() if key != "card"}
    text = json.dumps(plain(said), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def combine_models(combine: Callable[[tuple[Any, ...]], Any], models: list[Any]) -> Any:
    """Several models as one; a single one is itself, none is None."""
    if len(models) < 2:
        return models[0] if models else None
    return combine(tuple(models))


def _parts(model: Any, combined: tuple[type, ...], name: str) -> tuple[dict[str, Any], list[Any]]:
    """How several models are combined, and the models."""
    if model is None:
        return {}, []
    if not isinstance(model, combined):
        return {}, [model]
    extras: dict[str, Any] = {}
    if isinstance(model, Average):
        extras = {"combine": "average"}
        extras |= {} if model.weights is None else {"weights": list(model.weights)}
    elif isinstance(model, AnyOf):
        extras = {"combine": "any"}
    elif isinstance(model, AllOf):
        extras = {"empty": model.empty}
    return extras, list(getattr(model, name))


def feature_values(feature: Feature) -> dict[str, Any]:
    """A feature as keys of a file, without those that say nothing."""
    said = asdict(feature)
    blank = {"unit": "", "low": -math.inf, "high": math.inf, "levels": (), "column": None}
    blank |= {"missing": "refuse", "other": False}
    return {key: value for key, value in said.items() if key not in blank or value != blank[key]}
