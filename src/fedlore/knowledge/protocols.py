"""What a knowledge model is, and the policies around it (Fan et al. 2022, Definition 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..kernel.document import Card as Card
from ..kernel.document import Conflict as Conflict
from ..kernel.document import Outside as Outside

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


RangeKind = Literal["certain", "statistical"]


def kind_of(model: object) -> RangeKind:
    """The kind of a range: what it says itself, else statistical where a model inside it is.

    A range that says nothing is an expert's, as the paper has it: certain. Where one certain part
    would make a union certain, it is marked with care all the same.
    """
    said = getattr(model, "kind", None)
    if said is not None or model is None:
        return "statistical" if said == "statistical" else "certain"
    parts = getattr(model, "parts", (getattr(model, "model", None),))
    return "statistical" if "statistical" in map(kind_of, parts) else "certain"
