"""What was looked at, line by line, and what the lines come to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..kernel.search import Verdict


@dataclass(frozen=True)
class Line:
    """One thing that was looked at, whether it holds, and what was found.

    `rows` says on how many rows it was tested where it was not proved; 0: not even that.
    """

    what: str
    holds: bool
    found: str = ""
    rows: int | None = None

    def __str__(self) -> str:
        word = "FAIL" if not self.holds else "ok" if self.rows is None else "tested"
        found = self.found if self.rows is None or not self.holds else f"on {self.rows} rows"
        more = self.found if self.found and self.rows is not None and self.holds else ""
        return f"{word:6} {self.what}" + "".join(f": {part}" for part in (found, more) if part)


class Outcome(NamedTuple):
    """All lines in one sentence, and the exit code: 0 proved, 3 in part only tested, 1 not so."""

    words: str
    code: int


def outcome_of(lines: Sequence[Line]) -> Outcome:
    """What the lines come to."""
    if not lines or not all(line.holds for line in lines):
        return Outcome("THE CERTIFICATE DOES NOT HOLD", 1)
    tested = [line.rows for line in lines if line.rows is not None]
    if tested:
        words = f"the certificate holds as far as it was tested, on {min(tested)} rows"
        return Outcome(words, 3)
    return Outcome("the certificate holds", 0)


def compare_claim(what: str, found: Verdict, told: str | None) -> Line:
    """A claim holds where it was proved here too; what is unknown is reported, and does not."""
    words: str = found.status
    if found.boxes:
        words += f" over {found.boxes} boxes"
    if found.example is not None:
        words += f" by {list(found.example)}"
    if told != found.status:
        words += f"; the certificate says {told}"
    return Line(what, found.status == "proved" and told == "proved", words)
