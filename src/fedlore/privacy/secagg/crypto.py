"""The cryptography of one round: shares of a secret, keys, sealed boxes, masks.

Shamir (1979), How to Share a Secret: any t of n shares give it back, fewer say nothing. A number is
a polynomial's value at 0, its shares are the values at 1, 2, ... modulo a prime. A secret is eight
numbers below 2^16, so that all secrets of a site are shared by one product of matrices.

X25519 (RFC 7748) agrees on keys, HKDF with SHA-256 (RFC 5869) derives them, ChaCha20-Poly1305
(RFC 8439) seals what one site sends another through the server, and AES-128 in counter mode is the
stream of masks: measured faster than ChaCha20 on machines with AES instructions.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from ...errors import FedloreError
from .fixedpoint import Words
from .pact import Binding

ByteSource = Callable[[int], bytes]  # so many random bytes; the operating system's, outside tests

PRIME = 65_521  # the largest below 2^16: a share is as long as its secret
SECRET = 16  # bytes: eight numbers below the prime, 127.997 bits


def make_secret(drawn: bytes) -> bytes:
    """A secret of uniform bytes, `DRAWN` of them: eight a number, so even to one part in 2^48."""
    return (np.frombuffer(drawn, "<u8") % PRIME).astype("<u2").tobytes()


DRAWN = 4 * SECRET  # bytes that a secret is made of


def split_secrets(
    secrets: bytes, points: Sequence[int], *, threshold: int, entropy: ByteSource
) -> dict[int, bytes]:
    """A share of these secrets for every point, of which any `threshold` give them back."""
    found = _numbers(secrets, "secrets")
    if not 1 <= threshold <= len(points):
        raise FedloreError(f"threshold must lie in 1..{len(points)} shares, got {threshold}")
    _check_points(points)
    drawn = make_secret(entropy(8 * (threshold - 1) * len(found)))
    factors = np.concatenate([found, np.frombuffer(drawn, "<u2")]).reshape(threshold, -1)
    powers = np.ones((len(points), threshold))
    for power in range(1, threshold):
        powers[:, power] = powers[:, power - 1] * np.array(points, float) % PRIME
    # exact: sums of fewer than 2^16 products below 2^32 have no more than the 53 bits of a float
    values = (powers @ factors.astype(float)).astype(np.int64) % PRIME
    return {x: row.tobytes() for x, row in zip(points, values.astype("<u2"), strict=True)}


def join_shares(shares: Mapping[int, bytes]) -> bytes:
    """The secrets that these shares were made from; too few or wrong ones give others."""
    points = list(shares)
    _check_points(points)
    values = [_numbers(share, f"share {x}") for x, share in shares.items()]
    if len({len(row) for row in values}) != 1:
        raise FedloreError("the shares do not belong together: they differ in length")
    at = np.array(points, np.int64)
    above, below = np.ones_like(at), np.ones_like(at)  # Lagrange's weight of each point at 0
    for other in points:
        apart = at != other
        above = np.where(apart, above * other, above) % PRIME
        below = np.where(apart, below * (other - at), below) % PRIME
    weights = above * [pow(int(b), -1, PRIME) for b in below] % PRIME
    return bytes((weights @ np.stack(values) % PRIME).astype("<u2").tobytes())


def _numbers(data: bytes, what: str) -> NDArray[np.int64]:
    """Numbers below the prime, eight for each secret."""
    if len(data) % SECRET or not data:
        raise FedloreError(f"{what} must have {SECRET} bytes each, got {len(data)}")
    found = np.frombuffer(data, "<u2").astype(np.int64)
    if (found >= PRIME).any():
        raise FedloreError(f"{what} must be numbers below {PRIME}")
    return found


def _check_points(points: Sequence[int]) -> None:
    if not points or len(set(points)) != len(points) or not all(0 < x < PRIME for x in points):
        raise FedloreError(f"shares need different points above 0, got {list(points)[:5]}")


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
    def _common(self) -> dict[bytes, bytes]:
        return {}

    @cached_property
    def _key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.private)

    def agree(self, other: bytes, purpose: str, size: int = KEY) -> bytes:
        """The key that both ends of a purpose work out, and nobody else can."""
        try:
            if other not in self._common:  # of all purposes one, as it takes the most time
                key = X25519PublicKey.from_public_bytes(other)
                self._common[other] = self._key.exchange(key)
        except ValueError:
            raise FedloreError("a public key of this round is not usable") from None
        return HKDF(SHA256(), size, None, f"fedlore {purpose}".encode()).derive(self._common[other])


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


def pair_seeds(
    bound: Binding, own: KeyPair, site: str, keys: Mapping[str, bytes]
) -> dict[str, bytes]:
    """The seed that a site has with each of these others, the same from either end."""
    return {
        other: make_secret(own.agree(key, bound.purpose("mask", *sorted((site, other))), DRAWN))
        for other, key in keys.items()
    }


def promises(secrets: bytes) -> bytes:
    """What ties a site to its secrets without telling them, in the order of the shares."""
    return b"".join(commitment(one) for one in cut(secrets, SECRET))


def cut(data: bytes, size: int) -> list[bytes]:
    """Pieces of one length."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def seal_for(
    bound: Binding,
    own: KeyPair,
    sender: str,
    recipient: tuple[str, bytes],
    message: bytes,
    entropy: ByteSource,
) -> bytes:
    """A box from one site to another."""  # fmt: skip
    name, key = recipient
    purpose = bound.purpose("box", sender, name)
    return seal(own.agree(key, purpose), message, purpose.encode(), entropy)


def open_from(
    bound: Binding, own: KeyPair, recipient: str, sender: tuple[str, bytes], box: bytes
) -> bytes:
    """What a box from another site holds; of another round or place it does not open."""
    name, key = sender
    purpose = bound.purpose("box", name, recipient)
    return unseal(own.agree(key, purpose), box, purpose.encode())


def list_pad(
    bound: Binding, own: KeyPair, other: bytes, owner: str, holder: str, about: str
) -> bytes:
    """What hides a holder's part of the key to an answer: both know it, for one list alone."""
    return own.agree(other, bound.purpose(f"list {about}", owner, holder), SECRET)


def answer_key(part: bytes) -> bytes:
    """The key that an answer about a list is sealed with."""
    return hashlib.sha256(b"fedlore answer" + part).digest()


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def sign(site: str, other: str) -> int:
    """Of two sites one adds their mask and the other takes it away."""
    return 1 if site < other else -1
