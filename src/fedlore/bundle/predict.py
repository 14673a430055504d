"""What a bundle answers about rows: class or number, how likely, what was possible, who decided."""

from typing import Any

import torch
from torch import Tensor

from ..data.rows import frame_of, read_chunks
from ..data.rows.cells import Extra
from ..errors import FedloreError
from ..models.answers import Answers
from ..models.doubt import Doubt, can_doubt, find_doubt
from .header import Bundle

_FAULT = "predict"  # the code of errors raised here


@torch.no_grad()
def answer_rows(bundle: Bundle, x: Tensor) -> Answers:
    """Answers for rows in raw units, (n, d) or in the network's own shape."""
    x = shape_rows(bundle, x)
    personal = bundle.personal
    starts = range(0, max(len(x), 1), personal.chunk)
    parts = (x[i : i + personal.chunk] for i in starts)
    return Answers.join([personal.answer(bundle.schema, part) for part in parts])


def shape_rows(bundle: Bundle, x: Tensor) -> Tensor:
    """The rows as the network takes them."""
    d = len(bundle.schema.features)
    if x.ndim < 2 or x[:1].numel() != d * min(len(x), 1):
        raise FedloreError(f"rows must have {d} features, got shape {tuple(x.shape)}")
    if not x.is_floating_point():
        raise FedloreError(f"rows must be floating point, got {x.dtype}")
    return x.reshape(len(x), *bundle.shape)


def read_rows_checked(source: Any, bundle: Bundle, *, extra: Extra | None = None) -> Tensor:
    """Columns, records, one record, a frame or an array as rows in raw units, (n, d) float32.

    Columns are found by name, in any order; a name may carry its unit, `ash [%]`, which must then
    be the declared one. A value that may be missing is NaN. Without `extra` the bundle's own policy
    holds. All that is wrong is refused together, by row and column; the titles are row 1, and
    records, which have none, begin with 1. A 2-d tensor or array has no names: its columns are the
    schema's, and where it holds numbers, levels are their positions.
    """
    found = read_chunks(
        frame_of(source, bundle.schema),
        bundle.schema,
        extra=extra or bundle.policies.extra,
    )
    return torch.cat([part.x for part in found])


@torch.no_grad()
def doubt_rows(bundle: Bundle, x: Tensor) -> Doubt:
    """Doubts about rows in raw units, in classes or units of the number; refused by a model alone.

    Where ignorance is larger than noise the row is far from all that was learned from.
    """
    x = shape_rows(bundle, x)
    personal = bundle.personal
    found = find_doubt(personal, x) if can_doubt(personal, bundle.schema) else None
    if found is None:
        raise FedloreError(
            "this bundle cannot tell its own ignorance: that takes a mixture of members over "
            'ordered classes or a number, as recipe = "lore" makes'
        )
    return found
