"""Changes to the draft: cells, keys, new tables, a first file from rows."""

import re
from pathlib import Path
from typing import Any

from ..data.draft import draft_knowledge, read_cells
from ..errors import FedloreError, KnowledgeError
from ..kernel.expressions import FormulaError
from ..knowledge.content import FILE, files_at, toml_in
from ..knowledge.formulas import Formula
from .asked import DocumentChange, NewTable, TableChange
from .checks import judge, tell_findings
from .desk import Workdesk
from .grids import grid_bytes, new_table, read_grids
from .paper import edit_toml
from .telling import read_schema


def change_table(desk: Workdesk, said: TableChange) -> dict[str, Any]:
    """Other cells of one table, kept; with the linter's word where it is wanted."""
    with desk.lock:
        desk.check(said.token)
        members = desk.members
        grids = read_grids(members)
        if said.grid >= len(grids):
            raise KnowledgeError(f"there is no table {said.grid}")
        grid = grids[said.grid]
        data = grid_bytes(members, grid.file, grid.sheet, said.header, said.rows)
        desk.change(said.token, {grid.file: data}, who=said.who, what=f"'{grid.file}'")
        kept = {"token": desk.token, "draft": sorted(desk.draft.changed)}
        members = desk.members
    if not said.check:
        return {**kept, "findings": None, "seconds": None}
    return {**kept, **check_draft(members)}


def check_draft(members: Any) -> dict[str, Any]:
    """What `fedlore lint` would say of these files, at their cells."""
    judged = judge(members)
    told = tell_findings(judged.checkup.findings, read_grids(members))
    return {"findings": told, "seconds": judged.seconds, "fault": judged.fault}


def change_document(desk: Workdesk, said: DocumentChange) -> None:
    """Other values in knowledge.toml, its remarks kept."""
    with desk.lock:
        desk.check(said.token)
        text = desk.members[FILE].decode("utf-8-sig")
        for edit in said.edits:
            text = edit_toml(text, edit.path, edit.value)
        desk.change(said.token, {FILE: text.encode()}, who=said.who, what=said.what)


def add_table(desk: Workdesk, said: NewTable) -> None:
    """A new table beside the knowledge file, named by it."""
    if not re.fullmatch(r"[\w-]+\.csv", said.file):
        raise KnowledgeError(f"a new table is called like rules.csv, got '{said.file}'")
    with desk.lock:
        desk.check(said.token)
        members = desk.members
        if said.file in members:
            raise KnowledgeError(f"'{said.file}' is there already: choose another name")
        side = toml_in(*files_at(members)).get(said.side, {})
        place = len(side.get("sources", []))
        text = members[FILE].decode("utf-8-sig")
        text = edit_toml(text, [said.side, "sources", place], {"table": said.file})
        files = {said.file: new_table([*said.columns, "then"]), FILE: text.encode()}
        desk.change(said.token, files, who=said.who, what=f"'{said.file}'")


def start_file(desk: Workdesk, token: str, label: str, who: str) -> None:
    """A first knowledge file from the site's own rows, as `fedlore draft` writes it."""
    data = desk.place.data
    if data is None:
        raise FedloreError("there are no rows in this folder to draft a file from: add train.csv")
    with desk.lock:
        if desk.place.knowledge.exists() or FILE in desk.draft.changed:
            raise FedloreError("there is a knowledge file already")
        found = draft_knowledge(read_cells(data), label, name=data.name)
        desk.change(token, {FILE: found.text.encode()}, who=who, what="a first file")


def list_columns_of(data: Path | None) -> list[str]:
    """The titles of the site's rows, to choose the label from."""
    return [] if data is None else [title for title in read_cells(data).titles if title.strip()]


def look_at_formula(members: Any, text: str) -> dict[str, Any]:
    """Whether a formula can be read, and where it goes wrong, from 0."""
    schema = read_schema(members)
    if schema is None:
        raise KnowledgeError("the features are not declared well yet: a formula needs their names")
    try:
        found = Formula.parse(text, schema)
    except FormulaError as error:
        return {"ok": False, "message": str(error).partition("\n")[0], "position": error.position}
    except KnowledgeError as error:
        return {"ok": False, "message": str(error).partition("\n")[0], "position": None}
    low, high = found.bounds()
    finite = low == low and abs(low) != float("inf") and abs(high) != float("inf")
    return {"ok": True, "features": list(found.features),
            "low": low if finite else None, "high": high if finite else None}  # fmt: skip
