"""Findings of the linter at their cells, and the whole draft as the plain values a page shows."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import FedloreError, KnowledgeError
from ..kernel.findings import Finding, Place
from ..kernel.schema import Schema
from ..kernel.sheets import POLICIES
from ..knowledge.content import FILE, files_at, toml_in
from ..knowledge.files import is_number_file, read_document
from ..knowledge.findings.checkup import Checkup, check_file
from .draft import Workspace
from .grids import RuleGrid, read_grids


@dataclass(frozen=True)
class Verdicts:
    """A checkup of the draft: what `fedlore lint` would say of the same files."""

    checkup: Checkup
    seconds: float

    @property
    def fault(self) -> str:
        """Why the knowledge cannot be used at all; empty where it can."""
        if self.checkup.knowledge is not None:
            return ""
        first = next((f for f in self.checkup.findings if f.severity == "error"), None)
        return "" if first is None else f"{first.place}: {first.message}"


def judge(members: Mapping[str, bytes]) -> Verdicts:
    """The checkup of some files; a file that cannot be read at all is a finding too."""
    began = time.perf_counter()
    try:
        _refuse_code(members)
        found = check_file(members)
    except FedloreError as error:
        found = Checkup(
            [Finding("error", "file", Place(FILE), {"error": _without_name(str(error))})]
        )
    return Verdicts(found, time.perf_counter() - began)


def _refuse_code(members: Mapping[str, bytes]) -> None:
    """A page must not be a way to run Python, whoever holds its token."""
    if toml_in(*files_at(members)).get("entry_points"):
        raise KnowledgeError(
            "entry_points = true lets this file run Python functions, which the studio does not: "
            "remove the key, or check the file with fedlore lint"
        )


def tell_findings(findings: Sequence[Finding], grids: Sequence[RuleGrid]) -> list[dict[str, Any]]:
    """Findings as plain values, with the cell of the grid each belongs to."""
    return [{**jsonable(finding.as_row()), "cell": _cell(finding, grids)} for finding in findings]


def _cell(finding: Finding, grids: Sequence[RuleGrid]) -> dict[str, Any] | None:
    """Grid, row (from 0; -1 is the header) and column, None for the whole row."""
    place = finding.place
    for number, grid in enumerate(grids):
        if (grid.file, grid.sheet) == (place.file, place.sheet):
            row = None if place.row is None else place.row - grid.first - 1
            titles = [_bare(title) for title in grid.header]
            wanted = _bare(place.column)
            column = titles.index(wanted) if wanted and wanted in titles else None
            if column is None and place.column.startswith("number "):
                column = int(place.column.removeprefix("number ")) - 1
            return {"grid": number, "row": row, "column": column}
    return None


def _bare(title: str) -> str:
    """A title without its unit, as places name columns."""
    return title.partition("[")[0].strip()


def _without_name(text: str) -> str:
    """A message without the name of the file, which its place says already."""
    return text.removeprefix(f"{FILE}: ")


def jsonable(value: Any) -> Any:
    """Plain values that JSON can hold: what is not finite becomes None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: jsonable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(part) for part in value]
    return value


_SETTINGS = ("trust", "reliance", "outside", "conflict", "label", "classes", "ordered", "floor")


def show_workspace(desk: Workspace) -> dict[str, Any]:
    """Everything the page needs; faults of the files are told, never raised."""
    members, draft = desk.members, desk.draft
    about: dict[str, Any] = {
        "name": desk.place.folder.resolve().name,
        "file": desk.place.knowledge.name,
        "token": desk.token,
        "draft": sorted(draft.changed),
        "drafted": {"who": draft.who, "what": draft.what, "when": draft.when},
        "data": desk.place.data.name if desk.place.data else None,
        "bundle": desk.place.bundle.name if desk.place.bundle else None,
        "models": sorted(path.name for path in desk.place.ensemble.glob("*.onnx")),
        "policies": {kind: list(names) for kind, names in POLICIES.items()},
        "exists": desk.place.knowledge.exists() or bool(draft.changed),
    }
    if not about["exists"]:
        return {**about, **_nothing()}
    try:
        values = toml_in(*files_at(members))
    except FedloreError as error:
        return {**about, **_nothing(), "fault": str(error)}
    judged, grids = judge(members), read_grids(members)
    return {
        **about,
        "settings": jsonable({key: values[key] for key in _SETTINGS if key in values})
        | _row_trust(judged.checkup),
        "card": jsonable(values.get("card", {})),
        "sources": {side: _sources(values, side) for side in ("predict", "range")},
        "combine": {side: _part(values, side).get("combine", "") for side in ("predict", "range")},
        "schema": tell_schema(members),
        "grids": [grid.as_row() for grid in grids],
        "findings": tell_findings(judged.checkup.findings, grids),
        "seconds": judged.seconds,
        "fault": "",
    }


def _row_trust(checkup: Checkup) -> dict[str, str]:
    """λ row by row in words, where the file says so and can be used."""
    known = checkup.knowledge
    return {} if known is None or known.row_trust is None else {"rows": str(known.row_trust)}


def read_schema(members: Any) -> Schema | None:
    """Features and classes, or None where the file does not say them well."""
    try:
        return read_document(members).schema
    except FedloreError:
        return None


def tell_schema(members: Any) -> dict[str, Any] | None:
    """The same as plain values."""
    schema = read_schema(members)
    if schema is None:
        return None
    number = is_number_file(members)
    return {
        "label": schema.label,
        "classes": [] if number else list(schema.classes),
        "ordered": schema.ordered,
        "number": number,
        "unit": schema.unit,
        "features": _features(schema),
    }


def _features(schema: Schema) -> list[dict[str, Any]]:
    return [f.describe() | {"missing": f.missing} for f in schema.features]


def _sources(values: dict[str, Any], side: str) -> list[dict[str, Any]]:
    found = _part(values, side).get("sources", [])
    return jsonable([one for one in found if isinstance(one, dict)]) if found else []


def _part(values: dict[str, Any], side: str) -> dict[str, Any]:
    part = values.get(side)
    return part if isinstance(part, dict) else {}


def _nothing() -> dict[str, Any]:
    """The parts of a desk without a readable file."""
    empty: dict[str, list[Any]] = {"predict": [], "range": []}
    return {
        "settings": {}, "card": {}, "sources": empty, "combine": {}, "schema": None,
        "grids": [], "findings": [], "seconds": 0.0, "fault": "",
    }  # fmt: skip
