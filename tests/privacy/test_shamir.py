"""Any t shares give the secrets, and fewer say nothing."""

import os
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore import FedloreError
from fedlore.privacy.secagg.crypto import (
    DRAWN,
    PRIME,
    SECRET,
    join_shares,
    make_secret,
    split_secrets,
)

secrets = st.binary(min_size=DRAWN, max_size=3 * DRAWN).filter(lambda b: len(b) % DRAWN == 0)
secrets = secrets.map(make_secret)


def numbers(data):
    return np.frombuffer(data, "<u2").astype(int)


def written(values):
    return np.array(values, "<u2").tobytes()


def test_the_prime_is_one_and_fits_two_bytes():
    assert PRIME < 2**16 and all(PRIME % d for d in range(2, 257))


@given(secrets, st.data())
def test_any_threshold_of_shares_gives_the_secrets(secret, data):
    n = data.draw(st.integers(1, 50))
    t = data.draw(st.integers(1, n))
    shares = split_secrets(secret, range(1, n + 1), threshold=t, entropy=os.urandom)
    assert {len(share) for share in shares.values()} == {len(secret)}
    chosen = data.draw(st.permutations(range(1, n + 1)))[: data.draw(st.integers(t, n))]
    assert join_shares({x: shares[x] for x in chosen}) == secret


def test_large_points_and_thresholds_stay_exact():
    """Against integers of any size: floats must not round anywhere."""
    points = [1, 999, 10_000, 65_520, *range(30_000, 30_296)]
    secret = written([PRIME - 1] * 8)
    drawn = []
    shares = split_secrets(
        secret, points, threshold=300, entropy=lambda n: drawn.append(b"\xff" * n) or drawn[-1]
    )
    slope = (2**64 - 1) % PRIME
    for x in points:
        wanted = (PRIME - 1 + sum(slope * pow(x, j, PRIME) for j in range(1, 300))) % PRIME
        assert numbers(shares[x]).tolist() == [wanted] * 8
    assert join_shares(shares) == secret


def test_every_subset_by_hand():
    secret = bytes(range(16))
    shares = split_secrets(secret, [1, 2, 3, 4, 5], threshold=3, entropy=os.urandom)
    for chosen in combinations(shares, 3):
        assert join_shares({x: shares[x] for x in chosen}) == secret
    for chosen in combinations(shares, 2):
        assert join_shares({x: shares[x] for x in chosen}) != secret


def test_below_the_threshold_every_secret_is_as_likely():
    """With t-1 shares in hand some t-th share leads to any secret one likes."""
    shares = split_secrets(bytes(SECRET), [1, 2, 3], threshold=3, entropy=os.urandom)
    for wanted in (0, 1, PRIME - 1):
        # f(0) = 3f(1) - 3f(2) + f(3) for a polynomial of degree 2
        third = (wanted - 3 * numbers(shares[1]) + 3 * numbers(shares[2])) % PRIME
        found = join_shares({1: shares[1], 2: shares[2], 3: written(third)})
        assert numbers(found).tolist() == [wanted] * 8


def test_coefficients_are_drawn_from_the_whole_field():
    """By a line's share at 1, which is its slope: of 80,000 each of 16 classes has its share."""
    secret = bytes(SECRET * 10_000)
    slopes = numbers(split_secrets(secret, [1, 2], threshold=2, entropy=os.urandom)[1])
    counts = np.bincount(slopes * 16 // PRIME, minlength=16)
    assert abs(counts - 5000).max() < 6 * 5000**0.5 and slopes.max() < PRIME


def test_shares_are_drawn_anew():
    drawn = [split_secrets(bytes(16), [1, 2], threshold=2, entropy=os.urandom) for _ in range(2)]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: split(b"short", [1], 1), "16 bytes each, got 5"),
        (lambda: split(b"\xff" * 16, [1], 1), "numbers below 65521"),
        (lambda: split(bytes(16), [1, 2], 3), "lie in 1..2"),
        (lambda: split(bytes(16), [1, 2], 0), "lie in 1..2"),
        (lambda: split(bytes(16), [0, 1], 1), "points above 0"),
        (lambda: split(bytes(16), [1, PRIME], 1), "points above 0"),
        (lambda: split(bytes(16), [1, 1], 1), "different points"),
        (lambda: join_shares({}), "different points"),
        (lambda: join_shares({1: bytes(15)}), "share 1 must have 16 bytes"),
        (lambda: join_shares({1: bytes(16), 2: bytes(32)}), "differ in length"),
        (lambda: join_shares({1: b"\xff" * 16}), "share 1 must be numbers below"),
    ],
)
def test_what_makes_no_sense_is_refused(call, says):
    with pytest.raises(FedloreError, match=says):
        call()


def split(secret, points, threshold):
    return split_secrets(secret, points, threshold=threshold, entropy=os.urandom)
