"""Signatures are checked strictly: RFC 8032's vectors, and writings that a lenient reader takes."""

import hashlib
from pathlib import Path

import pytest

from fedlore.errors import KnowledgeError
from fedlore.kernel.signature import _EIGHT, _P, _SMALL, holds, meaning_in, statement, verify

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


HEAD = 'label = "g"\nclasses = ["I", "II"]\n'
FEATURE = '[[features]]\nname = "a"\nlow = 0\n'
TABLE = '[[{}.sources]]\ntable = "t.csv"\n'
CALIBRATED = '[[range.sources]]\nconformal = "c"\n'
OTHER = '[[range.sources]]\nformula = "a"\n'
SOFT = '[[range.sources]]\nformula = "a"\nconfidence = 0.8\n'


def meaning(text, table=b"a,then\n1,I\n", examples=(), unsaid=None):
    return meaning_in({"knowledge.toml": text.encode(), "t.csv": table}, examples, unsaid or {})


def side(keys, *sources):
    return HEAD + FEATURE + "[range]\n" + keys + "".join(one.format("range") for one in sources)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (HEAD + FEATURE, "trust = 0.3\n" + HEAD + FEATURE, True),  # λ lies beside it
        (HEAD + FEATURE, "floor = 0.1\nreliance = 0.2\ncard = 'x'\n" + HEAD + FEATURE, True),
        (HEAD + FEATURE, "least_trust = 0.3\n" + HEAD + FEATURE, False),
        (HEAD + FEATURE, HEAD + FEATURE + 'missing = "mean"\n', True),  # a federation decides it
        (HEAD + FEATURE, HEAD + FEATURE + "high = 3\n", False),
        (HEAD + FEATURE, HEAD + FEATURE + "[range]\n", True),
        (side("", TABLE), side("weights = [1.0]\n", TABLE), True),
        (side("", TABLE), side('empty = "first"\n', TABLE), False),
        # a calibrated range that can but narrow what one source allows is not signed
        (side("", TABLE), side("", TABLE, CALIBRATED), True),
        (side("", TABLE), side('combine = "all"\n', TABLE, CALIBRATED), True),
        (side("", TABLE), side('empty = "error"\n', TABLE, CALIBRATED), True),
        (side("", TABLE), side('empty = "first"\n', TABLE, CALIBRATED), True),
        (side("", TABLE), side('empty = "first"\n', CALIBRATED, TABLE), False),  # it is the first
        (side("", TABLE), side('empty = "all"\n', TABLE, CALIBRATED), False),
        (side("", TABLE), side('combine = "any"\n', TABLE, CALIBRATED), False),
        (HEAD + FEATURE, side("", CALIBRATED), True),  # nothing that somebody signs
        (HEAD + FEATURE, side('combine = "any"\n', CALIBRATED), True),
        # of two sources what combines them stays
        (side('combine = "all"\n', TABLE, OTHER), side("", TABLE, OTHER, CALIBRATED), False),
        (side("", TABLE, OTHER), side("", TABLE, OTHER, CALIBRATED), True),
        (side("", TABLE, OTHER), side("", OTHER, TABLE, CALIBRATED), False),
        (side('empty = "first"\n', TABLE, OTHER),
         side('empty = "first"\n', TABLE, OTHER, CALIBRATED), False),
        # soft rules are combined with nothing
        (side("", TABLE, SOFT), side("", TABLE, CALIBRATED, SOFT), True),
        (side("", TABLE, SOFT), side("", TABLE, CALIBRATED), False),
        (side("", SOFT), side("", SOFT, CALIBRATED), True),
    ],
)  # fmt: skip
def test_what_a_signature_covers(one, other, same):
    assert (meaning(one) == meaning(other)) is same


def test_of_a_number_what_happens_where_nothing_is_left_is_signed_with_one_source_too():
    head = '[target]\nname = "y"\n' + FEATURE + "[range]\n"
    one, other = (head + f'empty = "{word}"\n' + TABLE.format("range") + CALIBRATED
                  for word in ("error", "first"))  # fmt: skip
    assert meaning(one) != meaning(other)
    both = head + 'combine = "all"\nempty = "error"\n' + TABLE.format("range") + CALIBRATED
    assert meaning(one) == meaning(both)


def test_tables_are_signed_by_what_they_say():
    text = side("", TABLE)
    assert meaning(text) == meaning(text, b"a,then\n\r\n1,I\n") == meaning(text, b"\na,then\n1,I\n")
    assert meaning(text) != meaning(text, b"a,then\n2,I\n")
    quoted = meaning(text, b'a,then\n"1\n\n",I\n')  # a blank line within a cell is part of it
    assert quoted != meaning(text, b'a,then\n"1\n",I\n')
    again = meaning(text, b'a,then\n"1\n",I\n\n"2\n",I\n')  # and one behind the cell is not
    assert again == meaning(text, b'a,then\n"1\n",I\n"2\n",I\n')


def test_examples_and_what_a_federation_says_of_holes_are_covered():
    text = HEAD + FEATURE + 'missing = "mean"\n'
    assert meaning(text) != meaning(text, examples=[["1", "I"]])
    assert meaning(text, examples=[["1", "I"]]) == meaning(text, examples=[("1", "I")])
    said = meaning(text, unsaid={"a": {"missing": "median"}})
    assert said == meaning(HEAD + FEATURE, unsaid={"a": {"missing": "median"}})
    assert said not in (meaning(text), meaning(text, unsaid={"a": {"missing": "mean"}}))
    with pytest.raises(KnowledgeError, match="unknown keys of a feature: low"):
        meaning(text, unsaid={"a": {"low": 3}})


def test_a_signature_is_written_in_one_way():
    seed, words = bytes(range(32)), {"meaning": "m", "signer": "Zoë", "date": "2025-01-02"}
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    own = Ed25519PrivateKey.from_private_bytes(seed)
    text = '{"date": "2025-01-02", "kind": "fedlore knowledge 1", "meaning": "m", "signer": "Zoë"}'
    assert statement(words | {"key": "x"}) == text.encode()
    said = words | {
        "key": own.public_key().public_bytes_raw().hex(),
        "signature": own.sign(text.encode()).hex(),
    }
    assert holds(said)
    assert not holds(said | {"signer": "Zoe"}) and not holds(said | {"date": "2025-01-03"})
    assert not holds(said | {"key": said["key"].upper()})
    assert not holds(said | {"signature": said["signature"] + " "})
    with pytest.raises(ValueError):
        holds(said | {"key": "zz"})
