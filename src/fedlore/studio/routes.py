"""Which address answers what."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from torch import Tensor

from ..answers import Measured
from ..core.examples import Examples
from ..errors import FedloreError
from ..kernel.document import FeatureShape
from ..knowledge.findings.checkup import Checkup
from ..knowledge.signing import check_signed, make_key, sign_file
from ..look.tables import plain_values
from . import requests as asked
from .book import write_book
from .checks import show_workspace
from .data import (
    accept_rule,
    calibrate_draft,
    draw_effect,
    find_wrong,
    report_data,
    rows_of_site,
    suggest_rule,
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
from .site_model import SiteBundle, draw_trust
from .verdict import judge_rest, judge_row, tried_row
from .versions import blame_cells, compare_versions, list_versions, save_draft, version_files


@dataclass
class Studio:
    """A site's workspace with what is kept of it between two requests."""

    workspace: Workspace
    model: SiteBundle
    _known: dict[str, tuple[Checkup, str]] = field(default_factory=dict)  # of the present state

    def present(self) -> tuple[Mapping[str, bytes], Checkup, str]:
        """The files, what a check finds of them, and which part had to be left out for that."""
        with self.workspace.lock:
            token, members = self.workspace.token, self.workspace.members
        found = self._known.get(token)
        if found is None:
            found = judge_rest(members)
            self._known.clear()
            self._known[token] = found
        return members, *found

    @property
    def checkup(self) -> Checkup:
        return self.present()[1]

    @property
    def key(self) -> Path:
        """Where the key of whoever signs here lies."""
        return self.workspace.place.state / "key.pem"

    def rows(self) -> Examples | Measured:
        """The site's own rows."""
        return rows_of_site(self.workspace.place.data, self.checkup)

    def row(self, request: asked.TriedRow) -> Tensor:
        """The row that a person tries."""
        return tried_row(request.row, self.checkup)


def add_routes(app: FastAPI, workspace: Workspace) -> None:
    """Everything that the page asks."""
    studio = Studio(workspace, SiteBundle(workspace.place.bundle))

    def offer(method: str, path: str, kind: type | None, answer: Callable[..., Any]) -> None:
        if kind is None:

            @app.api_route(f"/api/{path}", methods=[method])
            def without_body() -> Any:
                return answer(studio)

        else:

            @app.api_route(f"/api/{path}", methods=[method])
            def with_body(request: kind) -> Any:  # type: ignore[valid-type]
                return answer(studio, request)

    def changed(do: Callable[[Workspace, Any], object]) -> Callable[[Studio, Any], Any]:
        def answer(_: Studio, request: Any) -> dict[str, Any]:
            do(workspace, request)
            return show_workspace(workspace)

        return answer

    for one in _ANSWERS:
        offer(*one)
    for method, path, kind, do in _CHANGES:
        offer(method, path, kind, changed(do))


def _restore(workspace: Workspace, request: asked.OneVersion) -> None:
    files = version_files(workspace.place, request.number)
    workspace.change(
        request.token, files, who=request.who, what=f"all files (version {request.number})"
    )


#: What changes the draft or the files; the answer is the whole workspace as it is then.
_CHANGES: tuple[tuple[str, str, type, Callable[[Workspace, Any], object]], ...] = (
    ("PUT", "document", asked.DocumentChange, change_document),
    ("POST", "table", asked.NewTable, add_table),
    ("POST", "calibrate", asked.CalibrationRequest, calibrate_draft),
    ("POST", "accept", asked.RuleAccepted, accept_rule),
    ("POST", "start", asked.LabelChoice, start_file),
    ("POST", "save", asked.SaveRequest, save_draft),
    (
        "POST",
        "discard",
        asked.Change,
        lambda workspace, request: workspace.discard(request.token, who=request.who),
    ),
    (
        "POST",
        "undo",
        asked.Change,
        lambda workspace, request: workspace.undo(request.token, who=request.who),
    ),
    (
        "POST",
        "redo",
        asked.Change,
        lambda workspace, request: workspace.redo(request.token, who=request.who),
    ),
    ("POST", "restore", asked.OneVersion, _restore),
    ("POST", "examples", asked.Change, start_examples),
)


def _show_state(studio: Studio) -> dict[str, Any]:
    space = studio.workspace
    return {"token": space.token, "saved": space.saved_token}


def _show_book(studio: Studio) -> dict[str, Any]:
    place = studio.workspace.place
    name = place.folder.resolve().name
    return {"html": write_book(studio.workspace.members, name, place.knowledge, place.data)}


def _compare(studio: Studio, request: asked.TwoVersions) -> Any:
    return plain_values(
        compare_versions(studio.workspace, request.before, request.after, studio.model)
    )


def _show_signature(studio: Studio) -> dict[str, Any]:
    """Who signed what is saved."""
    key = studio.key.exists()
    try:
        return {**asdict(check_signed(studio.workspace.place.knowledge)), "key": key, "fault": ""}
    except FedloreError as error:
        return {"fault": str(error), "key": key}


def _sign(studio: Studio, request: asked.SignatureAsked) -> dict[str, Any]:
    workspace, key = studio.workspace, studio.key
    with workspace.lock:
        if workspace.draft.changed:
            raise FedloreError("there is a draft: save it first, what is saved is signed")
        if not key.exists():
            make_key(key, request.passphrase)
        signed = sign_file(
            workspace.place.knowledge, key=key, passphrase=request.passphrase, signer=request.signer
        )
    return asdict(signed)


def _try(studio: Studio, request: asked.TriedRow) -> Any:
    members, checkup, without = studio.present()
    x = tried_row(request.row, checkup)
    verdict = judge_row(checkup, x, read_grids(members)) | {"without": without}
    return plain_values({**verdict, "model": studio.model.say(x, checkup)})


def _as_examples(studio: Studio, request: asked.SomeRows) -> dict[str, Any]:
    each = (example_rows(studio.checkup, tried_row(row, studio.checkup)) for row in request.rows)
    return {"rows": [cells for rows in each for cells in rows]}


def _show_data(studio: Studio) -> Any:
    data = studio.workspace.place.data
    return plain_values(report_data(studio.checkup, studio.rows(), data.name if data else ""))


def _suggest(studio: Studio) -> dict[str, Any]:
    members, checkup, _ = studio.present()
    return {"rule": suggest_rule(members, checkup, studio.rows())}


def _draw_effect(studio: Studio, request: asked.ShapeAsked) -> dict[str, Any]:
    shape = FeatureShape(request.feature, request.effect, request.where, request.turns_at)
    return draw_effect(studio.checkup, studio.rows(), shape)


def _find_nearest(studio: Studio, request: asked.WantedClass) -> dict[str, Any]:
    if studio.checkup.bins is not None:
        raise FedloreError("the nearest row with another answer is for classes")
    return {"change": find_nearest(studio.checkup, studio.row(request), request.wanted)}


#: Everything else that the page asks.
_ANSWERS: tuple[tuple[str, str, type | None, Callable[..., Any]], ...] = (
    ("GET", "desk", None, lambda s: show_workspace(s.workspace)),
    ("GET", "state", None, _show_state),
    ("GET", "columns", None, lambda s: list_columns_of(s.workspace.place.data)),
    ("GET", "versions", None, lambda s: [asdict(one) for one in list_versions(s.workspace.place)]),
    # which version wrote each cell
    ("GET", "blame", None, lambda s: blame_cells(s.workspace.place)),
    ("GET", "book", None, _show_book),
    ("GET", "signature", None, _show_signature),
    ("POST", "sign", asked.SignatureAsked, _sign),
    ("PUT", "table", asked.TableChange, lambda s, request: change_table(s.workspace, request)),
    ("POST", "formula", asked.FormulaText,
     lambda s, request: look_at_formula(s.workspace.members, request.text, region=request.region)),
    ("POST", "compare", asked.TwoVersions, _compare),
    ("POST", "try", asked.TriedRow, _try),
    ("POST", "examples/propose", None, lambda s: {"rows": propose_rows(s.checkup)}),
    ("POST", "examples/rows", asked.SomeRows, _as_examples),
    ("POST", "data", None, _show_data),
    ("POST", "data/wrong", asked.OneRule,
     lambda s, request: find_wrong(s.checkup, s.rows(), request.rule)),
    ("POST", "trust", None, lambda s: draw_trust(s.model.bundle(), s.checkup, s.rows())),
    ("POST", "suggest", None, _suggest),
    ("POST", "effect", asked.ShapeAsked, _draw_effect),
    ("POST", "curve", asked.LookAlong,
     lambda s, request: draw_curve(s.checkup, s.row(request), request.features[0])),
    ("POST", "map", asked.LookAlong,
     lambda s, request: draw_map(s.checkup, s.row(request), request.features)),
    ("POST", "nearest", asked.WantedClass, _find_nearest),
)  # fmt: skip
