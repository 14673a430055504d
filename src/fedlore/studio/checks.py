"""What the linter says of the draft, each finding at its cell."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import FedloreError
from ..kernel.findings import Finding, Place
from ..knowledge.content import FILE
from ..knowledge.findings.checkup import Checkup, check_file
from .grids import RuleGrid


@dataclass(frozen=True)
class Verdicts:
    """A checkup of the draft: what `fedlore lint` would say of the same files."""

    checkup: Checkup
    seconds: float

    @property
    def fault(self) -> str:
        """Why the knowledge cannot be used at all; empty where it can."""
        if self.checkup.knowledge is not None:
            return ""
        first = next((f for f in self.checkup.findings if f.severity == "error"), None)
        return "" if first is None else f"{first.place}: {first.message}"


def judge(members: Mapping[str, bytes]) -> Verdicts:
    """The checkup of some files; a file that cannot be read at all is a finding too."""
    began = time.perf_counter()
    try:
        found = check_file(members)
    except FedloreError as error:
        found = Checkup(
            [Finding("error", "file", Place(FILE), {"error": _without_name(str(error))})]
        )
    return Verdicts(found, time.perf_counter() - began)


def tell_findings(findings: Sequence[Finding], grids: Sequence[RuleGrid]) -> list[dict[str, Any]]:
    """Findings as plain values, with the cell of the grid each belongs to."""
    return [{**jsonable(finding.as_row()), "cell": _cell(finding, grids)} for finding in findings]


def _cell(finding: Finding, grids: Sequence[RuleGrid]) -> dict[str, Any] | None:
    """Grid, row (from 0; -1 is the header) and column, None for the whole row."""
    place = finding.place
    for number, grid in enumerate(grids):
        if (grid.file, grid.sheet) == (place.file, place.sheet):
            row = None if place.row is None else place.row - grid.first - 1
            titles = [_bare(title) for title in grid.header]
            wanted = _bare(place.column)
            column = titles.index(wanted) if wanted and wanted in titles else None
            if column is None and place.column.startswith("number "):
                column = int(place.column.removeprefix("number ")) - 1
            return {"grid": number, "row": row, "column": column}
    return None


def _bare(title: str) -> str:
    """A title without its unit, as places name columns."""
    return title.partition("[")[0].strip()


def _without_name(text: str) -> str:
    """A message without the name of the file, which its place says already."""
    return text.removeprefix(f"{FILE}: ")


def jsonable(value: Any) -> Any:
    """Plain values that JSON can hold: what is not finite becomes None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: jsonable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(part) for part in value]
    return value
