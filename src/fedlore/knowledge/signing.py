"""Signatures: the owner of a knowledge file says that its rules are his, by an Ed25519 key.

A signature stands beside the file (knowledge.sig) and covers what the file, its tables and its
examples mean, not how they are written. λ, the weights of an average and calibrated ranges are not
covered: they are chosen on data, after the expert has spoken.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..config import build
from ..core.store import write_private, write_whole
from ..errors import ConfigError, FedloreError, KnowledgeError
from .content import Where, files_at, toml_in
from .either import read_either
from .files import describe
from .models import Knowledge
from .numbers.files import describe_numbers
from .sources.writing import plain
from .tables.sheets import parse_sheet

KIND = "fedlore knowledge 1"
_BESIDE = ("card", "trust", "reliance", "floor")  # of the file: not part of what is signed


@dataclass(frozen=True)
class SignedBy:
    """Who signed which meaning, when, with which key."""

    signer: str
    date: str
    meaning: str  # SHA-256, see `meaning_of`
    key: str  # public, in hexadecimal digits
    signature: str

    @property
    def statement(self) -> bytes:
        """The bytes that are signed."""
        said = {"kind": KIND, "meaning": self.meaning, "signer": self.signer, "date": self.date}
        return json.dumps(said, sort_keys=True, ensure_ascii=False).encode()


def meaning_of(where: Where) -> str:
    """A hash of what a knowledge file says, its examples included, without λ and calibration."""
    held = read_either(where)
    known = held.knowledge
    if isinstance(known, Knowledge):
        said = describe(known)
    else:
        assert held.bins is not None
        said = describe_numbers(known, held.schema, held.bins)
    kept = {key: _covered(value) for key, value in plain(said).items() if key not in _BESIDE}
    text = json.dumps([kept, _examples(where)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _covered(value: Any) -> Any:
    """One side of a file without the weights of an average and without calibrated ranges."""
    if not isinstance(value, Mapping) or "sources" not in value:
        return value
    sources = [source for source in value["sources"] if "conformal" not in source]
    return {**{k: v for k, v in value.items() if k != "weights"}, "sources": sources}


def _examples(where: Where) -> list[list[str]]:
    files, name = files_at(where)
    named = toml_in(files, name).get("examples")
    if not isinstance(named, str):
        return []
    rows = [
        [str(cell).strip() for cell in row] for _, row in parse_sheet(files.read(named), named).rows
    ]
    return [row for row in rows if any(row)]


def signature_path(knowledge: Path) -> Path:
    """Where the signature of a knowledge file stands."""
    return knowledge.with_suffix(".sig")


def make_key(path: Path, passphrase: str) -> str:
    """A new key in a file that needs the passphrase; the public half in hexadecimal digits."""
    keys, coding = _packages()
    if len(passphrase) < 8:
        raise ConfigError(f"a passphrase has at least 8 characters, this one has {len(passphrase)}")
    if path.exists():
        raise FedloreError(f"'{path}' is there already: a key is made once")
    key = keys.Ed25519PrivateKey.generate()
    held = key.private_bytes(
        coding.Encoding.PEM,
        coding.PrivateFormat.PKCS8,
        coding.BestAvailableEncryption(passphrase.encode()),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, held)
    return _public(key)


def sign_file(knowledge: Path, *, key: Path, passphrase: str, signer: str) -> SignedBy:
    """Sign what a knowledge file means, and write the signature beside it."""
    _, coding = _packages()
    if not signer.strip():
        raise ConfigError("a signature needs the name of the person who signs")
    try:
        held: Any = coding.load_pem_private_key(key.read_bytes(), passphrase.encode())
    except OSError as error:
        raise FedloreError(f"cannot read the key '{key}': {error.strerror}") from None
    except (ValueError, TypeError):
        raise FedloreError("the passphrase does not open the key") from None
    date = datetime.now(UTC).isoformat(timespec="seconds")
    made = SignedBy(signer.strip(), date, meaning_of(knowledge), _public(held), "")
    signed = SignedBy(**{**asdict(made), "signature": held.sign(made.statement).hex()})
    write_whole(signature_path(knowledge), json.dumps(asdict(signed), ensure_ascii=False, indent=1))
    return signed


def check_signed(knowledge: Path, keys: Sequence[str] = ()) -> SignedBy:
    """The signature of a knowledge file; one that is a draft is refused, and so are other keys."""
    path = signature_path(knowledge)
    try:
        found = build(SignedBy, json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise KnowledgeError(
            f"{knowledge.name} is a draft: nobody has signed it (fedlore studio, Versions)"
        ) from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise KnowledgeError(f"{path.name} is no signature: {error}") from None
    if not _holds(found):
        raise KnowledgeError(f"{path.name}: the signature does not hold")
    if keys and found.key not in keys:
        raise KnowledgeError(
            f"{path.name}: {found.signer} signed with a key that is not named here"
        )
    if meaning_of(knowledge) != found.meaning:
        raise KnowledgeError(
            f"{knowledge.name} is a draft: it no longer says what {found.signer} signed on "
            f"{found.date[:10]}"
        )
    return found


def _holds(found: SignedBy) -> bool:
    keys, _ = _packages()
    from cryptography.exceptions import InvalidSignature

    try:
        public = keys.Ed25519PublicKey.from_public_bytes(bytes.fromhex(found.key))
        public.verify(bytes.fromhex(found.signature), found.statement)
    except (InvalidSignature, ValueError):
        return False
    return True


def _public(key: Any) -> str:
    return str(key.public_key().public_bytes_raw().hex())


def _packages() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise FedloreError("signatures need: pip install 'fedlore[studio]'") from None
    return ed25519, serialization
