"""What a check of knowledge found, where, and what to do about it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..words import say_finding

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


def _link(cell: str) -> str:
    """What stands between a feature and its cell, where a language says it."""
    if cell[0] in "[(":
        return "in"
    return "" if cell[0] in "<>=" or cell.startswith(("in ", "not ")) else "equals"


@dataclass(frozen=True)
class Finding:
    """One thing worth saying about a piece of knowledge: a value that `fedlore.words` words."""

    severity: Severity
    kind: str  # a short slug, stable: scripts may look for it
    place: Place = Place()
    args: Mapping[str, Any] = field(default_factory=dict)  # what its sentence speaks of
    case: str = ""  # which sentence, of a kind that has several
    region: Mapping[str, str] = field(default_factory=dict)  # feature -> the cell that describes it
    counterexample: Mapping[str, float | str] = field(default_factory=dict)  # one whole row
    days: tuple[tuple[str, str], ...] = ()  # since and until, where it is so on some days only

    def words(self, language: str | None = None) -> tuple[str, str]:
        """What was found, and what to do about it."""
        region = [{"name": n, "value": c, "link": _link(c)} for n, c in self.region.items()]
        args = {"region": region, "row": self.counterexample, **self.args}
        message, suggestion = say_finding(self.kind, self.case, args, language)
        if self.days:
            args = {"days": self.days, "message": message}
            message = say_finding("days", "", args, language)[0]
        return message, suggestion

    @property
    def message(self) -> str:
        return self.words()[0]

    @property
    def suggestion(self) -> str:
        return self.words()[1]

    def __str__(self) -> str:
        where = str(self.place)
        text = f"{self.severity}: {where}: {self.message}" if where else ""
        text = text or f"{self.severity}: {self.message}"
        return f"{text}; {self.suggestion}" if self.suggestion else text

    def as_row(self) -> dict[str, Any]:
        """The finding as nested plain values, with its words."""
        values = asdict(self) | {"message": self.message, "suggestion": self.suggestion}
        return values if self.days else {k: v for k, v in values.items() if k != "days"}


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Those that make knowledge unfit for use."""
    return [finding for finding in findings if finding.severity == "error"]
