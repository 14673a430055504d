"""What a site holds of everybody's books: the furthest that a signed roll has told of each.

A coordinator that forgets how far a site's books went, together with that site's owner, is noticed
by the other sites. Of its own books a site believes what was told of them once, not only now.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...core.store import write_whole
from ..books import SiteBooks
from ..kits.receipts import RECEIPTS, name_key, read_roll


class HeldReceipts:
    """One small file at the site, by the names of keys."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._path, self._own = folder / RECEIPTS, name_key(key)
        self._kept: dict[str, str] = {}
        self._at = 0.0  # when the newest roll was signed
        self._last = ""  # what was told last
        self._said: set[str] = set()
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._path.read_text(encoding="utf-8"))
            self._kept, self._at = dict(found["books"]), float(found["at"])

    def take(self, told: str, authorities: bytes) -> list[str]:
        """Take over a roll; in words, once each, where it is behind what was held already."""
        if not told or told == self._last:
            return []
        at, roll = read_roll(told, authorities)
        self._last = told
        if at < self._at:  # of a task that was overtaken on its way
            return []
        self._at = at
        behind = {name: "are not in it any more" for name in self._kept.keys() - roll.keys()}
        for name, text in roll.items():
            now, before = SiteBooks.read(text), SiteBooks.read(self._kept.get(name, ""))
            back = "" if now is None or before is None else now.behind(before)
            if back:
                behind[name] = f"went back: {back}"
            elif now is not None:
                self._kept[name] = text
        with suppress(OSError):  # on a full disk the audit log cannot be written either
            text = json.dumps({"at": at, "books": self._kept}, indent=0)
            write_whole(self._path, text, sync=False, private=True)
        found = [f"the books of {self._title(name)} {why}" for name, why in behind.items()]
        new = [line for line in found if line not in self._said]
        self._said |= set(new)
        return new

    def missing(self, hashes: Mapping[str, Sequence[str]]) -> str:
        """Which of its own books no longer holds what was told of it; empty where all do."""
        held = SiteBooks.read(self._kept.get(self._own, ""))
        return "" if held is None else held.missing_in(hashes)

    def _title(self, name: str) -> str:
        return "this site" if name == self._own else f"site {name}"
