"""knowledge.toml: one site's knowledge, as an expert writes it. It never leaves the site."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..config import build, read_toml
from ..errors import FedloreError, KnowledgeError
from .card import Card
from .combine import AllOf, AnyOf, Average, Empty, FirstOf
from .models import Conflict, Knowledge, Outside
from .onnxmodel import OnnxModel
from .schema import Feature, Schema
from .sources import Setting, Side, Source, model_of, source_of
from .tables.rulesheets import table_cells, write_table
from .tables.table import Table
from .toml import dump


@dataclass(frozen=True)
class Predict:
    """[predict]: one or more experts, heard in order or averaged."""

    sources: tuple[Source, ...] = ()
    combine: Literal["first", "average"] = "first"
    weights: tuple[float, ...] | None = None  # of an average


@dataclass(frozen=True)
class Range:
    """[range]: one or more ranges, intersected or joined."""

    sources: tuple[Source, ...] = ()
    combine: Literal["all", "any"] = "all"
    empty: Empty = "error"  # where an intersection leaves nothing


@dataclass(frozen=True)
class Document:
    """All that a knowledge.toml may say."""

    features: tuple[Feature, ...]
    classes: tuple[str, ...]
    label: str = "label"
    edges: tuple[float, ...] = ()  # of every formula that has none of its own
    trust: float = 0.0
    rely: float | None = None
    outside: Outside = "error"
    conflict: Conflict = "abstain"
    floor: float = 0.0
    entry_points: bool = False  # whether this file may name Python functions
    card: Card = field(default_factory=Card)
    predict: Predict = field(default_factory=Predict)
    range: Range = field(default_factory=Range)

    @property
    def schema(self) -> Schema:
        return Schema(self.features, self.classes, self.label)


def read_document(path: str | Path) -> Document:
    """A knowledge.toml as it stands, before any source is opened."""
    with _naming(Path(path).name):
        return build(Document, read_toml(path))


def read(path: str | Path) -> Knowledge:
    """The knowledge of a file, its tables and models beside it."""
    path = Path(path)
    document = read_document(path)
    setting = setting_of(document, path)
    return assemble(document, lambda source, side: model_of(source, side, setting), path.name)


def setting_of(document: Document, path: Path) -> Setting:
    return Setting(path.parent, document.schema, document.edges, document.entry_points)


def assemble(
    document: Document, open_source: Callable[[Source, Side], Any], name: str
) -> Knowledge:
    """A document's knowledge, given a way to open its sources."""

    def opened(sources: tuple[Source, ...], side: Side) -> list[Any]:
        models = []
        for place, source in enumerate(sources, 1):
            with _naming(f"{name}, [{side}] source {place}"):
                models.append(open_source(source, side))
        return models

    predict, limits = document.predict, document.range
    experts = {"first": FirstOf, "average": lambda some: Average(some, predict.weights)}
    ranges = {"all": lambda some: AllOf(some, limits.empty), "any": AnyOf}
    pkm = _together(experts[predict.combine], opened(predict.sources, "predict"))
    rkm = _together(ranges[limits.combine], opened(limits.sources, "range"))
    with _naming(name):
        return Knowledge(
            pkm,
            rkm,
            document.trust,
            document.rely,
            document.outside,
            document.conflict,
            document.schema,
            document.card,
            document.floor,
        )


def write(knowledge: Knowledge, path: str | Path) -> None:
    """Write knowledge.toml with its tables and models beside it; reading gives equal knowledge."""
    path = Path(path)
    values = describe(knowledge)
    files: list[tuple[str, Table | OnnxModel]] = []
    named = _named(values, files)
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, model in files:
        if isinstance(model, Table):
            write_table(model, path.parent / name)
        else:
            (path.parent / name).write_bytes(Path(model.path).read_bytes())
    part = path.with_name(f".{path.name}.part")
    part.write_text(dump(named), encoding="utf-8")
    part.replace(path)


def describe(knowledge: Knowledge) -> dict[str, Any]:
    """Knowledge as the values of a document; tables and ONNX models stand for themselves."""
    schema = knowledge.schema
    if schema is None:
        raise KnowledgeError("knowledge without a schema cannot be written: name its features")
    values: dict[str, Any] = {
        "trust": knowledge.trust,
        "rely": knowledge.rely,
        "outside": knowledge.outside,
        "conflict": knowledge.conflict,
        "floor": knowledge.floor or None,
        "label": schema.label,
        "classes": list(schema.classes),
        "features": [_feature(feature) for feature in schema.features],
        "card": asdict(knowledge.card or Card()),
    }
    sides = {
        "predict": _parts(knowledge.pkm, (FirstOf, Average), "predictions"),
        "range": _parts(knowledge.rkm, (AllOf, AnyOf), "ranges"),
    }
    for side, (extras, models) in sides.items():
        if models:
            values[side] = {**extras, "sources": [source_of(m, schema) for m in models]}
    values["entry_points"] = '"entry"' in json.dumps(values, default=lambda _: "")
    return {key: value for key, value in values.items() if value is not None}


def fingerprint(knowledge: Knowledge) -> str:
    """A hash of everything the knowledge says; it changes when any rule does."""

    def inner(model: Any) -> Any:
        return table_cells(model) if isinstance(model, Table) else model.digest

    said = {key: value for key, value in describe(knowledge).items() if key != "card"}
    text = json.dumps(said, default=inner, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Put the place before whatever is refused inside."""
    try:
        yield
    except FedloreError as error:
        raise KnowledgeError(f"{place}: {error}") from None


def _together(combine: Callable[[tuple[Any, ...]], Any], models: list[Any]) -> Any:
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


def _feature(feature: Feature) -> dict[str, Any]:
    said = asdict(feature)
    blank = {"unit": "", "low": -math.inf, "high": math.inf, "levels": (), "column": None}
    return {key: value for key, value in said.items() if key not in blank or value != blank[key]}


def table_file(name: str, place: int) -> str:
    """What the table at a place is written as: its own name is kept, so that people know it.

    >>> table_file("rules of 2024.xlsx", 2), table_file("table-2-rules-of-2024.csv", 1)
    ('table-2-rules-of-2024.csv', 'table-1-rules-of-2024.csv')
    >>> table_file("table", 1)
    'table-1.csv'
    """
    stem = re.sub(r"^table(-\d+)?(-|$)", "", Path(name).stem)
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", stem).strip("-")[:40]
    return f"table-{place}-{plain}.csv" if plain else f"table-{place}.csv"


def _named(values: Any, files: list[tuple[str, Table | OnnxModel]]) -> Any:
    """The same values with a file name in place of each table and model."""
    if isinstance(values, Table | OnnxModel):
        place, called = len(files) + 1, f"model-{len(files) + 1}.onnx"
        if isinstance(values, Table):
            called = table_file(values.name, place)
        files.append((called, values))
        return files[-1][0]
    if isinstance(values, Mapping):
        return {key: _named(value, files) for key, value in values.items()}
    if isinstance(values, list):
        return [_named(value, files) for value in values]
    return values
