"""Any t shares give the secret, and fewer say nothing."""

import os
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore import FedloreError
from fedlore.privacy.secagg.crypto import PRIME, SECRET, SHARE, join_shares, split_secret

secrets = st.binary(min_size=SECRET, max_size=SECRET)


def test_the_prime_is_one_and_holds_every_secret():
    assert PRIME > 2 ** (8 * SECRET) and PRIME < 2 ** (8 * SHARE)
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):  # Miller and Rabin
        seen = [pow(base, odd * 2**i, PRIME) for i in range(twos)]
        assert seen[0] == 1 or PRIME - 1 in seen


@given(secrets, st.data())
def test_any_threshold_of_shares_gives_the_secret(secret, data):
    n = data.draw(st.integers(1, 50))
    t = data.draw(st.integers(1, n))
    shares = split_secret(secret, range(1, n + 1), threshold=t, entropy=os.urandom)
    chosen = data.draw(st.permutations(range(1, n + 1)))[: data.draw(st.integers(t, n))]
    assert join_shares({x: shares[x] for x in chosen}) == secret


def test_every_subset_by_hand():
    secret = bytes(range(32))
    shares = split_secret(secret, [1, 2, 3, 4, 5], threshold=3, entropy=os.urandom)
    for chosen in combinations(shares, 3):
        assert join_shares({x: shares[x] for x in chosen}) == secret
    for chosen in combinations(shares, 2):
        assert wrong({x: shares[x] for x in chosen}, secret)


def wrong(shares, secret) -> bool:
    try:
        return join_shares(shares) != secret
    except FedloreError:  # the chance of a number between 2^256 and the prime is nil
        return True


def test_below_the_threshold_every_secret_is_as_likely():
    """With t-1 shares in hand some t-th share leads to any secret one likes."""
    shares = split_secret(bytes(32), [1, 2, 3], threshold=3, entropy=os.urandom)
    known = {x: int.from_bytes(shares[x]) for x in (1, 2)}
    for wanted in (0, 1, 2**256 - 1):
        # f(0) = 3f(1) - 3f(2) + f(3) for a polynomial of degree 2
        third = (wanted - 3 * known[1] + 3 * known[2]) % PRIME
        found = join_shares({1: shares[1], 2: shares[2], 3: third.to_bytes(SHARE)})
        assert int.from_bytes(found) == wanted


@given(secrets, st.integers(0, 8 * SHARE - 8))
def test_a_flipped_bit_gives_another_secret(secret, bit):
    shares = split_secret(secret, [1, 2, 3], threshold=2, entropy=os.urandom)
    number = int.from_bytes(shares[1]) ^ (1 << bit)
    assert wrong({1: number.to_bytes(SHARE), 2: shares[2]}, secret)


def test_coefficients_are_drawn_from_the_whole_field():
    """By a line's share at 1: its slope is uniform below 2^256, so below 2^224 once in 2^32."""
    secret = bytes(SECRET)
    slopes = [
        int.from_bytes(split_secret(secret, [1, 2], threshold=2, entropy=os.urandom)[1])
        for _ in range(20)
    ]
    assert min(slopes) > 2**224 and len(set(slopes)) == 20
    low = [slope % 2**32 for slope in slopes]
    assert len(set(low)) == 20


def test_shares_are_drawn_anew():
    one, two = (split_secret(bytes(32), [1, 2], threshold=2, entropy=os.urandom) for _ in range(2))
    assert one != two


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: split_secret(b"short", [1], threshold=1, entropy=os.urandom),
            "must have 32 bytes",
        ),
        (lambda: split_secret(bytes(32), [1, 2], threshold=3, entropy=os.urandom), "lie in 1..2"),
        (lambda: split_secret(bytes(32), [1, 2], threshold=0, entropy=os.urandom), "lie in 1..2"),
        (
            lambda: split_secret(bytes(32), [0, 1], threshold=1, entropy=os.urandom),
            "points above 0",
        ),
        (
            lambda: split_secret(bytes(32), [1, 1], threshold=1, entropy=os.urandom),
            "different points",
        ),
        (lambda: join_shares({1: bytes(32)}), "33 bytes"),
        (lambda: join_shares({1: b"\xff" * 33}), "no number below the prime"),
    ],
)
def test_what_makes_no_sense_is_refused(call, says):
    with pytest.raises(FedloreError, match=says):
        call()
