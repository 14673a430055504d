"""Changes to the draft: keys in place, cells, new tables, a first file from rows."""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, Table

from ..data.draft import draft_knowledge, read_cells
from ..errors import FedloreError, KnowledgeError
from ..kernel.expressions import FormulaError, parse
from ..knowledge.content import FILE, files_at, toml_in
from ..knowledge.formulas import Formula
from .checks import check_draft, read_schema
from .draft import Workspace
from .grids import grid_bytes, new_table, read_grids
from .requests import DocumentChange, LabelChoice, NewTable, TableChange

KeyStep = str | int
DEEPEST_KEY = 8  # keys below keys


def edit_toml(text: str, path: Sequence[KeyStep], value: Any) -> str:
    """A document with another value at a path of keys and places; None takes it away.

    A place behind the last one of a list appends to it.

    >>> print(edit_toml('trust = 0.3 # careful\\n', ["trust"], 0.5), end="")
    trust = 0.5 # careful
    >>> print(edit_toml('', ["range", "sources", 0, "table"], "r.csv"), end="")
    [[range.sources]]
    table = "r.csv"
    """
    if not path or len(path) > DEEPEST_KEY:
        raise KnowledgeError(f"a key has 1 to {DEEPEST_KEY} steps, got {len(path)}")
    try:
        document: Any = tomlkit.parse(text)
        _put(document, list(path), value)
        changed = tomlkit.dumps(document)
        tomllib.loads(changed)  # the reader that everything else uses must take it
        return changed
    except (TOMLKitError, KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise KnowledgeError(
            f"knowledge.toml cannot be changed at {_said(path)}: {error}"
        ) from None


def _put(at: Any, path: list[KeyStep], value: Any) -> None:
    step, rest = path[0], path[1:]
    behind = isinstance(step, int) and step == len(at)  # the last one of a list
    if not rest:
        if value is None:
            del at[step]
        elif behind:
            at.append(_inline(value) if isinstance(at, Array) else _new_entry(value))
        else:
            _replace(at, step, value)
        return
    if behind:
        at.append(tomlkit.table())
    elif step not in at and not isinstance(step, int):
        # a table that only holds lists of tables has no line of its own
        super_table = len(rest) > 1 and isinstance(rest[1], int)
        listed = isinstance(rest[0], int)
        at[step] = tomlkit.aot() if listed else tomlkit.table(is_super_table=super_table)
    _put(at[step], rest, value)
    if value is None and isinstance(at[step], AoT) and not at[step]:
        del at[step]  # a list without entries says nothing


def _inline(value: Any) -> Any:
    """A value inside a list that stands on one line."""
    if not isinstance(value, Mapping):
        return _item(value)
    made = tomlkit.inline_table()
    made.update({key: part for key, part in value.items() if part is not None})
    return made


def _new_entry(value: Any) -> Any:
    """An entry of a list, with a blank line before what follows it."""
    made = _item(value)
    if _is_block(made):
        made.add(tomlkit.nl())
    return made


def _is_block(item: Any) -> bool:
    """Whether an item has a line of its own in brackets."""
    return isinstance(item, Table | AoT)


def _replace(at: Any, step: KeyStep, value: Any) -> None:
    """Another value, with the remark that stood behind the old one."""
    old = at[step] if isinstance(step, int) else at.get(step)
    made, trivia = _item(value), getattr(old, "trivia", None)
    if old is not None and _is_block(made) != _is_block(old):
        del at[step]  # single keys stand before tables, or they would belong to another one
        if hasattr(made, "comment") and trivia is not None and trivia.comment:
            made.comment(trivia.comment.lstrip("# "))
    if trivia is not None and hasattr(made, "trivia") and not _is_block(made):
        made.trivia.comment_ws, made.trivia.comment = trivia.comment_ws, trivia.comment
    at[step] = made


def _item(value: Any) -> Any:
    if isinstance(value, Mapping):
        table = tomlkit.table()
        for key, part in value.items():
            if part is not None:
                table[key] = _item(part)
        return table
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        tables = tomlkit.aot()
        for part in value:
            tables.append(_item(part))
        return tables
    made = tomlkit.item(value)
    if isinstance(made, Array):
        made.multiline(False)
    return made


def _said(path: Sequence[KeyStep]) -> str:
    return ".".join(str(step) for step in path)


def change_table(workspace: Workspace, request: TableChange) -> dict[str, Any]:
    """Other cells of one table, kept before they are checked."""
    with workspace.lock:
        workspace.check(request.token)
        members = workspace.members
        grids = read_grids(members)
        if request.grid >= len(grids):
            raise KnowledgeError(f"there is no table {request.grid}")
        grid = grids[request.grid]
        data = grid_bytes(members, grid.file, grid.sheet, request.header, request.rows)
        workspace.change(request.token, {grid.file: data}, who=request.who, what=f"'{grid.file}'")
        kept = {
            "token": workspace.token,
            "draft": sorted(workspace.draft.changed),
            **workspace.steps,
        }
        members = workspace.members
    return {**kept, **check_draft(members)}


def change_document(workspace: Workspace, request: DocumentChange) -> None:
    """Other values in knowledge.toml, its remarks kept."""
    with workspace.lock:
        workspace.check(request.token)
        text = workspace.members[FILE].decode("utf-8-sig")
        for edit in request.edits:
            text = edit_toml(text, edit.path, edit.value)
        workspace.change(request.token, {FILE: text.encode()}, who=request.who, what=request.what)


def add_table(workspace: Workspace, request: NewTable) -> None:
    """A new table beside the knowledge file, named by it."""
    if not re.fullmatch(r"[\w-]+\.csv", request.file):
        raise KnowledgeError(f"a new table is called like rules.csv, got '{request.file}'")
    with workspace.lock:
        workspace.check(request.token)
        members = workspace.members
        if request.file in members:
            raise KnowledgeError(f"'{request.file}' is there already: choose another name")
        side = toml_in(*files_at(members)).get(request.side, {})
        place = len(side.get("sources", []))
        text = members[FILE].decode("utf-8-sig")
        text = edit_toml(text, [request.side, "sources", place], {"table": request.file})
        files = {request.file: new_table([*request.columns, "then"]), FILE: text.encode()}
        workspace.change(request.token, files, who=request.who, what=f"'{request.file}'")


def start_file(workspace: Workspace, request: LabelChoice) -> None:
    """A first knowledge file from the site's own rows, as `fedlore draft` writes it."""
    data = workspace.place.data
    if data is None:
        raise FedloreError("there are no rows in this folder to draft a file from: add train.csv")
    with workspace.lock:
        if workspace.place.knowledge.exists() or FILE in workspace.draft.changed:
            raise FedloreError("there is a knowledge file already")
        found = draft_knowledge(read_cells(data), request.label, name=data.name)
        workspace.change(
            request.token, {FILE: found.text.encode()}, who=request.who, what="a first file"
        )


def list_columns_of(data: Path | None) -> list[str]:
    """The titles of the site's rows, to choose the label from."""
    return [] if data is None else [title for title in read_cells(data).titles if title.strip()]


def look_at_formula(members: Any, text: str, *, region: bool = False) -> dict[str, Any]:
    """Whether a formula or a region can be read, and where it goes wrong, from 0."""
    schema = read_schema(members)
    if schema is None:
        raise KnowledgeError("the features are not declared well yet: a formula needs their names")
    try:
        if region:
            parse(text, schema.features, truth=True, words=True)
            return {"ok": True, "low": None, "high": None}
        found = Formula.parse(text, schema)
    except KnowledgeError as error:
        place = error.position if isinstance(error, FormulaError) else None
        return {"ok": False, "message": str(error).partition("\n")[0], "position": place}
    ends = found.bounds()
    low, high = ends if all(map(math.isfinite, ends)) else (None, None)
    return {"ok": True, "features": list(found.features), "low": low, "high": high}
