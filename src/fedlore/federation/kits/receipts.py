"""How far the books of each site go, kept where the site's owner cannot put them back.

A site tells with every answer how many lines its books have, and the hash of the last of each. What
all sites have told goes out again with every task, as a roll that the coordinator signs. So each
site compares its own books before anything leaves it, and holds a receipt of everybody else's.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from ...core.store import write_whole
from ...errors import FedloreError
from ..books import SiteBooks
from .certificates import issued_by, private_key

RECEIPTS = "receipts.json"


def name_key(key: bytes) -> str:
    """By what a site stands in a roll: a site with a new kit has new books."""
    return hashlib.sha256(key).hexdigest()[:16]


class Receipts:
    """One small file at the coordinator."""

    def __init__(self, folder: Path, keys: Mapping[str, bytes], say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
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
            self._say(f"site '{site}': its {short}: it was cut or put back")
            return
        self._kept[self._names[site]], self._roll = said, ""
        with suppress(OSError):  # a full disk is the journal's to report
            write_whole(self._folder / RECEIPTS, json.dumps(self._kept, indent=0), sync=False)


_ABOUT = b"fedlore roll\0"
_LARGEST = 1_000_000  # characters: some thousands of sites


def sign_roll(folder: Path, books: Mapping[str, str], at: float) -> str:
    """What each site last said of its books, under the signature of a coordinator's folder."""
    text = json.dumps({"at": at, "books": dict(books)}, sort_keys=True)
    signed = private_key(folder / "server.key").sign(
        _ABOUT + text.encode(), ec.ECDSA(hashes.SHA256())
    )
    shown = (folder / "server.pem").read_text(encoding="ascii")
    told = {"roll": text, "by": shown, "signature": base64.b64encode(signed).decode()}
    return json.dumps(told)


def read_roll(text: str, authorities: bytes) -> tuple[float, dict[str, str]]:
    """What `sign_roll` signed and when, if one of these authorities vouches for who signed it."""
    try:
        if len(text) > _LARGEST:
            raise ValueError("too long")
        found = json.loads(text)
        text, signature = str(found["roll"]), base64.b64decode(found["signature"], validate=True)
        shown = x509.load_pem_x509_certificate(str(found["by"]).encode())
        known = x509.load_pem_x509_certificates(authorities)
        key = shown.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError("another kind of key")
        vouched = any(issued_by(shown, one) for one in known)
        key.verify(signature, _ABOUT + text.encode(), ec.ECDSA(hashes.SHA256()))
        roll = json.loads(text)
        at, books = float(roll["at"]), {str(name): str(of) for name, of in roll["books"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise FedloreError("the receipt that came with a task cannot be read") from None
    except InvalidSignature:
        raise FedloreError("the signature of the receipt that came with a task is wrong") from None
    if not vouched:
        raise FedloreError("the receipt is signed by a key that no authority of ours vouches for")
    return at, books
