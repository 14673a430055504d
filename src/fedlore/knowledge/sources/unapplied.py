"""Which rules could not be applied to a row because a value is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...core.tensors import torch
from ...kernel.schema import Schema
from ...words import Reason
from ..missing import list_columns
from ..tables.table import Table
from ..views import Mask
from .kind import Reasons
from .writing import parts_of

if TYPE_CHECKING:
    from torch import Tensor


def count_unapplied(models: Iterable[Any], x: Tensor) -> Tensor:
    """For each missing value how many rules and formulas it leaves open, (n, d) int64."""
    found = torch.zeros(x.shape, dtype=torch.int64)
    for model in models:
        if isinstance(model, Mask):
            columns = list(model.columns)
            found[:, columns] += count_unapplied([model.model], x[:, columns])
            continue
        table = getattr(model, "table", model)
        parts = parts_of(model)
        if parts is not None:
            found += count_unapplied(parts, x)
        elif isinstance(table, Table):
            found += _count_rules(table, x)
        else:
            looks = torch.zeros(x.shape[1], dtype=torch.bool)
            looks[list(list_columns(model, x.shape[1]))] = True
            found += x.isnan().cpu() & looks
    return found


def _count_rules(table: Table, x: Tensor) -> Tensor:
    asks = torch.zeros(len(table.rules), x.shape[1])
    for place, rule in enumerate(table.rules):
        asks[place, [column for column, _ in rule.conditions]] = 1.0
    open_ = table.undecided(x).float().cpu()
    return ((open_ @ asks) * x.isnan().cpu()).long()


def missing_reasons(models: Iterable[Any], x: Tensor, schema: Schema) -> Reasons:
    """What is missing in each row, and how many rules that leaves open."""
    found: Reasons = [[] for _ in range(len(x))]
    rows = x.isnan().any(1).nonzero().flatten()
    if not len(rows):
        return found
    holes, counts = x[rows].isnan().tolist(), count_unapplied(models, x[rows]).tolist()
    for row, hole, count in zip(rows.tolist(), holes, counts, strict=True):
        for feature, gone, many in zip(schema.features, hole, count, strict=True):
            if gone:
                found[row].append(Reason("missing", {"feature": feature.name, "rules": many}))
    return found
