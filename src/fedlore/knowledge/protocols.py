"""What a knowledge model is: rows in, answers or ranges out (Fan et al. 2022, Definition 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

Number = Callable[["Tensor"], "Tensor"]  # (n, *features) -> (n,), NaN to abstain; a Formula is one


class PredictionModel(Protocol):
    """P-KM: what the expert would answer."""

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k), rows of sum 1, or 0 to abstain; a number: (n,), or NaN."""
        ...


class RangeModel(Protocol):
    """R-KM: which answers are possible."""

    def __call__(self, x: Tensor, /) -> Any:
        """(n, *features) -> (n, k) bool, no empty row; of numbers n closed `Sets`."""
        ...
