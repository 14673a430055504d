"""What a knowledge model is: rows in, answers or ranges out (Fan et al. 2022, Definition 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class PredictionModel(Protocol):
    """P-KM: what the expert would answer."""

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k); rows sum to 1, or to 0 where the expert abstains."""
        ...


class RangeModel(Protocol):
    """R-KM: which answers are possible."""

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k) bool, no empty row."""
        ...
