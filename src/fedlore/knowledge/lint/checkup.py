"""The whole audit of a knowledge file: the file, its sources, their logic, and the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...answers import Bins, Measured
from ...core.examples import Examples
from ...core.still import without_gradient
from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.findings import Finding, Place, Severity, errors
from ...kernel.schema import Schema
from ..audit import Audit
from ..content import Files, Where, files_at
from ..files import Document, assemble, read_document, setting_of
from ..formulas.grading import FormulaRange, GradedFormula
from ..kinds import kind_of
from ..models import Knowledge
from ..policies import Conflict
from ..soft import has_soft, split_ranges
from ..sources.kind import Asked, Setting
from ..sources.opening import examine_source, naming
from ..sources.writing import kind_of_model, leaves
from ..tables.soft import SoftTable
from ..tables.table import Table
from .arithmetic import lint_formulas
from .combination import Combination, lint_combination
from .crosschecks import cross_check
from .expected import check_expected, read_expected
from .logic import lint_tables
from .numbers import NumberAudit, audit_numbers, lint_numbers, number_findings
from .shapes import check_shapes, lint_shapes
from .soft import check_soft, lint_soft
from .trust import check_trust, lint_trust, missed_numbers, missed_rows

if TYPE_CHECKING:
    from torch import Tensor

_CONFLICTS: dict[Conflict, Severity] = {
    "error": "error",
    "abstain": "warning",
    "restrict": "info",
}
_FIRST = 2  # the row of a file below its header
_SHOWN = 10  # row numbers in a message


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
    if document.target is None:
        findings += _logic(document, predict, always, place)
        findings += lint_soft(predict, mostly, knowledge.trust_at_prediction, place)
    else:
        findings += lint_numbers(document, document.target.cut(), predict, ranges, place)
    findings += _each(predict, always, place)
    findings += [*lint_shapes(knowledge, place), *lint_trust(knowledge, place)]
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
        examples, findings = read_expected(files, name, schema)
    except KnowledgeError as error:
        return [Finding("error", "example", Place(name), {"error": str(error)})]
    return findings + check_expected(known, schema, examples)


def check_data(checkup: Checkup, data: Examples | Measured, file: str = "data") -> Checkup:
    """The same with what data say about the knowledge."""
    knowledge = checkup.knowledge
    if isinstance(data, Measured):
        return _check_measured(checkup, data, file)
    if knowledge is None or knowledge.schema is None or knowledge.line is not None:
        return checkup
    findings = list(checkup.findings)
    findings += _scope(knowledge.schema, data.x, file)
    try:
        audit = knowledge.audit(data, knowledge.answers)
    except KnowledgeError as error:
        findings.append(Finding("error", "data", Place(file), {"error": str(error)}))
        return Checkup(findings, knowledge, checkup.tables)
    findings += _labels(knowledge, audit, data, file)
    findings += check_soft(knowledge, data, file)
    if data.y is not None:
        findings += check_shapes(knowledge.shapes, data.x, data.y, file)
        findings += check_trust(knowledge, data.x, missed_rows(knowledge, data), file)
    return Checkup(findings, knowledge, checkup.tables, audit)


def _check_measured(checkup: Checkup, data: Measured, file: str) -> Checkup:
    known, bins = checkup.knowledge, checkup.bins
    if known is None or known.schema is None or bins is None:
        return checkup
    findings = [*checkup.findings, *_scope(known.schema, data.x, file)]
    audit = None
    try:
        audit = audit_numbers(known, data, bins)
        findings += number_findings(known, audit, data, bins, file)
        if data.y is not None:
            findings += check_shapes(known.shapes, data.x, data.y, file)
            findings += check_trust(known, data.x, missed_numbers(known, data, bins), file)
    except KnowledgeError as error:
        findings.append(Finding("error", "data", Place(file), {"error": str(error)}))
    return replace(checkup, findings=findings, audit=audit)


def _logic(
    document: Document, predict: Sequence[Any], ranges: Sequence[Any], place: Place
) -> list[Finding]:
    """Tables, formulas, and each against the other, over the whole declared domain."""
    bounding = ranges if document.range.combine == "all" else []
    tables = [m for m in ranges if isinstance(m, Table)]
    findings = lint_tables([m for m in predict if isinstance(m, Table)], tables if bounding else ())
    for table in () if bounding else tables:
        findings += lint_tables((), (table,))
    graded = [m for m in predict if isinstance(m, GradedFormula)]
    limits = [m for m in ranges if isinstance(m, FormulaRange)]
    for one in graded:
        findings += lint_formulas(one, place=place)
    for two in limits:
        findings += lint_formulas(None, two, place=place)
        for one in graded if bounding else ():
            pair = lint_formulas(one, two, place=place)
            findings += [f for f in pair if f.kind == "outside-range"]
    findings += cross_check(predict, bounding)
    combination = Combination(
        document.schema,
        predict,
        ranges,
        alternatives=document.range.combine == "any",
        empty=document.range.empty,
        averaged=document.predict.combine == "average",
        conflict=document.conflict,
    )
    return lint_combination(combination, findings, place)


def _scope(schema: Schema, x: Tensor, file: str) -> Iterator[Finding]:
    for column, feature in enumerate(schema.features):
        values = x[:, column]
        beyond = (values < feature.low) | (values > feature.high)
        if beyond.any():
            rows = (beyond.nonzero().flatten() + _FIRST).tolist()
            yield Finding(
                "warning",
                "out-of-scope",
                Place(file, row=rows[0], column=feature.name),
                {
                    "feature": feature.name,
                    "low": feature.low,
                    "high": feature.high,
                    "rows": rows,
                },
            )


def _labels(knowledge: Knowledge, audit: Audit, data: Examples, file: str) -> Iterator[Finding]:
    if audit.outside:
        rows = (_outside(knowledge, data).nonzero().flatten() + _FIRST).tolist()
        yield Finding(
            "error" if knowledge.outside == "error" else "warning",
            "label-outside",
            Place(file, row=rows[0]),
            {"rows": rows, "policy": knowledge.outside},
        )
    if audit.conflicts:
        yield Finding(
            _CONFLICTS[knowledge.conflict],
            "outside-range",
            Place(file),
            {"count": audit.conflicts, "policy": knowledge.conflict},
            "rows",
        )
    # of what holds in most cases only each confidence is looked at, see `check_soft`
    if audit.hits is not None and data.y is not None and not has_soft(knowledge.prediction):
        majority = float(data.y.bincount().max()) / len(data)
        if audit.hits < majority:
            shares = {"hits": audit.hits, "majority": majority}
            yield Finding("warning", "weak-expert", Place(file), shares)


@without_gradient
def _outside(knowledge: Knowledge, data: Examples) -> torch.Tensor:
    assert knowledge.range is not None and data.y is not None
    allowed: torch.Tensor = knowledge.range(data.x)
    return ~allowed.gather(1, data.y.unsqueeze(1)).squeeze(1)
