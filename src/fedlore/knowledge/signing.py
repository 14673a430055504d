"""Signatures: the owner of a knowledge file says that its rules are his, by an Ed25519 key.

A signature stands beside the file (knowledge.sig) and covers what it means: the file, its
tables and its examples, not how they are written, and neither λ nor calibration.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..config import build
from ..core.store import write_private, write_whole
from ..errors import ConfigError, FedloreError, KnowledgeError
from ..kernel import signature
from ..kernel.document import FILE
from ..kernel.signature import AGREED, meaning_in
from .content import Where, files_at, toml_in
from .files import describe, pack_knowledge
from .models import Knowledge
from .tables.sheets import parse_sheet

_FAULT = "signature"  # the code of errors raised here


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
        return signature.statement(asdict(self))


@dataclass(frozen=True)
class Signature:
    """A signature as a bundle holds it: with what its meaning needs and the rules do not say."""

    by: SignedBy
    examples: tuple[tuple[str, ...], ...] = ()  # cells of rows, with the answer that is expected
    features: dict[str, dict[str, Any]] = field(default_factory=dict)  # see `kernel.signature`


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
        raise KnowledgeError(f"{path.name} is not a signature: {error}") from None
    if not holds(found):
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


def find_signature(knowledge: Path) -> Signature | None:
    """The signature of a knowledge file for a bundle; None of a draft, or of what is no file."""
    if not signature_path(knowledge).exists():
        return None
    try:
        by = check_signed(knowledge)
    except FedloreError:
        return None
    examples = tuple(map(tuple, examples_in(knowledge)))
    return Signature(by, examples, features_in(packed(knowledge)))


def holds(found: SignedBy) -> bool:
    """Whether a signature is the one of its key under what it says."""
    _packages()
    return signature.holds(asdict(found))


def meaning_of(where: Where) -> str:
    """A hash of what a knowledge file says, its examples included, without λ and calibration."""
    members = packed(where)
    return meaning_in(members, examples_in(where), features_in(members))


def packed(where: Where) -> dict[str, bytes]:
    """A knowledge file with its tables and models, written as fedlore writes them."""
    return pack_knowledge(describe(Knowledge.read(where)))


def features_in(members: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """What packed knowledge says of missing values and other levels, by feature."""
    features = tomllib.loads(members[FILE].decode())["features"]
    said = {one["name"]: {key: one[key] for key in AGREED if key in one} for one in features}
    return {name: keys for name, keys in said.items() if keys}


def examples_in(where: Where) -> list[list[str]]:
    """The rows with the answer that is expected, cell by cell; none where none are named."""
    files, name = files_at(where)
    named = toml_in(files, name).get("examples")
    if not isinstance(named, str):
        return []
    rows = [
        [str(cell).strip() for cell in row] for _, row in parse_sheet(files.read(named), named).rows
    ]
    return [row for row in rows if any(row)]


def _public(key: Any) -> str:
    return str(key.public_key().public_bytes_raw().hex())


def _packages() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise FedloreError("signatures need: pip install 'fedlore[studio]'") from None
    return ed25519, serialization
