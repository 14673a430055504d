"""The header of a decision table: which column is a feature, the outcome, or something beside."""

import re
from dataclasses import dataclass

from ...core.files.workbook import Broken, SheetCell
from ...errors import KnowledgeError, unknown
from ...kernel.findings import Finding
from ...kernel.schema import Schema
from .sheets import Sheet

OUTCOMES = ("then", "outcome", "range")  # names of the outcome column
EXTRAS = ("priority", "confidence", "rule", "note")

_HEADER = re.compile(r"([^\[\]]*?)\s*(?:\[([^\[\]]*)\])?")


@dataclass(frozen=True)
class SheetColumn:
    """A column of a table."""

    role: str  # feature, then, one of the extras, or blank
    title: str
    index: int = -1  # of the feature


def read_titles(
    page: Sheet,
    header: tuple[int, tuple[SheetCell, ...]],
    schema: Schema,
    outcome: str | None,
    findings: list[Finding],
) -> list[SheetColumn]:
    """The columns of a table, header given; what is wrong with them joins the findings."""
    row, cells = header
    columns = []
    for position, cell in enumerate(cells, 1):
        try:
            columns.append(_column(cell, schema, outcome))
            if [column.title for column in columns].count(columns[-1].title) > 1 and columns[
                -1
            ].title:
                raise KnowledgeError(f"column '{columns[-1].title}' is there twice")
        except KnowledgeError as error:
            title = cell if isinstance(cell, str) and cell.strip() else f"number {position}"
            place = page.place(row, title[:60])
            findings.append(Finding("error", "header", place, {"error": str(error)}))
    found = [column.title for column in columns if column.role == "then"]
    if len(found) != 1 and not findings:
        wanted = [outcome] if outcome else list(OUTCOMES)
        args = {"wanted": wanted, "found": len(found)}
        findings.append(Finding("error", "header", page.place(row), args, "outcome"))
    return columns


def _column(cell: SheetCell, schema: Schema, outcome: str | None) -> SheetColumn:
    if isinstance(cell, Broken):
        raise KnowledgeError(cell.reason)
    text = cell.strip()
    if not text:
        return SheetColumn("blank", "")
    if len(text) > 200:
        raise KnowledgeError(f"a column name may have 200 characters, got {len(text)}")
    if outcome is not None and text == outcome:
        return SheetColumn("then", text)
    parts = _HEADER.fullmatch(text)
    name, unit = (parts[1].strip(), parts[2]) if parts else (text, None)
    if name in schema.names:
        feature = schema.features[schema.column(name)]
        if unit is not None and unit.strip() != feature.unit:
            raise KnowledgeError(
                f"the unit is [{unit}], but '{name}' is declared in [{feature.unit}]"
            )
        return SheetColumn("feature", name, schema.column(name))
    if outcome is None and name.lower() in OUTCOMES:
        return SheetColumn("then", name)
    if name.lower() in EXTRAS:
        return SheetColumn(name.lower(), name)
    wanted = OUTCOMES if outcome is None else (outcome,)
    raise KnowledgeError(unknown("column", name, (*schema.names, *wanted, *EXTRAS)))
