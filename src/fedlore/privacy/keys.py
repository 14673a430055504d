"""Key pairs as files, for sites and for what they tell each other."""

from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..errors import FedloreError


def openssh_pair(key: EllipticCurvePrivateKey | Ed25519PrivateKey) -> tuple[bytes, bytes]:
    """A key as (private, public) in OpenSSH's format."""
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return private, public + b"\n"


def read_key(
    path: Path, kind: Any, *, wanted: str = "an elliptic-curve key", pem: bool = False
) -> Any:
    """A key of this class, private or public, from a file in OpenSSH's format, or in PEM."""
    half = "public" if "Public" in kind.__name__ else "private"
    try:
        data = path.read_bytes()
        if half == "public":
            found: Any = serialization.load_ssh_public_key(data)
        elif pem:
            found = serialization.load_pem_private_key(data, None)
        else:
            found = serialization.load_ssh_private_key(data, None)
    # TypeError: the key is encrypted, and we ask for no password
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FedloreError(f"'{path}' is not a {half} key: {error}") from None
    if not isinstance(found, kind):
        raise FedloreError(f"'{path}' must be {wanted}")
    return found
