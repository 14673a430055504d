"""Which address answers what."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI

from ..errors import FedloreError
from ..knowledge.findings.checkup import Checkup
from ..knowledge.signing import check_signed, make_key, sign_file
from .book import write_book
from .checks import jsonable, judge, show_workspace
from .data import calibrate_draft, rows_of_site, suggest_rule, tell_data
from .draft import Workspace
from .edits import (
    add_table,
    change_document,
    change_table,
    check_draft,
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
    OneVersion,
    SaveRequest,
    SignatureAsked,
    SomeRows,
    TableChange,
    TriedRow,
    TwoVersions,
    WantedClass,
)
from .site_model import SiteBundle, draw_trust
from .verdict import judge_row, tried_row
from .versions import compare_versions, list_versions, save_draft, version_files


def add_writing(app: FastAPI, desk: Workspace) -> None:
    """Looking at the desk and changing the draft."""

    @app.get("/api/desk")
    def whole() -> dict[str, Any]:
        return show_workspace(desk)

    @app.put("/api/table")
    def table(said: TableChange) -> dict[str, Any]:
        return change_table(desk, said)

    @app.put("/api/document")
    def document(said: DocumentChange) -> dict[str, Any]:
        change_document(desk, said)
        return show_workspace(desk)

    @app.post("/api/table")
    def another(said: NewTable) -> dict[str, Any]:
        add_table(desk, said)
        return show_workspace(desk)

    @app.post("/api/calibrate")
    def calibrated(said: CalibrationRequest) -> dict[str, Any]:
        calibrate_draft(desk, said)
        return show_workspace(desk)

    @app.post("/api/check")
    def check() -> dict[str, Any]:
        return check_draft(desk.members)

    @app.post("/api/formula")
    def formula(said: FormulaText) -> dict[str, Any]:
        return look_at_formula(desk.members, said.text)

    @app.get("/api/columns")
    def columns() -> list[str]:
        return list_columns_of(desk.place.data)

    @app.post("/api/start")
    def start(said: LabelChoice) -> dict[str, Any]:
        start_file(desk, said.token, said.label, said.who)
        return show_workspace(desk)

    @app.post("/api/save")
    def save(said: SaveRequest) -> dict[str, Any]:
        save_draft(desk, said)
        return show_workspace(desk)

    @app.post("/api/discard")
    def discard(said: Change) -> dict[str, Any]:
        desk.discard(said.token, who=said.who)
        return show_workspace(desk)


def add_versions(app: FastAPI, desk: Workspace) -> None:
    """What was saved when, by whom and why, and what it changed."""
    model = SiteBundle(desk.place.bundle)

    @app.get("/api/versions")
    def versions() -> list[dict[str, Any]]:
        return [asdict(version) for version in list_versions(desk.place)]

    @app.post("/api/compare")
    def two(said: TwoVersions) -> dict[str, Any]:
        return dict(jsonable(compare_versions(desk, said.before, said.after, model)))

    @app.get("/api/book")
    def book() -> dict[str, Any]:
        place = desk.place
        return {"html": write_book(desk.members, place.folder.resolve().name, place.knowledge)}

    @app.post("/api/restore")
    def restore(said: OneVersion) -> dict[str, Any]:
        files = version_files(desk.place, said.number)
        desk.change(said.token, files, who=said.who, what=f"all files (version {said.number})")
        return show_workspace(desk)


def add_signing(app: FastAPI, desk: Workspace) -> None:
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


def add_trying(app: FastAPI, desk: Workspace) -> None:
    """StudioRequest the draft about rows."""
    model = SiteBundle(desk.place.bundle)

    known: dict[str, Checkup] = {}  # of the present state alone

    def present() -> tuple[Mapping[str, bytes], Checkup]:
        with desk.lock:
            token, members = desk.token, desk.members
        checkup = known.get(token)
        if checkup is None:
            checkup = judge(members).checkup
            known.clear()
            known[token] = checkup
        return members, checkup

    @app.post("/api/try")
    def tried(said: TriedRow) -> dict[str, Any]:
        members, checkup = present()
        x = tried_row(said.row, checkup)
        told = judge_row(checkup, x, read_grids(members))
        return dict(jsonable({**told, "model": model.say(x, checkup)}))

    @app.post("/api/examples")
    def begin(said: Change) -> dict[str, Any]:
        start_examples(desk, said.token, said.who)
        return show_workspace(desk)

    @app.post("/api/examples/propose")
    def propose() -> dict[str, Any]:
        return {"rows": propose_rows(present()[1])}

    @app.post("/api/examples/rows")
    def as_examples(said: SomeRows) -> dict[str, Any]:
        checkup = present()[1]
        rows = [
            cells for row in said.rows for cells in example_rows(checkup, tried_row(row, checkup))
        ]
        return {"rows": rows}

    @app.post("/api/data")
    def data() -> dict[str, Any]:
        checkup = present()[1]
        rows = rows_of_site(desk.place.data, checkup)
        name = desk.place.data.name if desk.place.data else ""
        return dict(jsonable(tell_data(checkup, rows, name)))

    @app.post("/api/trust")
    def trust() -> dict[str, Any]:
        checkup = present()[1]
        opened = model.bundle()
        return draw_trust(opened, checkup, rows_of_site(desk.place.data, checkup))

    @app.post("/api/suggest")
    def suggest() -> dict[str, Any]:
        checkup = present()[1]
        return {"rule": suggest_rule(checkup, rows_of_site(desk.place.data, checkup))}

    @app.post("/api/curve")
    def curve(said: LookAlong) -> dict[str, Any]:
        _, checkup = present()
        return draw_curve(checkup, tried_row(said.row, checkup), said.features[0])

    @app.post("/api/map")
    def area(said: LookAlong) -> dict[str, Any]:
        _, checkup = present()
        return draw_map(checkup, tried_row(said.row, checkup), said.features)

    @app.post("/api/nearest")
    def nearest(said: WantedClass) -> dict[str, Any]:
        _, checkup = present()
        if checkup.bins is not None:
            raise FedloreError("the nearest row with another answer is for classes")
        return {"change": find_nearest(checkup, tried_row(said.row, checkup), said.wanted)}
