"""knowledge.toml: one site's knowledge, as an expert writes it. It never leaves the site."""

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from ..answers import Axis, Bins, Classes, Line
from ..config import build
from ..errors import KnowledgeError
from ..kernel import document
from ..kernel.dates import SIDES, date_keys, day_of, split_source
from ..kernel.document import FILE, Card
from ..kernel.measures import count_errors, open_errors, split_measures
from ..kernel.schema import Feature, Schema, fill_features, in_order
from .combine import AllOf, AnyOf, Average, FirstOf
from .content import Files, Packed, Where, dump, files_at, toml_in
from .rowtrust import read_trust, trust_values
from .shapes.shape import SiteShapes, shape_values
from .soft import soften, split_prediction, split_ranges
from .sources.catalog import (
    check_entry,
    kind_of_model,
    leaves,
    naming,
    open_source,
    open_sources,
    pack_sources,
    plain,
    source_of,
)
from .sources.kind import Setting
from .timeline import Timeline, has_dates, members_on

Stated = Any  # a `Knowledge`, whose file reads and writes by this one

_FAULT = "knowledge-file"  # the code of errors raised here


class Target(document.Target):
    """[target] with its bins."""

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
        self.cut()  # refuses edges that do not increase, and bounds that are not theirs
        return Schema(features, tuple(self.names), self.name, unit=self.unit)


@dataclass(frozen=True)
class KnowledgeDocument(document.Document):
    """A knowledge.toml as the torch side asks it."""

    target: Target | None = None

    @property
    def line(self) -> Line | None:
        return None if self.target is None else Line(self.target.cut(), self.target.unit)

    @property
    def answers(self) -> Axis:
        return self.line or Classes(self.classes)

    @property
    def schema(self) -> Schema:
        if self.target is not None:
            return self.target.schema(self.features)
        ordered = in_order(self.classes) if self.ordered is None else self.ordered
        return Schema(self.features, self.classes, self.label, ordered)

    @property
    def shapes(self) -> SiteShapes | None:
        bounds = None if self.target is None else self.target.bounds
        said = self.shape.sources
        return SiteShapes(said, self.schema, bounds) if said else None

    def check(self) -> None:
        """Refuse sources, λ and shapes that cannot be read."""
        for side, sources in (("predict", self.predict.sources), ("range", self.range.sources)):
            for place, source in enumerate(sources):
                where = f"{side}.sources[{place}]"
                check_entry(split_source(source, f"[{where}] ")[0], where)
        read_trust(self.trust, self.schema)
        assert self.shapes is None or self.shapes  # read, and so checked


def is_number_file(where: Where) -> bool:
    """Whether a knowledge file has a [target] in place of classes."""
    return "target" in toml_in(*files_at(where))


def read_document(
    where: Where, *, unchecked: bool = False, asked: Sequence[Feature] = ()
) -> KnowledgeDocument:
    """A knowledge.toml as it stands, before any source is opened.

    Of the features `asked` for, those that it leaves out are features that the site does not have.
    """
    files, name = files_at(where)
    with naming(name):
        document = build(KnowledgeDocument, _check_auto(toml_in(files, name)))
        document = replace(document, features=fill_features(document.features, asked))
        if not unchecked:
            document.check()
    return document


def _check_auto(values: dict[str, Any]) -> dict[str, Any]:
    """Refuse trust = "auto", which Python's `fit` knows, with what a file says in its place."""
    if "auto" in (values.get("trust"), values.get("reliance")):
        raise KnowledgeError(
            'trust is a number from 0 to 1, not "auto": remove the line for the recipe lore, where '
            "a site's rows decide; for the others fedlore tune --write enters a number",
            code="trust",
        )
    return values


def read_parts(
    where: Where, asked: Sequence[Feature] = (), day: date | str | None = None
) -> tuple[str, dict[str, Any]]:
    """The name of a knowledge file, and all that it says on a day: the fields of `Knowledge`.

    Of a file without dates every day is the same; else it is today unless somebody names one.
    """
    files, name = files_at(where)
    own = read_document(where)
    document = read_document(where, asked=asked) if asked else own
    columns = () if document.features == own.features else own.schema.names
    predict, ranges = open_whole(document, files, name, columns=columns)
    packed = pack_whole(where, document, predict, ranges)
    if packed is None:
        return name, assemble(document, predict, ranges)
    found = Timeline(*packed, day_of(day))
    with naming(f"{name}, as of {found.day}"):
        parts = read_on(found)
    return name, parts | {"timeline": found}


def open_whole(
    document: KnowledgeDocument, files: Files, name: str, *, columns: tuple[str, ...] = ()
) -> tuple[list[Any], list[Any]]:
    """The models of all sources, whatever their dates."""
    said, allowed = document.answers.asked
    setting = replace(setting_of(document, files), dated=True, columns=columns)
    predict, ranges = (
        tuple(split_source(one)[0] for one in side.sources)
        for side in (document.predict, document.range)
    )
    return (
        open_sources(predict, said, setting, name),
        open_sources(ranges, allowed, setting, name),
    )


def pack_whole(
    where: Where, document: KnowledgeDocument, predict: list[Any], ranges: list[Any]
) -> tuple[dict[str, bytes], dict[str, Any]] | None:
    """A file with dates, packed and as described values; None where it has none."""
    sources = {"predict": document.predict.sources, "range": document.range.sources}
    said = {"predict": predict, "range": ranges}
    if not has_dates(itertools.chain(*sources.values()), leaves(*predict, *ranges)):
        return None
    if document.shape.sources:
        raise KnowledgeError(
            "a file with [shape] holds no dates: a network is trained to keep its shapes beside "
            "the rules of all days; leave out one of the two"
        )
    files, name = files_at(where)
    values = toml_in(files, name)
    values.pop("examples", None)
    values["features"] = [feature_values(feature) for feature in split_measures(document.features)]
    for side, models in said.items():
        if models:
            pairs = zip(models, sources[side], strict=True)
            values[side] = {
                **values[side],
                "sources": [
                    source_of(model, document.schema) | date_keys(split_source(source)[1])
                    for model, source in pairs
                ],
            }
    return pack_knowledge(values), {side: values[side] for side in SIDES if side in values}


def read_on(timeline: Timeline) -> dict[str, Any]:
    """The fields of `Knowledge` on the day of a timeline; what is read here has no dates."""
    members = members_on(timeline.members, timeline.day)
    document = read_document(members)
    setting, (said, allowed) = setting_of(document, Packed(members)), document.answers.asked
    predict = open_sources(document.predict.sources, said, setting, FILE)
    return assemble(document, predict, open_sources(document.range.sources, allowed, setting, FILE))


def setting_of(document: KnowledgeDocument, files: Files) -> Setting:
    """What the sources of a document need to know of it."""
    schema, errors = _counted(document), open_errors(document.features)
    return Setting(files, schema, open_source, document.edges, document.entry_points, errors=errors)


def _counted(document: KnowledgeDocument) -> Schema:
    """The schema once ranges have the errors of other measures in them."""
    return replace(document.schema, features=count_errors(document.features))


def assemble(document: KnowledgeDocument, predict: list[Any], ranges: list[Any]) -> dict[str, Any]:
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
        "least_trust": document.least_trust,
        "measured": document.measured,
        "outside": document.outside,
        "conflict": document.conflict,
        "schema": _counted(document),
        "card": document.card,
        "floor": document.floor,
        "shapes": document.shapes,
        "row_trust": row_trust,
        "line": document.line,
        "spread": document.predict.spread,
        "empty": None if document.target is None else empty,
    }


def write(knowledge: Stated, path: str | Path) -> None:
    """Write knowledge.toml with its tables and models beside it; reading gives equal knowledge."""
    write_knowledge(pack_knowledge(describe(knowledge), check=True), path)


def write_knowledge(members: Mapping[str, bytes], path: str | Path) -> None:
    """Packed knowledge as files, knowledge.toml itself last and under the name of `path`."""
    from ..core.store import write_whole  # it has to do with tensors, whoever reads has not

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = {path.parent / name: data for name, data in members.items() if name != FILE}
    for place, data in beside.items():
        if not path.exists() and place.exists() and place.read_bytes() != data:
            raise KnowledgeError(f"'{place}' is another file's: write '{path.name}' elsewhere")
    for place, data in beside.items():
        write_whole(place, data)
    write_whole(path, members[FILE])


def pack_knowledge(values: Mapping[str, Any], *, check: bool = False) -> dict[str, bytes]:
    """Described knowledge as knowledge.toml and the files beside it, by their names.

    Without `check` whoever reads it again finds out whether it is still the same.
    """
    files: dict[str, bytes] = {}
    named = pack_sources(values, files, check=check)
    return {FILE: dump(named).encode(), **files}


def describe(knowledge: Stated) -> dict[str, Any]:
    """Knowledge as the values of a document; files stand for themselves, see `Attached`.

    Of a file with dates all days are described, not the one that it was read as of.
    """
    values = describe_day(knowledge)
    timeline: Timeline | None = knowledge.timeline
    if timeline is None:
        return values
    as_read = describe_day(type(knowledge)(**read_on(timeline)))
    for side in SIDES:
        now, then = (plain((one.get(side) or {}).get("sources")) for one in (values, as_read))
        if now != then:
            raise KnowledgeError(
                f"[{side}] holds dates and was changed after it was read as of {timeline.day}: "
                "write what is valid on a day to a file of its own (fedlore lint --as-of DAY --out "
                "FILE), and change that"
            )
    return {k: v for k, v in values.items() if k not in SIDES} | dict(timeline.values)


def describe_day(knowledge: Stated) -> dict[str, Any]:
    """The same of the day that knowledge is as of, without any date."""
    schema = knowledge.schema
    if schema is None:
        raise KnowledgeError("knowledge without a schema cannot be written: name its features")
    values: dict[str, Any] = {
        "trust": trust_values(knowledge.trust, knowledge.row_trust),
        "reliance": knowledge.reliance,
        "least_trust": knowledge.least_trust or None,
        "measured": knowledge.measured or None,
        "outside": knowledge.outside,
        "conflict": knowledge.conflict,
        "floor": knowledge.floor or None,
        **_describe_answers(schema, knowledge.line),
        "features": [feature_values(feature) for feature in split_measures(schema.features)],
        "card": asdict(knowledge.card or Card()),
    }
    expert, mostly = split_prediction(knowledge.prediction)
    extras, experts = _parts(expert)
    limits, always = _parts(knowledge.range)
    if knowledge.line is not None:  # its policies are written always
        limits |= {"combine": "all"} if "empty" in limits else {}
        limits |= {"empty": knowledge.when_empty}
        extras |= {} if knowledge.spread is None else {"spread": knowledge.spread}
    for side, said, models in (
        ("predict", extras, experts),
        ("range", limits, [*always, *mostly]),
    ):
        sources = {"sources": [source_of(m, schema) for m in models]} if models else {}
        values[side] = {**said, **sources} or None
    if knowledge.shapes is not None:
        values["shape"] = {"sources": shape_values(knowledge.shapes.shapes)}
    kinds = [kind_of_model(model) for model in leaves(knowledge.prediction, knowledge.range)]
    code = any(kind is not None and kind.code for kind in kinds)
    values["entry_points"] = code if code or knowledge.line is None else None
    return {key: value for key, value in values.items() if value is not None}


def _describe_answers(schema: Schema, line: Line | None) -> dict[str, Any]:
    if line is None:
        # where the names say the same it need not be said, so that older files stay as they are
        ordered = None if schema.ordered == in_order(schema.classes) else schema.ordered
        return {"label": schema.label, "classes": list(schema.classes), "ordered": ordered}
    bins = line.bins
    if bins is None:
        raise KnowledgeError("knowledge about a number cannot be written without its bins")
    target: dict[str, Any] = {"lower": bins.lower, "upper": bins.upper, "name": schema.label}
    target |= {"bins": bins.k} if bins.inner is None else {"edges": list(bins.edges)}
    return {"target": target | ({"unit": schema.unit} if schema.unit else {})}


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


def _parts(model: Any) -> tuple[dict[str, Any], list[Any]]:
    """How several models are combined, and the models."""
    if model is None:
        return {}, []
    keys: dict[str, Any] | None = getattr(model, "file_keys", None)
    return ({}, [model]) if keys is None else (keys, list(model.parts))


def feature_values(feature: Feature) -> dict[str, Any]:
    """A feature as keys of a file, without those that say nothing."""
    said = asdict(feature)
    blank = {"unit": "", "low": -math.inf, "high": math.inf, "levels": (), "column": None}
    blank |= {"missing": "refuse", "other": False, "date": "", "have": True}
    blank |= {"equals": "", "by": "", "within": 0.0, "counted": False, "own": None}
    return {key: value for key, value in said.items() if key not in blank or value != blank[key]}
