"""How far the books of each site go, kept where the site's owner cannot put them back.

A site tells with every answer how many lines its audit log and its privacy ledger have, and the
hash of the last. It is told this again with every task, and compares: a log that was cut, and an
old ledger that was put back, are noticed before anything leaves.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ..core.store import write_whole
from .books import SiteBooks

RECEIPTS = "receipts.json"


class Receipts:
    """One small file; by key, since a site with a new kit has new books."""

    def __init__(
        self, folder: Path, keys: Mapping[str, bytes], told: Callable[[str], None]
    ) -> None:
        self._path, self._told = folder / RECEIPTS, told
        self._names = {name: hashlib.sha256(key).hexdigest()[:16] for name, key in keys.items()}
        self._kept: dict[str, str] = {}
        with suppress(OSError, ValueError):
            self._kept = dict(json.loads(self._path.read_text(encoding="utf-8")))

    def of(self, site: str) -> str:
        """What this site last said of its books, empty where it never did."""
        return self._kept.get(self._names[site], "")

    def keep(self, site: str, said: str) -> None:
        """Take note of what a site says now; books that have become shorter are named."""
        now, before = SiteBooks.read(said), SiteBooks.read(self.of(site))
        if now is None:
            return
        short = now.shorter_than(before) if before is not None else ""
        if short:
            self._told(f"site '{site}': its {short}: it was cut or put back")
            return
        self._kept[self._names[site]] = said
        with suppress(OSError):  # a full disk is the journal's to report
            write_whole(self._path, json.dumps(self._kept, indent=0), sync=False)
