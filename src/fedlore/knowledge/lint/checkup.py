"""The whole audit of a knowledge file: the file, its sources, their logic, and the data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...core.examples import Examples
from ...errors import KnowledgeError
from ..audit import Audit
from ..content import Where, files_at
from ..files import Document, assemble, read_document, setting_of
from ..findings import Finding, Place, Severity, errors
from ..formulas.grading import FormulaRange, GradedFormula
from ..kinds import kind_of
from ..models import Knowledge
from ..policies import Conflict
from ..sources.kind import Asked
from ..sources.opening import examine_source, naming
from ..sources.writing import kind_of_model, leaves
from ..tables.table import Table
from .arithmetic import lint_formulas
from .crosschecks import cross_check
from .logic import lint_tables

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
    tables: list[Table] = field(default_factory=list)
    audit: Audit | None = None


def check_file(where: Where) -> Checkup:
    """Everything that can be said about a knowledge file without data."""
    files, name = files_at(where)
    document = read_document(where)
    setting, place = setting_of(document, files), Place(name)
    findings: list[Finding] = []

    def opened(sources: Sequence[dict[str, Any]], asked: Asked) -> list[Any]:
        models = []
        for source in sources:
            model, found = examine_source(source, asked, setting, place)
            models.append(model)
            findings.extend(found)
        return models

    predict = opened(document.predict.sources, "prediction")
    ranges = opened(document.range.sources, "range")
    if errors(findings):
        return Checkup(findings)
    with naming(name):
        knowledge = Knowledge(**assemble(document, predict, ranges))
    findings += _logic(document, predict, ranges, place)
    for model in leaves(*predict, *ranges):
        kind = kind_of_model(model)
        findings += () if kind is None else kind.lint(model, place)
    if any(kind_of(model) == "statistical" for model in ranges):
        findings.append(
            Finding(
                "info",
                "statistical",
                "a range here is statistical: it misses the label now and then, as its level says",
                place,
            )
        )
    tables = [model for model in (*predict, *ranges) if isinstance(model, Table)]
    return Checkup(findings, knowledge, tables)


def check_data(checkup: Checkup, data: Examples, file: str = "data") -> Checkup:
    """The same with what data say about the knowledge."""
    knowledge = checkup.knowledge
    if knowledge is None or knowledge.schema is None:
        return checkup
    findings = list(checkup.findings)
    findings += _scope(knowledge, data, file)
    try:
        audit = knowledge.audit(data, len(knowledge.schema.classes))
    except KnowledgeError as error:
        findings.append(Finding("error", "data", str(error), Place(file)))
        return Checkup(findings, knowledge, checkup.tables)
    findings += _labels(knowledge, audit, data, file)
    return Checkup(findings, knowledge, checkup.tables, audit)


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
            findings += [f for f in pair if f.code == "outside-range"]
    findings += cross_check(predict, bounding)
    return findings


def _scope(knowledge: Knowledge, data: Examples, file: str) -> Iterator[Finding]:
    assert knowledge.schema is not None
    for column, feature in enumerate(knowledge.schema.features):
        values = data.x[:, column]
        beyond = (values < feature.low) | (values > feature.high)
        if beyond.any():
            rows = (beyond.nonzero().flatten() + _FIRST).tolist()
            yield Finding(
                "warning",
                "out-of-scope",
                f"{len(rows)} rows have '{feature.name}' outside its scope "
                f"{feature.low:g} to {feature.high:g}: {_rows(rows)}",
                Place(file, row=rows[0], column=feature.name),
                suggestion="correct the value, or widen the scope if the knowledge holds there too",
            )


def _labels(knowledge: Knowledge, audit: Audit, data: Examples, file: str) -> Iterator[Finding]:
    if audit.outside:
        rows = (_outside(knowledge, data).nonzero().flatten() + _FIRST).tolist()
        yield Finding(
            "error" if knowledge.outside == "error" else "warning",
            "label-outside",
            f"{audit.outside} labels lie outside their range: {_rows(rows)}",
            Place(file, row=rows[0]),
            suggestion="look at these rows: the label or the range is wrong "
            f"(in training, policy outside = {knowledge.outside})",
        )
    if audit.conflicts:
        yield Finding(
            _CONFLICTS[knowledge.conflict],
            "outside-range",
            f"the prediction leaves the range in {audit.conflicts} rows "
            f"(policy conflict = {knowledge.conflict})",
            Place(file),
        )
    if audit.hits is not None and data.y is not None:
        majority = float(data.y.bincount().max()) / len(data)
        if audit.hits < majority:
            yield Finding(
                "warning",
                "weak-expert",
                f"the prediction is right on {audit.hits:.1%} of the rows; always saying the "
                f"commonest class is right on {majority:.1%}",
                Place(file),
                suggestion="keep trust low, or leave the prediction out",
            )


@torch.no_grad()
def _outside(knowledge: Knowledge, data: Examples) -> torch.Tensor:
    assert knowledge.range is not None and data.y is not None
    return ~knowledge.range(data.x).gather(1, data.y.unsqueeze(1)).squeeze(1)


def _rows(rows: Sequence[int]) -> str:
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:_SHOWN]))}{more}"
