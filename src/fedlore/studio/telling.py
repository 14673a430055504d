"""The whole desk as plain values: what the page shows when it opens."""

from typing import Any

from ..errors import FedloreError
from ..kernel.schema import Schema
from ..kernel.sheets import POLICIES
from ..knowledge.content import files_at, toml_in
from ..knowledge.files import is_number_file, read_document
from ..knowledge.findings.checkup import Checkup
from .checks import jsonable, judge, tell_findings
from .desk import Workdesk
from .grids import read_grids

_SETTINGS = ("trust", "reliance", "outside", "conflict", "label", "classes", "ordered", "floor")


def tell_desk(desk: Workdesk) -> dict[str, Any]:
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
        "models": sorted(path.name for path in desk.place.beside.glob("*.onnx")),
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
