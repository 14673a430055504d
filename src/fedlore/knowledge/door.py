"""What may come in: rows of values, with holes only where a value may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.tensors import torch
from ..errors import KnowledgeError
from ..kernel.schema import Feature, Schema

if TYPE_CHECKING:
    from torch import Tensor


def check_values(x: Tensor, schema: Schema | None) -> None:
    """Refuse rows with what is no value: NaN where none may be missing, infinity, no level."""
    flat = x.detach().flatten(1)
    features: Sequence[Feature] = () if schema is None else schema.features
    if len(features) != flat.shape[1]:
        features = ()  # an image, or rows with more columns than the knowledge has names for
    good = flat.isfinite()
    for column, feature in enumerate(features):
        if feature.may_miss:
            good[:, column] |= flat[:, column].isnan()
        if feature.levels:
            good[:, column] &= is_level(flat[:, column], feature) | flat[:, column].isnan()
    if good.all():
        return
    row, column = (~good).nonzero()[0].tolist()
    value = float(flat[row, column])
    name = f"'{features[column].name}'" if features else str(column)
    found = "is missing" if value != value else f"has {value:g}, which is no value of it"
    more = int((~good).any(1).sum()) - 1
    others = f" ({more} rows after it cannot be used either)" if more else ""
    raise KnowledgeError(f"data row {row}: column {name} {found}{others}")


def is_level(values: Tensor, feature: Feature) -> Tensor:
    """Whether numbers are positions of levels, (n,) -> (n,) bool."""
    count = len(feature.levels) + feature.other
    return (values >= 0) & (values < count) & (values == values.floor())


def hide_others(x: Tensor, schema: Schema | None) -> Tensor:
    """Rows as knowledge sees them: a level that nobody named is as good as missing."""
    if schema is None or not any(feature.other for feature in schema.features):
        return x
    named = [len(f.levels) if f.other else torch.inf for f in schema.features]
    return torch.where(x >= x.new_tensor(named), torch.nan, x)
