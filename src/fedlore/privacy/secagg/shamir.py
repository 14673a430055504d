"""Sharing a secret so that any t of n shares give it back, and fewer say nothing about it.

Shamir (1979), How to Share a Secret. The secret is a polynomial's value at 0, the shares are its
values at 1, 2, ... over the integers modulo a prime above 2^256, so that a key fits in one share.
The arithmetic is Python's and takes time that depends on the numbers: it runs where the secrets are
known anyway.
"""

from collections.abc import Callable, Mapping, Sequence

from ...errors import FedloreError

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
