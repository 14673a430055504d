"""What a check of knowledge found, where, and what to do about it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Place:
    """Where something stands, as an expert finds it in a spreadsheet: rows count from 1."""

    file: str = ""
    sheet: str = ""
    row: int | None = None
    column: str = ""

    def __str__(self) -> str:
        parts = (
            self.file,
            f"sheet '{self.sheet}'" if self.sheet else "",
            "" if self.row is None else f"row {self.row}",
            f"column '{self.column}'" if self.column else "",
        )
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Finding:
    """One thing worth saying about a piece of knowledge; plain values, so it turns into JSON."""

    severity: Severity
    code: str  # a short slug, stable: scripts may look for it
    message: str
    place: Place = Place()
    region: Mapping[str, str] = field(default_factory=dict)  # feature -> the cell that describes it
    counterexample: Mapping[str, float | str] = field(default_factory=dict)  # one whole row
    suggestion: str = ""

    def __str__(self) -> str:
        where = str(self.place)
        text = f"{self.severity}: {where}: {self.message}" if where else ""
        text = text or f"{self.severity}: {self.message}"
        return f"{text}; {self.suggestion}" if self.suggestion else text

    def as_row(self) -> dict[str, Any]:
        """The finding as nested plain values."""
        return asdict(self)


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Those that make knowledge unfit for use."""
    return [finding for finding in findings if finding.severity == "error"]
