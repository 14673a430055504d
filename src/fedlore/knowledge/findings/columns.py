"""Columns that no model should learn from: constants, copies, running numbers, the label itself."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_FEW = 20  # rows below which all this may be chance
_EXACT = 2.0**53  # from here on whole numbers are no longer told apart
_LARGE = 1e5  # whole numbers from here on that never come twice name something


def find_columns(
    x: NDArray[np.float64], y: NDArray[np.float64] | None, *, number: bool
) -> Iterator[tuple[int, str, int | None]]:
    """Columns (n, d) that are suspicious, of what kind, and of which other column one is a copy."""
    if len(x) < _FEW:
        return
    seen: dict[bytes, int] = {}
    for place in range(x.shape[1]):
        values = np.ascontiguousarray(x[:, place], dtype=np.float64) + 0.0  # -0 is 0
        distinct = np.unique(values[~np.isnan(values)])
        other = seen.setdefault(values.tobytes(), place)
        if len(distinct) < 2:
            yield place, "constant-column", None
        elif y is not None and _is_label(values, y, number):
            yield place, "label-column", None
        elif other != place:
            yield place, "copied-column", other
        elif distinct[0] >= _EXACT or len(distinct) == len(values) and _names_rows(distinct):
            yield place, "id-column", None


def _names_rows(distinct: NDArray[np.float64]) -> bool:
    """Whole numbers, no two alike: running ones, or ones that are too large to be measured."""
    if (distinct != np.round(distinct)).any():
        return False
    return bool(distinct[-1] - distinct[0] == len(distinct) - 1 or distinct[0] >= _LARGE)


def _is_label(values: NDArray[np.float64], y: NDArray[np.float64], number: bool) -> bool:
    """Whether a column says the label in other words: one value each, or on a straight line."""
    if number:
        known = ~np.isnan(values)
        if known.sum() < _FEW or not y[known].std() or not values[known].std():
            return False
        return bool(abs(np.corrcoef(values[known], y[known])[0, 1]) > 1 - 1e-12)
    pairs = np.unique(np.stack([values, y]), axis=1).shape[1]
    return bool(pairs == len(np.unique(values)) == len(np.unique(y)) > 2)
