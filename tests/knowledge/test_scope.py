"""A scaling that nobody's rows went into."""

import math

import pytest
import torch

from fedlore.errors import ConfigError
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.scope import scaler_of_scope


def schema(*features):
    return Schema(features, ("a", "b"))


def test_rows_that_fill_the_bounds_evenly_come_out_standardised():
    scaler = scaler_of_scope(schema(Feature("ash", low=6, high=12), Feature("t", low=-1, high=0)))
    x = torch.stack([torch.linspace(6, 12, 10001), torch.linspace(-1, 0, 10001)], 1).double()
    torch.testing.assert_close(scaler(x).mean(0), torch.zeros(2).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(scaler(x).std(0), torch.ones(2).double(), rtol=1e-3, atol=0)


def test_each_of_the_levels_is_as_likely_as_any_other():
    scaler = scaler_of_scope(
        schema(Feature("kind", levels=("x", "y", "z")), Feature("o", levels=("x",)))
    )
    assert scaler.shift.tolist() == pytest.approx([1 / 3] * 3 + [0.0])
    assert scaler.spread.tolist() == pytest.approx([math.sqrt(2) / 3] * 3 + [1.0])


def test_a_feature_without_bounds_is_refused():
    with pytest.raises(ConfigError, match="feature 'ash' has no declared bounds .*scale = false"):
        scaler_of_scope(schema(Feature("ash", low=6)))
