"""Signatures are checked strictly: RFC 8032's vectors, and writings that a lenient reader takes."""

import hashlib
from pathlib import Path

import pytest

from fedlore.kernel.signature import _EIGHT, _P, _SMALL, verify

VECTORS = [
    tuple(bytes.fromhex(part.strip("-")) for part in line.split())
    for line in (Path(__file__).parent / "rfc8032.txt").read_text().splitlines()[1:]
]
L = 2**252 + 27742317777372353535851937790883648493  # of the group


@pytest.mark.parametrize("vector", VECTORS, ids=["1", "2", "3", "1024", "sha-abc"])
def test_the_vectors_of_the_rfc(vector):
    key, message, signature = vector
    assert verify(key, message, signature)
    assert not verify(key, message + b"\0", signature)


@pytest.mark.parametrize("vector", VECTORS[:2])
def test_the_same_signature_is_not_taken_in_a_second_writing(vector):
    key, message, signature = vector
    s = int.from_bytes(signature[32:], "little")
    for other in (s + L, s + 2 * L):  # the same number modulo the order of the group
        if other < 1 << 256:
            assert not verify(key, message, signature[:32] + other.to_bytes(32, "little"))


def test_small_points_have_small_order():
    """y of the points that eight times are zero: 1, -1, 0, and y⁴ + 2y²/d... of order eight."""
    d = -121665 * pow(121666, -1, _P) % _P
    x2 = (_EIGHT**2 - 1) * pow(d * _EIGHT**2 + 1, -1, _P) % _P
    assert (x2 + _EIGHT**2) % _P == 0  # twice the point has y = 0, that has order four
    assert len(_SMALL) == 5


@pytest.mark.parametrize("place", sorted(_SMALL))
@pytest.mark.parametrize("sign", [0, 1 << 255])
def test_a_key_or_r_of_small_order_signs_nothing(place, sign):
    key, message, signature = VECTORS[0]
    small = (place | sign).to_bytes(32, "little")
    assert not verify(small, message, signature)
    assert not verify(key, message, small + signature[32:])
    assert not verify(small, b"whatever", small + bytes(32))


@pytest.mark.parametrize("number", [_P, _P + 1, _P + 18, 2**255 - 1, 1 | 1 << 255])
def test_points_have_one_writing(number):
    data = number.to_bytes(32, "little")
    key, message, signature = VECTORS[0]
    assert not verify(data, message, signature)
    assert not verify(key, message, data + signature[32:])


@pytest.mark.parametrize("cut", [0, 31, 33])
def test_other_lengths_are_refused(cut):
    key, message, signature = VECTORS[0]
    assert not verify((key + b"\0")[:cut], message, signature)
    assert not verify(key, message, (signature + b"\0")[: 2 * cut])
    assert not verify(key, message, hashlib.sha512(signature).digest())
