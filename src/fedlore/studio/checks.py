"""Findings of the linter at their cells, and the whole draft as the plain values a page shows."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import FedloreError, KnowledgeError
from ..kernel.findings import Finding, Place
from ..kernel.schema import Schema
from ..kernel.sheets import POLICIES, feature_titled
from ..knowledge.content import FILE, files_at, toml_in
from ..knowledge.files import is_number_file, read_document
from ..knowledge.findings.checkup import Checkup, check_file
from ..knowledge.findings.data import Evidence, lint_coverage
from ..knowledge.missing import join_columns
from ..look.tables import plain_values
from .answers import first_error
from .draft import Workspace
from .grids import RuleGrid, read_grids, sources_in


def judge(members: Mapping[str, bytes]) -> Checkup:
    """What `fedlore lint` would say; a file that cannot be read at all is a finding too."""
    try:
        _refuse_code(members)
        found = check_file(members)
        unused = lint_coverage(found.knowledge, Evidence(found.examples))
        return replace(found, findings=[*unused, *found.findings])
    except FedloreError as error:
        said = {"error": str(error).removeprefix(f"{FILE}: ")}  # its place says the name
        return Checkup([Finding("error", "file", Place(FILE), said)])


def check_draft(members: Mapping[str, bytes]) -> dict[str, Any]:
    """The same at the cells of its tables, and how long it took."""
    began = time.perf_counter()
    checkup = judge(members)
    seconds = time.perf_counter() - began
    shown = show_findings(checkup.findings, read_grids(members), read_schema(members))
    fault = "" if checkup.knowledge is not None else first_error(checkup)
    return {"findings": shown, "seconds": seconds, "fault": fault}


def _refuse_code(members: Mapping[str, bytes]) -> None:
    """A page must not be a way to run Python, whoever holds its token."""
    if toml_in(*files_at(members)).get("entry_points"):
        raise KnowledgeError(
            "entry_points = true lets this file run Python functions, which the studio does not: "
            "remove the key, or check the file with fedlore lint"
        )


def show_findings(
    findings: Sequence[Finding], grids: Sequence[RuleGrid], schema: Schema | None
) -> list[dict[str, Any]]:
    """Findings as plain values, with the cell of the grid each belongs to."""
    titles = [[bare_title(title, schema) for title in grid.header] for grid in grids]
    return [
        {**plain_values(finding.as_row()), "cell": _cell(finding.place, grids, titles, schema)}
        for finding in findings
    ]


def _cell(
    place: Place,
    grids: Sequence[RuleGrid],
    header: Sequence[Sequence[str]],
    schema: Schema | None,
) -> dict[str, Any] | None:
    """Grid, row (from 0; -1 is the header) and column, None for the whole row."""
    for number, grid in enumerate(grids):
        if (grid.file, grid.sheet) == (place.file, place.sheet):
            row = None if place.row is None else place.row - grid.first - 1
            titles, wanted = header[number], bare_title(place.column, schema)
            column = titles.index(wanted) if wanted and wanted in titles else None
            if column is None and place.column.startswith("number "):
                column = int(place.column.removeprefix("number ")) - 1
            return {"grid": number, "row": row, "column": column}
    return None


def bare_title(title: str, schema: Schema | None) -> str:
    """The name of the feature that a title means, else the title without a unit."""
    place = None if schema is None else feature_titled(title.strip(), schema.features)
    if schema is None or place is None:
        return title.partition("[")[0].strip()
    return schema.names[place]


_SETTINGS = (
    "trust",
    "reliance",
    "least_trust",
    "outside",
    "conflict",
    "label",
    "measured",
    "classes",
    "ordered",
    "floor",
)


def show_workspace(workspace: Workspace) -> dict[str, Any]:
    """Everything the page needs; faults of the files are told, never raised."""
    members, draft = workspace.members, workspace.draft
    about: dict[str, Any] = {
        "name": workspace.place.folder.resolve().name,
        "file": workspace.place.knowledge.name,
        "token": workspace.token,
        "saved": workspace.saved_token,
        "draft": sorted(draft.changed),
        **workspace.steps,
        "drafted": {"who": draft.who, "what": draft.what, "when": draft.when},
        "data": workspace.place.data.name if workspace.place.data else None,
        "bundle": workspace.place.bundle.name if workspace.place.bundle else None,
        "models": sorted(path.name for path in workspace.place.ensemble.glob("*.onnx")),
        "policies": {kind: list(names) for kind, names in POLICIES.items()},
        "exists": workspace.place.knowledge.exists() or bool(draft.changed),
    }
    if not about["exists"]:
        return {**about, **_nothing()}
    try:
        values = toml_in(*files_at(members))
    except FedloreError as error:
        return {**about, **_nothing(), "fault": str(error)}
    began = time.perf_counter()
    checkup, grids, schema = judge(members), read_grids(members), read_schema(members)
    return {
        **about,
        "settings": plain_values({key: values[key] for key in _SETTINGS if key in values}),
        "card": plain_values(values.get("card", {})),
        "sources": {side: plain_values(sources_in(values, side)) for side in ("predict", "range")},
        "combine": {side: _combine(values.get(side)) for side in ("predict", "range")},
        "shapes": plain_values(sources_in(values, "shape")),
        "regions": plain_values(sources_in(values, "trust", "regions")),
        "schema": show_schema(schema, members),
        "used": _used(checkup),
        "grids": [grid.as_row() for grid in grids],
        "findings": show_findings(checkup.findings, grids, schema),
        "seconds": time.perf_counter() - began,
        "fault": "",
    }


def read_schema(members: Any) -> Schema | None:
    """Features and classes, or None where the file does not say them well."""
    try:
        return read_document(members, unchecked=True).schema
    except FedloreError:
        return None


def _used(checkup: Checkup) -> list[str] | None:
    """The features that some source looks at; None where the knowledge cannot be used."""
    known = checkup.knowledge
    if known is None or known.schema is None:
        return None
    models = [model for model in (known.prediction, known.range) if model is not None]
    return [known.schema.names[c] for c in join_columns(models, len(known.schema.names))]


def show_schema(schema: Schema | None, members: Any) -> dict[str, Any] | None:
    """The same as plain values."""
    if schema is None:
        return None
    number = is_number_file(members)
    return {
        "label": schema.label,
        "classes": [] if number else list(schema.classes),
        "ordered": schema.ordered,
        "number": number,
        "unit": schema.unit,
        "features": [
            f.describe() | {"missing": f.missing, "have": f.have} for f in schema.features
        ],
    }


def _combine(part: Any) -> Any:
    return part.get("combine", "") if isinstance(part, dict) else ""


def _nothing() -> dict[str, Any]:
    """The parts of a desk without a readable file."""
    empty: dict[str, list[Any]] = {"predict": [], "range": []}
    return {
        "settings": {}, "card": {}, "sources": empty, "combine": {}, "schema": None,
        "shapes": [], "regions": [], "used": None, "grids": [],
        "findings": [], "seconds": 0.0, "fault": "",
    }  # fmt: skip
