"""Ed25519 signatures checked: RFC 8032, section 5.1.7, strictly and in plain Python.

Refused is also what a lenient reader takes: an S of L or more (the same signature twice), a point
that is not written in its one way, and a key or R of small order, for which signatures of any
message can be made.
"""

import hashlib

P = 2**255 - 19  # of the field
L = 2**252 + 27742317777372353535851937790883648493  # of the group
D = -121665 * pow(121666, -1, P) % P
_ROOT = pow(2, (P - 1) // 4, P)  # of -1

Point = tuple[int, int, int, int]  # X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z

ZERO: Point = (0, 1, 1, 0)


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether a signature of 64 bytes is the one of this key, of 32 bytes, under a message."""
    if len(key) != 32 or len(signature) != 64:
        return False
    public, r = decode(key), decode(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if public is None or r is None or s >= L or _is_small(public) or _is_small(r):
        return False
    digest = hashlib.sha512(signature[:32] + key + message).digest()
    k = int.from_bytes(digest, "little") % L
    return _same(times(s, BASE), add(r, times(k, public)))


def decode(data: bytes) -> Point | None:
    """The point that 32 bytes stand for; None where it is none, or not written in its one way."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= P:
        return None
    above, below = (y * y - 1) % P, (D * y * y + 1) % P
    x = above * pow(below, 3, P) * pow(above * pow(below, 7, P), (P - 5) // 8, P) % P
    if (below * x * x - above) % P:
        x = x * _ROOT % P
        if (below * x * x - above) % P:
            return None
    if x == 0 and sign:
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def add(a: Point, b: Point) -> Point:
    """The sum of two points; the formulas hold for a point and itself as well."""
    e = (a[1] - a[0]) * (b[1] - b[0]) % P
    f = (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    i, j, k, m = f - e, h - g, h + g, f + e
    return i * j % P, k * m % P, j * k % P, i * m % P


def times(count: int, point: Point) -> Point:
    """A point added to itself; in time that tells the count, which is no secret here."""
    total = ZERO
    while count:
        if count & 1:
            total = add(total, point)
        point, count = add(point, point), count >> 1
    return total


def _same(a: Point, b: Point) -> bool:
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def _is_small(point: Point) -> bool:
    return _same(times(8, point), ZERO)


_FOUND = decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))  # y = 4/5, x even
assert _FOUND is not None
BASE: Point = _FOUND
