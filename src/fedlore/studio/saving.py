"""From the draft to the site's files: the expert's examples first, and a version of each save."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..data.rows import read_table
from ..errors import FedloreError
from .asked import Saving
from .checks import judge
from .desk import Workdesk
from .differing import compare_answers
from .model import SiteModel
from .moving import tell_moves
from .telling import read_schema
from .versions import keep_version, list_versions, version_files

DRAFT, SAVED = "draft", "saved"  # states beside the numbered versions


class BrokenExample(FedloreError):
    """A change after which examples come out otherwise."""

    kind = "example"


def save_draft(desk: Workdesk, said: Saving) -> None:
    """Write the files; examples that come out otherwise must be accepted in words."""
    with desk.lock:
        desk.check(said.token)
        checkup = judge(desk.members).checkup
        found = [f for f in checkup.findings if f.kind == "example"]
        if found and not said.anyway:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise BrokenExample(f"{found[0].place}: {found[0].message}{more}")
        if not list_versions(desk.place) and desk.place.knowledge.exists():
            before = judge(desk.saved).checkup.fingerprint
            keep_version(desk.place, desk.saved, who="", why="as it was found", fingerprint=before)
        desk.save(said.token, who=said.who)
        keep_version(
            desk.place, desk.saved, who=said.who, why=said.why, fingerprint=checkup.fingerprint
        )


def files_of(desk: Workdesk, name: str) -> Mapping[str, bytes]:
    """The files of a version by its number, of the draft, or as they are saved."""
    if name == DRAFT:
        return desk.members
    if name == SAVED:
        return desk.saved
    if not name.isdecimal():
        raise FedloreError(f"there is no version '{name}'")
    return version_files(desk.place, int(name))


def compare_versions(
    desk: Workdesk, before: str, after: str, model: SiteModel | None = None
) -> dict[str, Any]:
    """Where two states answer otherwise, on all inputs and on the site's own rows.

    With a model also which of its predictions on these rows move.
    """
    old, new = files_of(desk, before), files_of(desk, after)
    rows = own_rows(desk, new)
    told = compare_answers(old, new, rows)
    if rows is None or model is None or desk.place.bundle is None:
        return told
    try:
        checkups = judge(old).checkup, judge(new).checkup
        return {**told, "model": tell_moves(model.bundle(), *checkups, rows)}
    except FedloreError as error:
        return {**told, "model": {"fault": str(error)}}


def own_rows(desk: Workdesk, members: Mapping[str, bytes]) -> Tensor | None:
    """The site's rows without their labels; None where there are none, or they do not fit."""
    schema = read_schema(members)
    if desk.place.data is None or schema is None:
        return None
    try:
        return read_table(desk.place.data, schema).x
    except FedloreError:
        return None
