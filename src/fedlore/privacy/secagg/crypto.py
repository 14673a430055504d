"""The cryptography of one round: shares of a secret, keys, sealed boxes, masks.

Shamir (1979), How to Share a Secret: any t of n shares give it back, fewer say nothing. The secret
is a polynomial's value at 0, the shares are its values at 1, 2, ... over the integers modulo a
prime above 2^256, so that a key fits in one share. The arithmetic is Python's and takes time that
depends on the numbers: it runs where the secrets are known anyway.

X25519 (RFC 7748) agrees on keys, HKDF with SHA-256 (RFC 5869) derives them, ChaCha20-Poly1305
(RFC 8439) seals what one site sends another through the server, and AES-256 in counter mode is the
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

from ...errors import FedloreError
from .fixedpoint import Words
from .pact import Binding, Pact

ByteSource = Callable[[int], bytes]  # so many random bytes; the operating system's, outside tests

PRIME = 2**256 + 297
SECRET, SHARE = 32, 33  # bytes


def split_secret(
    secret: bytes, points: Sequence[int], *, threshold: int, entropy: ByteSource
) -> dict[int, bytes]:
    """A share for every point, of which any `threshold` give the secret back."""
    if len(secret) != SECRET:
        raise FedloreError(f"a secret must have {SECRET} bytes, got {len(secret)}")
    if not 1 <= threshold <= len(points):
        raise FedloreError(f"threshold must lie in 1..{len(points)} shares, got {threshold}")
    _check_points(points)
    # 16 bytes more than the prime has: the remainder is uniform but for one part in 2^127
    drawn = [int.from_bytes(entropy(SHARE + 15)) % PRIME for _ in range(threshold - 1)]
    factors = [int.from_bytes(secret), *drawn]
    return {x: _value(factors, x).to_bytes(SHARE) for x in points}


def join_shares(shares: Mapping[int, bytes]) -> bytes:
    """The secret that these shares were made from; too few or wrong ones give another, or fail."""
    points = list(shares)
    _check_points(points)
    total = 0
    for x, share in shares.items():
        value = int.from_bytes(share)
        if len(share) != SHARE or value >= PRIME:
            raise FedloreError(f"share {x} is no number below the prime in {SHARE} bytes")
        above = below = 1  # Lagrange's weight of this point at 0
        for other in points:
            if other != x:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        total += value * above * pow(below, -1, PRIME)
    secret = total % PRIME
    if secret >= 2 ** (8 * SECRET):
        raise FedloreError("the shares do not belong together")
    return secret.to_bytes(SECRET)


def _value(factors: Sequence[int], x: int) -> int:
    """The polynomial at x, by Horner's rule."""
    value = 0
    for factor in reversed(factors):
        value = (value * x + factor) % PRIME
    return value


def _check_points(points: Sequence[int]) -> None:
    if len(set(points)) != len(points) or not all(0 < x < PRIME for x in points):
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


@dataclass(frozen=True)
class Secrets:
    """A site's own seed and the seeds that it has with each other site."""

    seed: bytes  # b: of the mask that is this site's own
    pairs: Mapping[str, bytes]  # h: of the masks that cancel between two sites


@dataclass(frozen=True)
class SecretShares:
    """Shares of one site's secrets, as one other site holds them."""

    seed: bytes
    pairs: Mapping[str, bytes]

    def pack(self, others: Sequence[str]) -> bytes:
        return self.seed + b"".join(self.pairs[site] for site in others)

    @staticmethod
    def read(packed: bytes, others: Sequence[str]) -> "SecretShares":
        parts = [packed[at : at + SHARE] for at in range(0, len(packed), SHARE)]
        if len(packed) != SHARE * (1 + len(others)):
            raise FedloreError("sealed shares have another length than they must have")
        return SecretShares(parts[0], dict(zip(others, parts[1:], strict=True)))


def pair_seeds(
    pact: Pact, bound: Binding, own: KeyPair, site: str, keys: Mapping[str, bytes]
) -> dict[str, bytes]:
    """The seed that a site has with each other, the same from either end."""
    found = {}
    for other in others_of(pact, site):
        one, two = sorted((site, other))
        found[other] = own.agree(keys[other], bound.purpose("mask", one, two))
    return found


def deal(pact: Pact, secrets: Secrets, site: str, entropy: ByteSource) -> dict[str, SecretShares]:
    """Shares of all secrets of a site for every site, its own among them."""
    points = {name: pact.point(name) for name in pact.cohort}

    def split(secret: bytes) -> dict[int, bytes]:
        threshold = pact.threshold
        return split_secret(secret, list(points.values()), threshold=threshold, entropy=entropy)

    seed = split(secrets.seed)
    pairs = {other: split(secret) for other, secret in secrets.pairs.items()}
    return {
        name: SecretShares(seed[at], {other: shares[at] for other, shares in pairs.items()})
        for name, at in points.items()
    }


def promises(pact: Pact, secrets: Secrets, site: str) -> bytes:
    """What ties a site to its secrets without telling them, in the order of the shares."""
    all_of = [secrets.seed, *(secrets.pairs[other] for other in others_of(pact, site))]
    return b"".join(commitment(secret) for secret in all_of)


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


def others_of(pact: Pact, site: str) -> list[str]:
    """The other sites of a cohort, in the order of shares and boxes."""
    return [name for name in pact.cohort if name != site]


def box_size(pact: Pact) -> int:
    """Bytes of a box."""
    return SHARE * len(pact.cohort) + SEAL


def sign(site: str, other: str) -> int:
    """Of two sites one adds their mask and the other takes it away."""
    return 1 if site < other else -1
