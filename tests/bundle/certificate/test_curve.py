"""The checker's own Ed25519: RFC 8032's vectors, a well-kept library beside it, and attacks."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlore.checker.curve import BASE, ZERO, L, P, add, decode, times, verify

ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
VECTORS = [
    tuple(bytes.fromhex(part.strip("-")) for part in line.split())
    for line in (Path(__file__).parent / "rfc8032.txt").read_text().splitlines()[1:]
]
QUICK = settings(deadline=None, max_examples=12)


def encode(point):
    x, y, z, _ = point
    x, y = x * pow(z, -1, P) % P, y * pow(z, -1, P) % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def small_points():
    """The eight points of small order: L times any point, where that has one of order eight."""
    for number in range(2, 50):
        point = decode(number.to_bytes(32, "little"))
        torsion = ZERO if point is None else times(L, point)
        orders = [encode(times(k, torsion)) for k in range(8)]
        if len(set(orders)) == 8:
            return orders
    raise AssertionError("no point of order eight")


@pytest.mark.parametrize("vector", VECTORS, ids=["1", "2", "3", "1024", "sha-abc"])
def test_the_vectors_of_the_rfc(vector):
    key, message, signature = vector
    assert verify(key, message, signature)
    assert not verify(key, message + b"\0", signature)


@QUICK
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=80), st.data())
def test_it_agrees_with_a_library(seed, message, data):
    private = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
    key, signature = private.public_key().public_bytes_raw(), private.sign(message)
    assert verify(key, message, signature)
    whole = bytearray(key + signature + message)
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    touched = bytes(whole[:32]), bytes(whole[96:]), bytes(whole[32:96])
    assert not verify(*touched)
    assert not _library(*touched)


def _library(key, message, signature):
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("vector", VECTORS[:2])
def test_the_same_signature_is_not_taken_in_a_second_writing(vector):
    key, message, signature = vector
    s = int.from_bytes(signature[32:], "little")
    for other in (s + L, s + 2 * L):  # the same number modulo the order of the group
        if other < 1 << 256:
            assert not verify(key, message, signature[:32] + other.to_bytes(32, "little"))


def test_a_key_or_r_of_small_order_signs_nothing():
    small = small_points()
    assert len(small) == 8
    forged = encode(times(7, BASE)) + (7).to_bytes(32, "little")  # R = 7B, S = 7: for A = 0
    assert _library(small[0], b"whatever", forged)  # a lenient reader takes it for any message
    for key in small:
        assert not verify(key, b"whatever", forged)
    key, message, signature = VECTORS[0]
    for r in small:
        assert not verify(key, message, r + signature[32:])
    # a key with a small part: of a group that is not the one of the base point
    honest, mixed = decode(VECTORS[0][0]), decode(small[1])
    assert honest is not None and mixed is not None
    assert not verify(encode(add(honest, mixed)), message, signature)


@pytest.mark.parametrize("number", [P, P + 1, P + 18, 2**255 - 1, 1 | 1 << 255, (P - 1) | 1 << 255])
def test_points_have_one_writing(number):
    data = number.to_bytes(32, "little")
    assert decode(data) is None
    key, message, signature = VECTORS[0]
    assert not verify(data, message, signature)
    assert not verify(key, message, data + signature[32:])


@given(st.integers(0, 2**255 - 1))
@settings(deadline=None, max_examples=30)
def test_what_is_read_is_on_the_curve_and_written_back(number):
    data = number.to_bytes(32, "little")
    point = decode(data)
    if point is not None:
        x, y, _, _ = point
        d = -121665 * pow(121666, -1, P)
        assert (-x * x + y * y - 1 - d * x * x * y * y) % P == 0
        assert encode(point) == data


@pytest.mark.parametrize("cut", [0, 31, 33])
def test_other_lengths_are_refused(cut):
    key, message, signature = VECTORS[0]
    assert not verify((key + b"\0")[:cut], message, signature)
    assert not verify(key, message, (signature + b"\0")[: 2 * cut])
    assert not verify(key, message, hashlib.sha512(signature).digest())
