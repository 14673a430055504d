"""How far a site's books go: its audit log and its privacy ledger, each a chain of hashes."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

_HASH = 64  # characters


@dataclass(frozen=True)
class SiteBooks:
    """The number of lines of both, and the hashes of the last ones."""

    audit: int = 0
    audit_last: str = ""
    ledger: int = 0
    ledger_last: str = ""

    @staticmethod
    def of(audit: Sequence[str], ledger: Sequence[str]) -> "SiteBooks":
        """From the hashes of all lines."""
        return SiteBooks(len(audit), "".join(audit[-1:]), len(ledger), "".join(ledger[-1:]))

    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def read(text: str) -> "SiteBooks | None":
        """What `text` wrote, None for anything else: it comes from the network."""
        try:
            found = SiteBooks(**json.loads(text))
        except (TypeError, ValueError):
            return None
        counts = all(type(n) is int and n >= 0 for n in (found.audit, found.ledger))
        lasts = (found.audit_last, found.ledger_last)
        hashes = all(type(h) is str and len(h) <= _HASH for h in lasts)
        return found if counts and hashes else None

    def shorter_than(self, other: "SiteBooks") -> str:
        """Which book has fewer lines than another time, in words; empty where none has."""
        for name, now, before in (
            ("audit log", self.audit, other.audit),
            ("ledger", self.ledger, other.ledger),
        ):
            if now < before:
                return f"{name} has {now} lines and had {before}"
        return ""

    def missing_in(self, audit: Sequence[str], ledger: Sequence[str]) -> str:
        """Which book no longer holds what is said here of it, in words; empty where both do."""
        for name, hashes, count, last in (
            ("audit log", audit, self.audit, self.audit_last),
            ("privacy ledger", ledger, self.ledger, self.ledger_last),
        ):
            if count and (len(hashes) < count or hashes[count - 1] != last):
                return f"{name} has {len(hashes)} lines and does not hold line {count} as it was"
        return ""
