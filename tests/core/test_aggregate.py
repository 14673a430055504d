"""The mean and its robust alternatives."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import ConfigError, FedAvg, Plan, federate
from fedlore.core.aggregate import (
    AGGREGATES,
    Mean,
    Median,
    Trimmed,
    aggregate_of,
    refuse_individuals,
)
from fedlore.core.nets import mlp
from fedlore.engine import Local, Recipe

from ..engine.federation import CLASSES, FEATURES, federation
from ..engine.test_loop import Spy


def uploads(*values: float, weights=None):
    weights = weights or [1.0] * len(values)
    payloads = [{"m": {"a": torch.tensor([v, -v])}} for v in values]
    return list(zip(payloads, weights, strict=True))


def value(aggregate, *values: float, **about) -> float:
    found = aggregate(uploads(*values, **about))["m"]["a"]
    torch.testing.assert_close(found[0], -found[1])
    return float(found[0])


def test_by_hand():
    assert value(Mean(), 1.0, 2.0, 6.0) == 3.0
    assert value(Mean(), 1.0, 5.0, weights=[1.0, 3.0]) == 4.0
    assert value(Median(), 1.0, 9.0, 2.0) == 2.0
    assert value(Median(), 1.0, 9.0, 2.0, 4.0) == 3.0  # of two middles the mean
    assert value(Trimmed(share=0.25), 1.0, 9.0, 2.0, 4.0) == 3.0
    assert value(Trimmed(share=0.2), 100.0, 1.0, 2.0, 3.0, -7.0) == 2.0
    assert value(Trimmed(share=0.2), 1.0, 2.0, 9.0) == 4.0  # 0.2 of three is nobody
    assert value(Trimmed(share=0.1), *[0.0] * 9, 30.0) == 0.0
    assert value(Trimmed(share=0.29), *[0.0] * 71, *[30.0] * 29) == 0.0  # 0.29 · 100 < 29 in floats


@given(st.lists(st.floats(-5, 5, width=32), min_size=3, max_size=9), st.floats(10, 1e6, width=32))
def test_fewer_than_half_bad_replies_move_the_median_within_the_good_ones(good, lie):
    bad = [lie] * ((len(good) - 1) // 2)
    assert min(good) <= value(Median(), *good, *bad) <= max(good)
    share = (len(bad) + 0.5) / (len(good) + len(bad))
    if share < 0.5:
        trimmed = value(Trimmed(share=share), *good, *bad)
        assert min(good) - 1e-5 <= trimmed <= max(good) + 1e-5


def test_names():
    assert {name: kind().name for name, kind in AGGREGATES.items()} == {n: n for n in AGGREGATES}
    assert aggregate_of("median") == Median() and aggregate_of(Trimmed(0.3)) == Trimmed(0.3)
    with pytest.raises(ConfigError, match="unknown aggregate 'trimed'; did you mean 'trimmed'"):
        aggregate_of("trimed")


@pytest.mark.parametrize("share", [-0.1, 0.5, float("nan")])
def test_a_share_outside_its_interval_is_refused(share):
    with pytest.raises(ConfigError, match=r"share must lie in \[0, 0.5\)"):
        Trimmed(share=share)


def test_what_looks_at_single_replies_is_refused_where_they_are_hidden():
    refuse_individuals(Mean(), hidden_by="secure aggregation")
    for robust in (Median(), Trimmed()):
        with pytest.raises(ConfigError, match="single replies, which secure aggregation hides"):
            refuse_individuals(robust, hidden_by="secure aggregation")


@pytest.mark.parametrize("aggregate", [Mean(), Median(), Trimmed(share=0.34)])
def test_a_liar_is_outvoted(aggregate):
    def lie(reply):
        if reply.client != "site-2":
            return reply
        return replace(
            reply, upload={"model": {n: t + 1e3 for n, t in reply.upload["model"].items()}}
        )

    r = Recipe(mlp(FEATURES, CLASSES, hidden=(5,)), FedAvg(), Plan(epochs=1), aggregate=aggregate)
    state = federate(Spy(Local(federation(), r), lie), r, 2).state["model"]
    fooled = max(float(t.abs().max()) for t in state.values()) > 100
    assert fooled == (aggregate == Mean())
