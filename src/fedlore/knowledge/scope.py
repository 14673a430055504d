"""A common scaling from what a schema declares, which tells nothing about any row."""

import math

import torch

from ..core.scaler import Scaler
from ..errors import ConfigError
from .schema import Feature, Schema


def scaler_of_scope(schema: Schema) -> Scaler:
    """Each feature as if it were spread evenly over its declared bounds, or over its levels.

    >>> scaler_of_scope(Schema((Feature("ash", low=6, high=12),), ("a", "b"))).shift
    tensor([9.], dtype=torch.float64)
    """
    both = [_spread(feature) for feature in schema.features]
    shift, spread = torch.tensor(both, dtype=torch.float64).T
    return Scaler(shift.clone(), spread.clone())


def _spread(feature: Feature) -> tuple[float, float]:
    """Mean and standard deviation of a uniform distribution."""
    if feature.levels:
        count = len(feature.levels)
        return (count - 1) / 2, math.sqrt((count**2 - 1) / 12) or 1.0
    if math.isinf(feature.low) or math.isinf(feature.high):
        raise ConfigError(
            f"feature '{feature.name}' has no declared bounds (low, high), so it cannot be scaled "
            "without looking at rows: declare them in the schema, or set scale = false"
        )
    return (feature.low + feature.high) / 2, (feature.high - feature.low) / math.sqrt(12)
