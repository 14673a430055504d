"""What both estimators share: arrays as tensors, columns by name, seeds, widths."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError, KnowledgeError
from ..knowledge.schema import Schema

NAME = "site"  # of the only client


def tensor(x: "np.ndarray[Any, Any]") -> Tensor:
    """A copy in float64: the array may be read-only, and what an expert compares stays exact."""
    return torch.tensor(np.asarray(x, dtype=np.float64))


def seed_of(random_state: Any) -> int:
    """One whole number from what scikit-learn calls a random state."""
    from sklearn.utils import check_random_state  # type: ignore[import-untyped]

    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def columns_of(schema: Schema, names: Sequence[str] | None, width: int) -> tuple[int, ...] | None:
    """Where the expert's columns are among those of X, None where they are all, in their order.

    With named columns the expert's are found by name and X may have more; without names X has
    just the columns of the schema.
    """
    if names is None:
        if width != len(schema.features):
            raise KnowledgeError(
                f"the knowledge has {len(schema.features)} columns ({', '.join(schema.names)}), "
                f"X has {width} without names: give a data frame, or just those columns"
            )
        return None
    absent = [name for name in schema.names if name not in names]
    if absent:
        raise KnowledgeError(f"the knowledge needs the column '{absent[0]}', X does not have it")
    found = tuple(list(names).index(name) for name in schema.names)
    return None if found == tuple(range(width)) else found


def widths(hidden: Any) -> tuple[int, ...]:
    """The sizes of the hidden layers, given as one number or several."""
    found = (hidden,) if isinstance(hidden, int | np.integer) else tuple(hidden)
    for size in found:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ConfigError(f"hidden must hold whole numbers of at least 1, got {size!r}")
    return tuple(int(size) for size in found)
