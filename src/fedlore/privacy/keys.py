"""Key pairs as files, for sites and for what they tell each other."""

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


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
