"""Keys, sealed boxes and masks for one round, from the primitives of `cryptography`.

X25519 (RFC 7748) agrees on keys, HKDF with SHA-256 (RFC 5869) derives them, ChaCha20-Poly1305
(RFC 8439) seals what one site tells another through the server, and AES-256 in counter mode is the
stream of masks: measured faster than ChaCha20 on machines with AES instructions.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ...errors import FedloreError
from .fixedpoint import Words
from .shamir import ByteSource

KEY, NONCE, COMMITMENT = 32, 12, 32  # bytes
SEAL = NONCE + 16  # bytes that a box takes beyond what it holds
_CHUNK = 1 << 18  # bytes of mask at a time: small enough for the cache


@dataclass(frozen=True)
class KeyPair:
    """A private key for one round, and its public half."""

    private: bytes

    @staticmethod
    def fresh(entropy: ByteSource) -> "KeyPair":
        return KeyPair(entropy(KEY))

    @cached_property
    def public(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    @cached_property
    def _key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.private)

    def agree(self, other: bytes, purpose: str) -> bytes:
        """The key that both ends of a purpose work out, and nobody else can."""
        try:
            common = self._key.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:
            raise FedloreError("a public key of this round is not usable") from None
        return HKDF(SHA256(), KEY, None, f"fedlore {purpose}".encode()).derive(common)


def seal(key: bytes, message: bytes, about: bytes, entropy: ByteSource) -> bytes:
    """A box that only the key opens, and only under the same words about it."""
    nonce = entropy(NONCE)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, message, about)


def unseal(key: bytes, box: bytes, about: bytes) -> bytes:
    """What a box holds; one that was changed, swapped or kept from another round is refused."""
    try:
        return ChaCha20Poly1305(key).decrypt(box[:NONCE], box[NONCE:], about)
    except (InvalidTag, ValueError):
        raise FedloreError("a sealed share was tampered with or belongs elsewhere") from None


def add_mask(words: Words, key: bytes, sign: int) -> None:
    """Add a key's stream of uniform words in place, or take it away, modulo 2^64."""
    # the counter may start at 0: every key is used for one stream
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    size = min(_CHUNK, max(8, words.nbytes))
    nothing, piece = memoryview(bytes(size)), bytearray(size)
    mask = np.frombuffer(piece, "<u8")
    change = np.add if sign > 0 else np.subtract
    for start in range(0, len(words), len(mask)):
        part = words[start : start + len(mask)]
        stream.update_into(nothing[: part.nbytes], piece)
        change(part, mask[: len(part)], out=part)


def commitment(seed: bytes) -> bytes:
    """What ties a site to a seed without telling it: a hash of 32 random bytes."""
    return hashlib.sha256(b"fedlore seed" + seed).digest()
