"""How far the books of each site go, kept where the site's owner cannot put them back.

A book is a chain of hashes: of what the site sent, spent and was asked. A site tells with every
answer how many lines its books have, and the hash of the last of each. What all sites have told
goes out again with every task, as a roll that the coordinator signs. So each site compares its own
books before anything leaves it, and holds a receipt of everybody else's.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import hashes as digests
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from ...core.store import write_whole
from ...errors import FedloreError
from .certificates import issued_by, private_key

_HASH = 64  # characters
_TITLES = {"audit": "audit log", "ledger": "privacy ledger", "asked": "list of questions"}


@dataclass(frozen=True)
class SiteBooks:
    """The number of lines of each, and the hashes of the last ones."""

    audit: int = 0
    audit_last: str = ""
    ledger: int = 0
    ledger_last: str = ""
    asked: int = 0
    asked_last: str = ""
    signature: str = ""  # of the site, over all of the above

    @staticmethod
    def of(hashes: Mapping[str, Sequence[str]]) -> "SiteBooks":
        """From the hashes of all lines of each book."""
        audit, ledger, asked = ((len(h), "".join(h[-1:])) for h in (hashes[n] for n in _TITLES))
        return SiteBooks(*audit, *ledger, *asked)

    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    def signed(self, key: ec.EllipticCurvePrivateKey) -> "SiteBooks":
        """The same under the site's signature: nobody else can claim it of the site's books."""
        found = key.sign(self._statement(), ec.ECDSA(digests.SHA256()))
        return replace(self, signature=base64.b64encode(found).decode())

    def signed_by(self, key: bytes) -> bool:
        """Whether the owner of a public key, in PEM, has said so."""
        try:
            public, found = load_pem_public_key(key), base64.b64decode(self.signature)
            if not isinstance(public, ec.EllipticCurvePublicKey):
                return False
            public.verify(found, self._statement(), ec.ECDSA(digests.SHA256()))
        except (ValueError, InvalidSignature):
            return False
        return True

    def _statement(self) -> bytes:
        return b"fedlore books\0" + replace(self, signature="").text().encode()

    @staticmethod
    def read(text: str) -> "SiteBooks | None":
        """What `text` wrote, None for anything else: it comes from the network."""
        try:
            found = SiteBooks(**json.loads(text))
        except (TypeError, ValueError, RecursionError):
            return None
        legal = all(
            type(count) is int and count >= 0 and type(last) is str and len(last) <= _HASH
            for _, count, last in found._books()
        )
        signed = type(found.signature) is str and len(found.signature) <= 4 * _HASH
        return found if legal and signed else None

    def behind(self, other: "SiteBooks") -> str:
        """Which book is not as far as another time, or went another way; empty where none is."""
        for (name, now, last), (_, before, then) in zip(self._books(), other._books(), strict=True):
            if now < before:
                return f"{_TITLES[name]} has {now} lines and had {before}"
            if now == before and last != then:
                return f"{_TITLES[name]} has another line {now} than before"
        return ""

    def missing_in(self, hashes: Mapping[str, Sequence[str]]) -> str:
        """Which book no longer holds what is said here of it, in words; empty where all do."""
        for name, count, last in self._books():
            found = hashes[name]
            if count and (len(found) < count or found[count - 1] != last):
                has = f"{_TITLES[name]} has {len(found)} lines"
                return f"{has} and does not hold line {count} as it was"
        return ""

    def _books(self) -> Iterator[tuple[str, int, str]]:
        yield "audit", self.audit, self.audit_last
        yield "ledger", self.ledger, self.ledger_last
        yield "asked", self.asked, self.asked_last


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
