"""Rows as people have them, read as a bundle's policies say."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...data.rows import frame_of, read_chunks
from ...data.rows.titles import Extra
from ...errors import FedloreError
from ...personal.classifier import Personal
from ..contents import Blanks, Bundle

HINT = " (or blanks = mean)"


def read_rows_checked(
    source: Any, bundle: Bundle, *, blanks: Blanks | None = None, extra: Extra | None = None
) -> Tensor:
    """Columns, records, one record, a frame or an array as rows in raw units, (n, d) float32.

    Columns are found by name, in any order; a name may carry its unit, `ash [%]`, which must then
    be the declared one. Without `blanks` and `extra` the bundle's own policies hold. All that is
    wrong is refused together, by row and column; the titles are row 1, and records, which have
    none, begin with 1. A 2-d tensor or array has no names: its columns are the schema's, and
    where it holds numbers, levels are their positions.
    """
    found = read_chunks(
        frame_of(source, bundle.schema),
        bundle.schema,
        extra=extra or bundle.policies.extra,
        fill=filling(bundle, blanks or bundle.policies.blanks),
        hint=HINT,
    )
    return torch.cat([part.x for part in found])


def filling(bundle: Bundle, blanks: Blanks) -> Callable[[], Tensor] | None:
    """What stands for missing numbers under a policy."""
    return (lambda: means_of(bundle)) if blanks == "mean" else None


def means_of(bundle: Bundle) -> Tensor:
    """The federation's mean of each feature, (d,), as the scaling has it."""
    personal = bundle.personal
    inner = personal if isinstance(personal, Personal) else personal.personal
    if inner.scaler is None:
        raise FedloreError("blanks = mean needs the federation's means, and it had no scaling")
    return inner.scaler.shift.flatten()[: len(bundle.schema.features)]
