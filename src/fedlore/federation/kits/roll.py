"""A roll of all sites' books, signed by the key of the coordinator's server.

The certificate of that key comes along. A site believes it if an authority that it knows has made
it, whatever the dates: a receipt does not expire.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from ...errors import FedloreError
from .certificates import issued_by, private_key

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


def read_roll(told: str, authorities: bytes) -> tuple[float, dict[str, str]]:
    """What `sign_roll` signed and when, if one of these authorities vouches for who signed it."""
    try:
        if len(told) > _LARGEST:
            raise ValueError("too long")
        found = json.loads(told)
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
