"""Save a draft, examples first; every save is a version with date, author and reason."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from torch import Tensor

from ..core.store import write_whole
from ..data.rows import read_table
from ..errors import FedloreError
from ..knowledge.content import FILE, items_in
from .checks import judge, read_schema
from .compare import compare_answers
from .draft import Workplace, Workspace, is_own, now
from .grids import RuleGrid, read_grids
from .requests import SaveRequest
from .site_model import SiteBundle, list_moves

_NUMBER = re.compile(r"\d{4,}")
_FILE = re.compile(r"[^\n]{1,190}\.\w{1,8}")


@dataclass(frozen=True)
class Version:
    """One state that was saved."""

    number: int
    when: str
    who: str
    why: str
    fingerprint: str  # of what the knowledge said; empty where it could not be used
    files: tuple[str, ...]


def keep_version(
    place: Workplace, members: Mapping[str, bytes], *, who: str, why: str, fingerprint: str
) -> Version:
    """Store the files that the knowledge names; its own record last, so that half is none."""
    number = max((version.number for version in list_versions(place)), default=0) + 1
    names = tuple(name for name in named_files(members) if name == FILE or is_own(place, name))
    made = Version(number, now(), who, why, fingerprint, names)
    folder = place.state / "versions" / f"{number:04d}"
    try:
        for name in names:
            path = folder / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, members[name])
        write_whole(folder / "version.json", json.dumps(asdict(made), ensure_ascii=False, indent=1))
    except OSError as error:
        raise FedloreError(
            f"the files are saved, but no version of them could be kept: {error.strerror}"
        ) from None
    return made


def list_versions(place: Workplace) -> list[Version]:
    """All versions there are, the first one first."""
    folder = place.state / "versions"
    if not folder.is_dir():
        return []
    return sorted(_read(folder), key=lambda version: version.number)


def _read(folder: Path) -> Iterator[Version]:
    for part in folder.iterdir():
        try:
            said = json.loads((part / "version.json").read_text(encoding="utf-8"))
            if _NUMBER.fullmatch(part.name) and int(part.name) == said["number"]:
                yield Version(**{**said, "files": tuple(said["files"])})
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a version half written, or a folder of somebody else


def version_files(place: Workplace, number: int) -> dict[str, bytes]:
    """The files of a version by name, knowledge.toml under that name."""
    version = next((v for v in list_versions(place) if v.number == number), None)
    if version is None:
        raise FedloreError(f"there is no version {number}")
    folder = place.state / "versions" / f"{number:04d}" / "files"
    try:
        return {name: (folder / name).read_bytes() for name in version.files}
    except OSError as error:
        raise FedloreError(f"version {number} cannot be read: {error.strerror}") from None


def named_files(members: Mapping[str, bytes]) -> list[str]:
    """knowledge.toml and every file that it names and that is there."""
    names = [FILE]
    try:
        values = tomllib.loads(members[FILE].decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return names
    values = {key: part for key, part in values.items() if key not in ("card", "features")}
    for _, text in items_in(values):
        if isinstance(text, str) and text not in names and _FILE.fullmatch(text):
            names += [text] if text in members else []
    return names


def blame_cells(place: Workplace) -> list[dict[str, Any]]:
    """Of each table in the last version, which version wrote each cell as it stands there."""
    known: dict[tuple[str, str], tuple[RuleGrid, list[list[int]]]] = {}
    for version in list_versions(place):
        try:
            grids = read_grids(version_files(place, version.number))
        except FedloreError:
            continue  # a file that cannot be read blames nobody
        known = {
            key: (grid, _write_on(known.get(key), grid, version.number))
            for grid in grids
            for key in [(grid.file, grid.sheet)]
        }
    return [
        {"file": g.file, "sheet": g.sheet, "header": g.header, "rows": g.rows, "versions": by}
        for g, by in known.values()
    ]


def _write_on(
    before: tuple[RuleGrid, list[list[int]]] | None, grid: RuleGrid, number: int
) -> list[list[int]]:
    """Who wrote each cell: rows that stand in both are found, their columns go by title."""
    found = [[number] * len(row) for row in grid.rows]
    if before is None:
        return found
    old, by = before
    columns = [(j, old.header.index(t)) for j, t in enumerate(grid.header) if t in old.header]
    matched = SequenceMatcher(None, old.rows, grid.rows, autojunk=False).get_opcodes()
    for _, start, end, first, last in matched:
        for i, k in zip(range(start, end), range(first, last), strict=False):
            for new, past in columns:
                if grid.rows[k][new] == old.rows[i][past]:
                    found[k][new] = by[i][past]
    return found


DRAFT, SAVED = "draft", "saved"  # states beside the numbered versions


class BrokenExample(FedloreError):
    """A change after which examples come out otherwise."""

    kind = "example"


def save_draft(workspace: Workspace, said: SaveRequest) -> None:
    """Write the files; examples that come out otherwise must be accepted in words."""
    with workspace.lock:
        workspace.check(said.token)
        checkup = judge(workspace.members)
        found = [f for f in checkup.findings if f.kind == "example"]
        if found and not said.anyway:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise BrokenExample(f"{found[0].place}: {found[0].message}{more}")
        if not list_versions(workspace.place) and workspace.place.knowledge.exists():
            before = judge(workspace.saved).fingerprint
            keep_version(
                workspace.place, workspace.saved, who="", why="as it was found", fingerprint=before
            )
        workspace.save(said.token, who=said.who)
        keep_version(
            workspace.place,
            workspace.saved,
            who=said.who,
            why=said.why,
            fingerprint=checkup.fingerprint,
        )


def files_of(workspace: Workspace, name: str) -> Mapping[str, bytes]:
    """The files of a version by its number, of the draft, or as they are saved."""
    if name == DRAFT:
        return workspace.members
    if name == SAVED:
        return workspace.saved
    if not name.isdecimal():
        raise FedloreError(f"there is no version '{name}'")
    return version_files(workspace.place, int(name))


def compare_versions(
    workspace: Workspace, before: str, after: str, model: SiteBundle | None = None
) -> dict[str, Any]:
    """Where two states answer otherwise, on all inputs and on the site's own rows.

    With a model also which of its predictions on these rows move.
    """
    old, new = files_of(workspace, before), files_of(workspace, after)
    rows = own_rows(workspace, new)
    compared = compare_answers(old, new, rows)
    if rows is None or model is None or workspace.place.bundle is None:
        return compared
    try:
        return {**compared, "model": list_moves(model.bundle(), judge(old), judge(new), rows)}
    except FedloreError as error:
        return {**compared, "model": {"fault": str(error)}}


def own_rows(workspace: Workspace, members: Mapping[str, bytes]) -> Tensor | None:
    """The site's rows without their labels; None where there are none, or they do not fit."""
    schema = read_schema(members)
    if workspace.place.data is None or schema is None:
        return None
    try:
        return read_table(workspace.place.data, schema).x
    except FedloreError:
        return None
