"""Fedlore's own filters under the laws that it ships, and what is exact about each of them."""

import math
from dataclasses import dataclass

import pytest

from fedlore.privacy.ckks.cipher import new_key
from fedlore.privacy.ckks.filter import Ckks, Encryption
from fedlore.privacy.dp.budget import Dp
from fedlore.privacy.dp.filter import Noise
from fedlore.privacy.secagg.filter import Masks
from fedlore.testing.clients import EXAMPLES
from fedlore.testing.filter import FILTER_LAWS, PASSAGE_LAWS, mean_members, why_not

from .lists import each_algorithm, each_law

KEY = new_key()


@dataclass(frozen=True)
class OneKey(Encryption):
    """CKKS with one key for all tests: making one takes longer than using it."""

    def make(self, around, place):
        return Ckks(around.cohort, around.weights, KEY)


def silent(where):
    """Differential privacy without noise, and with room for every upload."""
    return Noise(Dp(epsilon=math.inf, delta=1e-5, clip=1e6, sums=1e9, noise=0.0, where=where))


#: By name: the defence, and the error it may make.
FILTERS = {
    "secure aggregation": (Masks(), 1e-6),
    "ckks": (OneKey(), 1e-5),
    "dp": (silent("distributed"), 1e-6),
    "dp at the server": (silent("central"), 1e-6),
}

#: Stages at which a site can get lost; in the last of each nothing but a share or a vote is.
STAGES = ("keys", "train", "unmask")
LOSSES = [("secure aggregation", stage) for stage in STAGES]
LOSSES += [("ckks", "train"), ("ckks", "decrypt"), ("dp", "train"), ("dp at the server", "train")]

each_filter = pytest.mark.parametrize("filter", FILTERS)


@pytest.mark.sampled(3)
@each_law(FILTER_LAWS)
@each_algorithm
@each_filter
def test_filters(filter, algorithm, law):
    defence, error = FILTERS[filter]
    reason = why_not(defence, algorithm, sites=3)
    if reason is not None:
        pytest.skip(reason)
    law(defence, algorithm, error)


@each_law(PASSAGE_LAWS)
@each_filter
def test_filters_on_the_way(filter, law):
    law(*FILTERS[filter])


@pytest.mark.parametrize(("filter", "stage"), LOSSES)
def test_who_gets_lost_late_is_in_the_mean_all_the_same(filter, stage):
    defence, error = FILTERS[filter]
    lose = {stage: ["site-1", "site-3"]}
    members = mean_members(defence, EXAMPLES[0], error, sites=7, lose=lose)
    assert len(members) == (7 if stage in ("unmask", "decrypt") else 5)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["equal", "size"])
@each_algorithm
@each_filter
def test_fifty_sites_with_losses_everywhere(filter, algorithm, weights):
    defence, error = FILTERS[filter]
    reason = why_not(defence, algorithm, weights=weights, sites=50)
    if reason is not None:
        pytest.skip(reason)
    lose = {stage: [f"site-{3 * i + k}" for k in range(3)] for i, stage in enumerate(STAGES)}
    members = mean_members(defence, algorithm, error, weights, sites=50, lose=lose, double=False)
    assert len(members) == (44 if filter == "secure aggregation" else 47)
