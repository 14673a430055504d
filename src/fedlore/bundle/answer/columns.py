"""Rows as people have them, read as a bundle's policies say."""

from typing import Any

import torch
from torch import Tensor

from ...data.rows import frame_of, read_chunks
from ...data.rows.cells import Extra
from ..contents import Bundle


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
