"""How far a site's books go, each a chain of hashes: of what it sent, spent and was asked."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes as digests
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

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
