"""Split conformal cuts: what n rows can promise, and that the promise is kept."""

import pytest
import torch

from fedlore.core.conformal import find_cut, held_band, least_rows
from fedlore.core.rng import stream
from fedlore.errors import ConfigError, FedloreError


def draws(*shape):
    return torch.rand(*shape, generator=stream("conformal", *shape), dtype=torch.float64)


@pytest.mark.parametrize(("rows", "level"), [(9, 0.9), (19, 0.9), (40, 0.8), (99, 0.99)])
def test_the_share_that_is_held_is_the_rank_over_n_plus_one(rows, level):
    """Scores are uniform without loss: of a new one the chance to be held is the cut itself."""
    cuts = torch.tensor([find_cut(one, level) for one in draws(3000, rows)])
    rank = -(-round((rows + 1) * level, 9) // 1)
    assert float(cuts.mean()) == pytest.approx(rank / (rows + 1), abs=0.005)
    assert rank / (rows + 1) >= level
    low, high = held_band(rows, level)
    assert float(((cuts >= low) & (cuts <= high)).double().mean()) == pytest.approx(0.99, abs=0.008)


@pytest.mark.parametrize(("rows", "level"), [(9, 0.9), (99, 0.99)])
def test_half_a_percent_lies_beyond_each_end_of_the_band(rows, level):
    """Here the cut is the largest of n uniform scores, so the share held is p with chance p^n."""
    low, high = held_band(rows, level)
    assert (low**rows, high**rows) == (pytest.approx(0.005), pytest.approx(0.995))
    low, high = held_band(rows, level, sure=0.5)
    assert (low**rows, high**rows) == (pytest.approx(0.25), pytest.approx(0.75))


@pytest.mark.parametrize(("rows", "level"), [(8, 0.9), (40, 0.99), (0, 0.5)])
def test_too_few_rows_are_told_what_they_allow(rows, level):
    with pytest.raises(FedloreError, match=f"{rows} rows cannot promise a level of {level:g}: "):
        find_cut(torch.zeros(rows), level)
    assert least_rows(level) > rows
    find_cut(torch.zeros(least_rows(level)), level)


def test_forty_rows_and_what_they_say():
    with pytest.raises(FedloreError, match="99 are needed, and 40 allow at most 0.975"):
        find_cut(torch.zeros(40), 0.99)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, float("nan")])
def test_levels_that_cannot_be(level):
    with pytest.raises(ConfigError, match="must lie in"):
        least_rows(level)
