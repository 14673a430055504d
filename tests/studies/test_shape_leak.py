"""The attack on shapes: what it may know, and how a guess is counted."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from studies.shape_leak import ATTACKED, SHADOWS, SITES, attack, draw_secret, right  # noqa: E402


def test_two_of_four_sites_have_each_shape():
    for lot in range(20):
        assert [sum(sites) for sites in draw_secret(7, lot)] == [2, 2]
    assert len({str(draw_secret(7, lot)) for lot in range(20)}) > 5


def test_two_of_four_are_named_and_ties_are_worth_a_coin():
    y = np.array([True, True, False, False])
    assert right(np.array([0.9, 0.8, 0.1, 0.2]), y).tolist() == [1.0]
    assert right(np.array([0.1, 0.2, 0.9, 0.8]), y).tolist() == [0.0]
    assert right(np.array([0.9, 0.1, 0.8, 0.2]), y).tolist() == [0.5]


def lines(seeds, useful):
    """Federations whose uploads show the secret, or nothing."""
    draw = np.random.default_rng(seeds[0])
    found = []
    for seed in seeds:
        secret = draw_secret(seed, 0)
        shown = [
            [[float(useful * have) + 0.1 * draw.normal(), 0.0] for have in sites]
            for sites in secret
        ]
        found.append({"seed": seed, "secret": secret, "signs": {"single": shown}})
    return found


@pytest.mark.parametrize("useful", [True, False])
def test_what_shows_is_told_and_what_does_not_is_chance(useful):
    _, mean, half = attack(lines(SHADOWS, useful), lines(ATTACKED, useful), ("single", None))
    assert mean == 100.0 if useful else abs(mean - 50.0) < max(2 * half, 12.0)
    assert not set(SHADOWS) & set(ATTACKED) and SITES == 4
