"""What `fedlore lint --data` would warn of at every site, before the first round."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..data.rows import find_rows, read_scorable
from ..kernel.findings import Finding, Place
from ..knowledge.findings.checkup import Checkup, check_data
from ..knowledge.models import Knowledge
from .sites import Gathering

# first what spoils every answer, then what spoils a column; all else comes behind
_ORDER = ("label-beyond", "label-outside", "unscored", "one-class", "label-column", "out-of-scope")
_RANK = {kind: place for place, kind in enumerate(_ORDER)}


def check_sites(
    gathering: Gathering, folders: Sequence[Path], checked: Mapping[str, Checkup]
) -> dict[str, list[Finding]]:
    """Errors and warnings of each site that has some, the gravest first.

    `checked` is what the files of knowledge say without data, by the site.
    """
    found = {}
    for folder, site in zip(folders, gathering.sites, strict=True):
        bare = Checkup([], site.knowledge)
        some = list(checked[site.id].findings) if site.id in checked else []
        for part, rows in (("train", site.data), ("test", site.test)):
            file = find_rows(folder, part)
            if rows is not None and file is not None:
                gone = _unscored(site.knowledge, file) if part == "test" else []
                some += gone or check_data(bare, rows, file.name).findings
        grave = [one for one in some if one.severity != "info"]
        if grave:
            found[site.id] = sorted(grave, key=lambda one: _RANK.get(one.kind, len(_RANK)))
    return found


def _unscored(known: Knowledge, file: Path) -> list[Finding]:
    """How many test rows cannot be scored."""
    schema = known.require_schema()
    _, wrong = read_scorable(file, schema, schema.label, number=known.line is not None)
    if not wrong:
        return []
    args = {"rows": sorted(wrong), "why": wrong[min(wrong)]}
    return [Finding("warning", "unscored", Place(file.name, row=min(wrong)), args)]


def checkup_lines(found: Mapping[str, Sequence[Finding]], folders: Sequence[Path]) -> list[str]:
    """At most two lines a site, and how to see the rest."""
    lines = []
    for folder in folders:
        some = found.get(folder.name, ())
        shown = [f"{folder.name}: {one.place}: {one.message}" for one in some[:2]]
        if len(some) > 2:
            rows = find_rows(folder, "train")
            shown[1] += f"; {len(some) - 2} more: fedlore lint {folder / 'knowledge.toml'}"
            shown[1] += f" --data {rows}"
        lines += shown
    return lines
