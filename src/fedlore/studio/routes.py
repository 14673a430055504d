"""Which address answers what."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI

from ..errors import FedloreError
from ..kernel.document import FeatureShape
from ..knowledge.findings.checkup import Checkup
from ..knowledge.signing import check_signed, make_key, sign_file
from ..look.tables import plain_values
from .book import write_book
from .checks import show_workspace
from .data import (
    accept_rule,
    calibrate_draft,
    draw_effect,
    find_wrong,
    rows_of_site,
    suggest_rule,
    tell_data,
)
from .draft import Workspace
from .edits import (
    add_table,
    change_document,
    change_table,
    list_columns_of,
    look_at_formula,
    start_file,
)
from .examples import example_rows, propose_rows, start_examples
from .grids import read_grids
from .maps import draw_curve, draw_map, find_nearest
from .requests import (
    CalibrationRequest,
    Change,
    DocumentChange,
    FormulaText,
    LabelChoice,
    LookAlong,
    NewTable,
    OneRule,
    OneVersion,
    RuleAccepted,
    SaveRequest,
    ShapeAsked,
    SignatureAsked,
    SomeRows,
    TableChange,
    TriedRow,
    TwoVersions,
    WantedClass,
)
from .site_model import SiteBundle, draw_trust
from .verdict import judge_rest, judge_row, tried_row
from .versions import blame_cells, compare_versions, list_versions, save_draft, version_files


def add_routes(app: FastAPI, desk: Workspace) -> None:
    """Everything that the page asks."""
    model = SiteBundle(desk.place.bundle)
    _add_changes(app, desk)
    _add_writing(app, desk)
    _add_versions(app, desk, model)
    _add_signing(app, desk)
    _add_trying(app, desk, model)


def _restore(desk: Workspace, said: OneVersion) -> None:
    files = version_files(desk.place, said.number)
    desk.change(said.token, files, who=said.who, what=f"all files (version {said.number})")


#: What changes the draft or the files; the answer is the whole desk as it is then.
_CHANGES: tuple[tuple[str, str, type[Change], Callable[[Workspace, Any], object]], ...] = (
    ("PUT", "/api/document", DocumentChange, change_document),
    ("POST", "/api/table", NewTable, add_table),
    ("POST", "/api/calibrate", CalibrationRequest, calibrate_draft),
    ("POST", "/api/accept", RuleAccepted, accept_rule),
    ("POST", "/api/start", LabelChoice, start_file),
    ("POST", "/api/save", SaveRequest, save_draft),
    ("POST", "/api/discard", Change, lambda desk, said: desk.discard(said.token, who=said.who)),
    ("POST", "/api/undo", Change, lambda desk, said: desk.undo(said.token, who=said.who)),
    ("POST", "/api/redo", Change, lambda desk, said: desk.redo(said.token, who=said.who)),
    ("POST", "/api/restore", OneVersion, _restore),
    ("POST", "/api/examples", Change, start_examples),
)


def _add_changes(app: FastAPI, desk: Workspace) -> None:
    def offer(method: str, path: str, kind: type[Change], do: Callable[..., object]) -> None:
        @app.api_route(path, methods=[method])
        def change(said: kind) -> dict[str, Any]:  # type: ignore[valid-type]
            do(desk, said)
            return show_workspace(desk)

    for one in _CHANGES:
        offer(*one)


def _add_writing(app: FastAPI, desk: Workspace) -> None:
    """Looking at the desk, and typing."""

    @app.get("/api/desk")
    def whole() -> dict[str, Any]:
        return show_workspace(desk)

    @app.get("/api/state")
    def state() -> dict[str, str]:
        return {"token": desk.token, "saved": desk.saved_token}

    @app.put("/api/table")
    def table(said: TableChange) -> dict[str, Any]:
        return change_table(desk, said)

    @app.post("/api/formula")
    def formula(said: FormulaText) -> dict[str, Any]:
        return look_at_formula(desk.members, said.text, region=said.region)

    @app.get("/api/columns")
    def columns() -> list[str]:
        return list_columns_of(desk.place.data)


def _add_versions(app: FastAPI, desk: Workspace, model: SiteBundle) -> None:
    """What was saved when, by whom and why, and what it changed."""

    @app.get("/api/versions")
    def versions() -> list[dict[str, Any]]:
        return [asdict(version) for version in list_versions(desk.place)]

    @app.get("/api/blame")
    def blame() -> list[dict[str, Any]]:
        """Which version wrote each cell."""
        return blame_cells(desk.place)

    @app.post("/api/compare")
    def two(said: TwoVersions) -> dict[str, Any]:
        return dict(plain_values(compare_versions(desk, said.before, said.after, model)))

    @app.get("/api/book")
    def book() -> dict[str, Any]:
        place = desk.place
        name = place.folder.resolve().name
        return {"html": write_book(desk.members, name, place.knowledge, place.data)}


def _add_signing(app: FastAPI, desk: Workspace) -> None:
    """Who signed what is saved, and signing it."""
    key = desk.place.state / "key.pem"

    @app.get("/api/signature")
    def signature() -> dict[str, Any]:
        try:
            return {**asdict(check_signed(desk.place.knowledge)), "key": key.exists(), "fault": ""}
        except FedloreError as error:
            return {"fault": str(error), "key": key.exists()}

    @app.post("/api/sign")
    def sign(said: SignatureAsked) -> dict[str, Any]:
        with desk.lock:
            if desk.draft.changed:
                raise FedloreError("there is a draft: save it first, what is saved is signed")
            if not key.exists():
                make_key(key, said.passphrase)
            signed = sign_file(
                desk.place.knowledge, key=key, passphrase=said.passphrase, signer=said.signer
            )
        return asdict(signed)


def _add_trying(app: FastAPI, desk: Workspace, model: SiteBundle) -> None:
    """Asking the draft about rows."""
    known: dict[str, tuple[Checkup, str]] = {}  # of the present state alone

    def present() -> tuple[Mapping[str, bytes], Checkup, str]:
        with desk.lock:
            token, members = desk.token, desk.members
        found = known.get(token)
        if found is None:
            found = judge_rest(members)
            known.clear()
            known[token] = found
        return members, *found

    @app.post("/api/try")
    def tried(said: TriedRow) -> dict[str, Any]:
        members, checkup, without = present()
        x = tried_row(said.row, checkup)
        verdict = judge_row(checkup, x, read_grids(members)) | {"without": without}
        return dict(plain_values({**verdict, "model": model.say(x, checkup)}))

    @app.post("/api/examples/propose")
    def propose() -> dict[str, Any]:
        return {"rows": propose_rows(present()[1])}

    @app.post("/api/examples/rows")
    def as_examples(said: SomeRows) -> dict[str, Any]:
        checkup = present()[1]
        each = (example_rows(checkup, tried_row(row, checkup)) for row in said.rows)
        return {"rows": [cells for rows in each for cells in rows]}

    @app.post("/api/data")
    def data() -> dict[str, Any]:
        checkup = present()[1]
        rows = rows_of_site(desk.place.data, checkup)
        name = desk.place.data.name if desk.place.data else ""
        return dict(plain_values(tell_data(checkup, rows, name)))

    @app.post("/api/data/wrong")
    def wrong(said: OneRule) -> dict[str, Any]:
        checkup = present()[1]
        return find_wrong(checkup, rows_of_site(desk.place.data, checkup), said.rule)

    @app.post("/api/trust")
    def trust() -> dict[str, Any]:
        checkup = present()[1]
        opened = model.bundle()
        return draw_trust(opened, checkup, rows_of_site(desk.place.data, checkup))

    @app.post("/api/suggest")
    def suggest() -> dict[str, Any]:
        members, checkup, _ = present()
        rows = rows_of_site(desk.place.data, checkup)
        return {"rule": suggest_rule(members, checkup, rows)}

    @app.post("/api/effect")
    def effect(said: ShapeAsked) -> dict[str, Any]:
        checkup = present()[1]
        rows = rows_of_site(desk.place.data, checkup)
        turns = tuple(said.turns_at) if isinstance(said.turns_at, list) else said.turns_at
        shape = FeatureShape(said.feature, said.effect, said.where, turns)
        return draw_effect(checkup, rows, shape)

    @app.post("/api/curve")
    def curve(said: LookAlong) -> dict[str, Any]:
        checkup = present()[1]
        return draw_curve(checkup, tried_row(said.row, checkup), said.features[0])

    @app.post("/api/map")
    def area(said: LookAlong) -> dict[str, Any]:
        checkup = present()[1]
        return draw_map(checkup, tried_row(said.row, checkup), said.features)

    @app.post("/api/nearest")
    def nearest(said: WantedClass) -> dict[str, Any]:
        checkup = present()[1]
        if checkup.bins is not None:
            raise FedloreError("the nearest row with another answer is for classes")
        return {"change": find_nearest(checkup, tried_row(said.row, checkup), said.wanted)}
