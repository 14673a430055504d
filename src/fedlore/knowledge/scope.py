"""A common scaling from what a schema declares, which tells nothing about any row."""

import math

from ..core.scaler import Input, Inputs, Scaler, Stand
from ..core.tensors import torch
from ..errors import ConfigError
from ..kernel.schema import Feature, Schema


def scaler_of_scope(schema: Schema) -> Scaler:
    """Each feature as if it were spread evenly over its declared bounds, or over its levels.

    >>> scaler_of_scope(Schema((Feature("ash", low=6, high=12),), ("a", "b"))).shift
    tensor([9.], dtype=torch.float64)
    """
    inputs = inputs_of(schema)
    both = []
    for place, feature in enumerate(schema.features):
        one = None if inputs is None else inputs.features[place]
        if one is None or not one.levels:
            both.append(_spread(feature))
        else:  # each level is as likely as any other
            share = 1.0 / (one.levels + one.other)
            both += [(share, math.sqrt(share * (1.0 - share)))] * (one.levels + one.other)
        if one is not None and one.missing:
            both.append((0.0, 1.0))
    shift, spread = torch.tensor(both, dtype=torch.float64).T
    return Scaler(shift.clone(), spread.clone(), inputs)


def inputs_of(schema: Schema | None) -> Inputs | None:
    """How rows reach a network; None where each feature is one number that is always there.

    Until sums are known the middle of the scope stands for a missing mean or median.
    """
    if schema is None:
        return None
    inputs = Inputs(tuple(map(_input, schema.features)))
    return None if inputs.width == len(schema.features) else inputs


def count_inputs(schema: Schema) -> int:
    """How many inputs a network has: one for a number or a level, one where it may be missing.

    >>> features = Feature("ash", missing="mean"), Feature("mine", levels=("a", "b"))
    >>> count_inputs(Schema(features, ("I", "II")))
    4
    """
    found = inputs_of(schema)
    return len(schema.features) if found is None else found.width


def _input(feature: Feature) -> Input:
    count = len(feature.levels) + feature.other
    stand: Stand = "given"
    fill = 0.0
    if feature.missing in ("mean", "median") and not feature.levels:
        stand = "mean" if feature.missing == "mean" else "median"
        middle = (feature.low + feature.high) / 2
        fill = middle if math.isfinite(middle) else 0.0
    elif feature.levels:
        named = feature.missing in feature.levels and feature.missing != "level"
        fill = float(feature.levels.index(str(feature.missing))) if named else math.nan
    elif not isinstance(feature.missing, str):
        fill = feature.missing
    return Input(
        len(feature.levels) if count > 1 else 0,  # a single level says nothing: a number does
        feature.other and count > 1,
        feature.may_miss,
        stand,
        fill,
        *((feature.low, feature.high) if stand == "median" else ()),
    )


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
