"""How far the books of each site go, kept where the site's owner cannot put them back.

A site tells with every answer how many lines its books have, and the hash of the last of each. What
all sites have told goes out again with every task, as a roll that the coordinator signs. So each
site compares its own books before anything leaves it, and holds a receipt of everybody else's.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ...core.store import write_whole
from ..books import SiteBooks
from .roll import sign_roll

RECEIPTS = "receipts.json"


def name_key(key: bytes) -> str:
    """By what a site stands in a roll: a site with a new kit has new books."""
    return hashlib.sha256(key).hexdigest()[:16]


class Receipts:
    """One small file at the coordinator."""

    def __init__(
        self, folder: Path, keys: Mapping[str, bytes], told: Callable[[str], None]
    ) -> None:
        self._folder, self._told = folder, told
        self._names = {name: name_key(key) for name, key in keys.items()}
        self._kept: dict[str, str] = {}
        self._roll = ""  # as it was signed last
        with suppress(OSError, ValueError):
            text = (folder / RECEIPTS).read_text(encoding="utf-8")
            self._kept = dict(json.loads(text))

    def of(self, site: str) -> str:
        """What this site last said of its books, empty where it never did."""
        return self._kept.get(self._names[site], "")

    def roll(self) -> str:
        """All of it, signed; empty before the first answer."""
        if not self._roll and self._kept:
            self._roll = sign_roll(self._folder, self._kept, time.time())
        return self._roll

    def keep(self, site: str, said: str) -> None:
        """Take note of what a site says now; books that have become shorter are named."""
        now, before = SiteBooks.read(said), SiteBooks.read(self.of(site))
        if now is None:
            return
        short = now.behind(before) if before is not None else ""
        if short:
            self._told(f"site '{site}': its {short}: it was cut or put back")
            return
        self._kept[self._names[site]], self._roll = said, ""
        with suppress(OSError):  # a full disk is the journal's to report
            write_whole(self._folder / RECEIPTS, json.dumps(self._kept, indent=0), sync=False)
