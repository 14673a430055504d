"""The whole audit of a knowledge file: the file, its sources, their logic, and the data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...core.examples import Examples
from ...errors import KnowledgeError
from ..audit import Audit
from ..files import Document, assemble, read_document, setting_of
from ..findings import Finding, Place, Severity, errors
from ..formulas.grading import FormulaRange, GradedFormula
from ..kinds import kind_of
from ..models import Conflict, Knowledge
from ..sources import Side, Source, model_of
from ..tables.rulesheets import examine_table
from ..tables.sheets import read_sheet
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


def check_file(path: str | Path) -> Checkup:
    """Everything that can be said about a knowledge file without data."""
    path = Path(path)
    document = read_document(path)
    findings: list[Finding] = []
    opened: dict[int, Any] = {}
    for side, source in _sources(document):
        model, found = _open(source, side, document, path)
        findings += found
        opened[id(source)] = model
    if errors(findings):
        return Checkup(findings)
    knowledge = assemble(document, lambda source, side: opened[id(source)], path.name)
    predict = [opened[id(s)] for s in document.predict.sources]
    ranges = [opened[id(s)] for s in document.range.sources]
    findings += _logic(document, predict, ranges, Place(path.name))
    if any(kind_of(model) == "statistical" for model in ranges):
        findings.append(
            Finding(
                "info",
                "statistical",
                "a range here is statistical: it misses the label now and then, as its level says",
                Place(path.name),
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


def _sources(document: Document) -> Iterator[tuple[Side, Source]]:
    for source in document.predict.sources:
        yield "predict", source
    for source in document.range.sources:
        yield "range", source


def _open(source: Source, side: Side, document: Document, path: Path) -> tuple[Any, list[Finding]]:
    """A source's model, or everything that keeps it from being one."""
    try:
        if source.sort != "table" or source.table is None:
            return model_of(source, side, setting_of(document, path)), []
        page = read_sheet(path.parent / source.table, sheet=source.sheet)
        return examine_table(
            page, document.schema, kind=side, policy=source.hit, outcome=source.outcome
        )
    except KnowledgeError as error:
        return None, [Finding("error", "source", str(error), Place(path.name))]


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
    assert knowledge.rkm is not None and data.y is not None
    return ~knowledge.rkm(data.x).gather(1, data.y.unsqueeze(1)).squeeze(1)


def _rows(rows: Sequence[int]) -> str:
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:_SHOWN]))}{more}"
