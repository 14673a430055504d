"""The whole audit of a knowledge file: the file, its sources, their logic, and the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from ...answers import Bins, Measured
from ...core.examples import Examples
from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.dates import day_of, split_source
from ...kernel.findings import Finding, Place, errors
from ..audit import Audit
from ..content import FILE, Files, Where, files_at
from ..files import KnowledgeDocument, assemble, pack_whole, read_document, setting_of
from ..models import Knowledge
from ..protocols import kind_of
from ..soft import split_ranges
from ..sources.catalog import examine_source, kind_of_model, leaves, naming
from ..sources.kind import Asked, Setting
from ..sources.reasons import count_unapplied
from ..tables.soft import SoftTable
from ..tables.table import Table
from ..timeline import Timeline, members_on
from .data import lint_data
from .dates import lint_dates
from .examples import Expectation, check_examples, read_examples
from .shapes import lint_shapes
from .soft import lint_soft, lint_trust
from .sources import Sources, lint_sources


@dataclass(frozen=True)
class Checkup:
    """What was found, the knowledge if it can be used, and counts over data if there were any."""

    findings: list[Finding]
    knowledge: Knowledge | None = None
    tables: list[Table | SoftTable] = field(default_factory=list)
    audit: Audit | None = None
    examples: tuple[Expectation, ...] = ()  # the expert's own, where they can be read

    @property
    def fingerprint(self) -> str:
        """A hash of what the knowledge says, empty where it cannot be used."""
        return "" if self.knowledge is None else self.knowledge.fingerprint

    @property
    def bins(self) -> Bins | None:
        """How a number is cut."""
        return None if self.knowledge is None else self.knowledge.bins


def check_file(where: Where, *, as_of: date | str | None = None) -> Checkup:
    """Everything that can be said about a knowledge file without data.

    Where rules have dates each stretch of time is checked by itself, and the knowledge that comes
    back is that of today, or of another day.
    """
    files, name = files_at(where)
    document = read_document(where)
    setting, place = replace(setting_of(document, files), dated=True), Place(name)
    findings: list[Finding] = []
    said, allowed = document.answers.asked
    predict = _open(document.predict.sources, said, setting, place, findings)
    ranges = _open(document.range.sources, allowed, setting, place, findings)
    if errors(findings):
        return Checkup(findings)
    with naming(name):
        packed = pack_whole(where, document, predict, ranges)
    if packed is None:
        found = _check_day(document, predict, ranges, name)
        found = replace(found, findings=[*findings, *found.findings])
        known = found.knowledge
    else:
        timeline = Timeline(*packed, day_of(as_of))
        tables = [one.table.place for one in leaves(*predict, *ranges) if hasattr(one, "table")]

        def check(members: Mapping[str, bytes]) -> list[Finding]:
            return _check_members(members).findings

        findings += lint_dates(timeline, check, place, tables)
        found = _check_members(members_on(timeline.members, timeline.day))
        known = None if found.knowledge is None else replace(found.knowledge, timeline=timeline)
        found = replace(found, findings=findings, knowledge=known)
    if known is None:
        return found
    examples, more = _examples(document.examples, files, known)
    return replace(found, findings=[*found.findings, *more], examples=tuple(examples))


def _check_members(members: Mapping[str, bytes]) -> Checkup:
    """Packed knowledge without dates."""
    document = read_document(members)
    setting, findings = setting_of(document, files_at(members)[0]), list[Finding]()
    said, allowed = document.answers.asked
    predict = _open(document.predict.sources, said, setting, Place(FILE), findings)
    ranges = _open(document.range.sources, allowed, setting, Place(FILE), findings)
    if errors(findings):
        return Checkup(findings)
    return _check_day(document, predict, ranges, FILE)


def _check_day(
    document: KnowledgeDocument, predict: list[Any], ranges: list[Any], name: str
) -> Checkup:
    """The sources of a file, none of which has dates."""
    place = Place(name)
    with naming(name):
        knowledge = Knowledge(**assemble(document, predict, ranges))
    tables = [one for one in (*predict, *ranges) if hasattr(one, "table") and not one.of_number]
    always, mostly = split_ranges(ranges)
    sources = Sources(
        document.schema,
        predict,
        always,
        combine=document.range.combine,
        empty=document.range.empty,
        averaged=document.predict.combine == "average",
        conflict=document.conflict,
        bins=None if document.target is None else document.target.cut(),
    )
    findings = lint_sources(sources, place)
    findings += lint_soft(predict, mostly, knowledge.trust_at_prediction, place)
    findings += _each(predict, always, place)
    findings += [*lint_shapes(knowledge, place), *lint_trust(knowledge, place)]
    findings += _absent(knowledge, place)
    return Checkup(findings, knowledge, tables)


def _open(
    sources: Sequence[dict[str, Any]],
    asked: Asked,
    setting: Setting,
    place: Place,
    findings: list[Finding],
) -> list[Any]:
    """The models of some sources; what keeps one from being opened joins the findings."""
    models = []
    for source in sources:
        model, found = examine_source(split_source(source)[0], asked, setting, place)
        models.append(model)
        findings.extend(found)
    return models


def _each(predict: Sequence[Any], ranges: Sequence[Any], place: Place) -> list[Finding]:
    """What each kind of source says of itself, and whether a range is statistical."""
    findings: list[Finding] = []
    for model in leaves(*predict, *ranges):
        kind = kind_of_model(model)
        findings += () if kind is None else kind.lint(model, place)
    if any(kind_of(model) == "statistical" for model in ranges):
        findings.append(Finding("info", "statistical", place))
    return findings


def _absent(known: Knowledge, place: Place) -> Iterator[Finding]:
    """Each absent feature, and how many rules and formulas need it."""
    schema = known.require_schema()
    if not schema.absent:
        return
    nothing = torch.full((1, len(schema.features)), torch.nan)
    needed = count_unapplied((known.range, known.prediction), nothing)[0].tolist()
    for name in schema.absent:
        args = {"feature": name, "rules": needed[schema.column(name)]}
        yield Finding("info", "absent", Place(place.file, column=name), args)


def _examples(
    name: str | None, files: Files, known: Knowledge
) -> tuple[list[Expectation], list[Finding]]:
    """The expert's own examples, and what is not as they say."""
    if name is None:
        return [], []
    schema = known.require_schema()
    try:
        examples, findings = read_examples(files, name, known)
    except KnowledgeError as error:
        return [], [Finding("error", "example", Place(name), {"error": str(error)})]
    return examples, findings + check_examples(known, schema, examples)


def check_data(checkup: Checkup, data: Examples | Measured, file: str = "data") -> Checkup:
    """The same with what data say about the knowledge."""
    known = checkup.knowledge
    if known is None or known.schema is None:
        return checkup
    if isinstance(data, Measured) != (known.line is not None):
        return checkup
    found, audit = lint_data(known, data, file)
    return replace(checkup, findings=[*checkup.findings, *found], audit=audit)
