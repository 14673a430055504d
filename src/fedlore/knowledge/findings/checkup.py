"""The whole audit of a knowledge file: the file, its sources, their logic, and the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...answers import Bins, Measured
from ...core.examples import Examples
from ...errors import KnowledgeError
from ...kernel.findings import Finding, Place, errors
from ..audit import Audit, NumberAudit
from ..content import Files, Where, files_at
from ..files import assemble, read_document, setting_of
from ..models import Knowledge
from ..protocols import kind_of
from ..soft import split_ranges
from ..sources.catalog import examine_source, kind_of_model, leaves, naming
from ..sources.kind import Asked, Setting
from ..tables.soft import SoftTable
from ..tables.table import Table
from .absent import lint_absent
from .data import lint_data
from .examples import check_examples, read_examples
from .shapes import lint_shapes
from .soft import lint_soft
from .sources import Sources, lint_sources
from .trust import lint_trust


@dataclass(frozen=True)
class Checkup:
    """What was found, the knowledge if it can be used, and counts over data if there were any."""

    findings: list[Finding]
    knowledge: Knowledge | None = None
    tables: list[Table | SoftTable] = field(default_factory=list)
    audit: Audit | NumberAudit | None = None

    @property
    def fingerprint(self) -> str:
        """A hash of what the knowledge says, empty where it cannot be used."""
        return "" if self.knowledge is None else self.knowledge.fingerprint

    @property
    def bins(self) -> Bins | None:
        """How a number is cut."""
        return None if self.knowledge is None else self.knowledge.bins


def check_file(where: Where) -> Checkup:
    """Everything that can be said about a knowledge file without data."""
    files, name = files_at(where)
    document = read_document(where)
    setting, place = setting_of(document, files), Place(name)
    findings: list[Finding] = []
    said, allowed = document.answers.asked
    predict = _open(document.predict.sources, said, setting, place, findings)
    ranges = _open(document.range.sources, allowed, setting, place, findings)
    if errors(findings):
        return Checkup(findings)
    with naming(name):
        knowledge = Knowledge(**assemble(document, predict, ranges))
    tables = [one for one in (*predict, *ranges) if isinstance(one, Table | SoftTable)]
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
    findings += lint_sources(sources, place)
    findings += lint_soft(predict, mostly, knowledge.trust_at_prediction, place)
    findings += _each(predict, always, place)
    findings += [*lint_shapes(knowledge, place), *lint_trust(knowledge, place)]
    findings += lint_absent(knowledge, place)
    findings += _examples(document.examples, files, knowledge)
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
        model, found = examine_source(source, asked, setting, place)
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


def _examples(name: str | None, files: Files, known: Knowledge) -> list[Finding]:
    """What is not as the expert's own examples say."""
    if name is None:
        return []
    schema = known.require_schema()
    try:
        examples, findings = read_examples(files, name, known)
    except KnowledgeError as error:
        return [Finding("error", "example", Place(name), {"error": str(error)})]
    return findings + check_examples(known, schema, examples)


def check_data(checkup: Checkup, data: Examples | Measured, file: str = "data") -> Checkup:
    """The same with what data say about the knowledge."""
    known = checkup.knowledge
    if known is None or known.schema is None:
        return checkup
    if isinstance(data, Measured) != (known.line is not None):
        return checkup
    found, audit = lint_data(known, data, file)
    return replace(checkup, findings=[*checkup.findings, *found], audit=audit)
