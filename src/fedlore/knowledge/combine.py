"""Several experts at once: ranges intersect or join, predictions go by priority or are averaged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from ..errors import KnowledgeError
from .kinds import RangeKind, kind_of
from .protocols import PredictionModel, RangeModel

Empty = Literal["error", "first", "all"]
_T = TypeVar("_T")


@dataclass(frozen=True)
class AllOf:
    """An R-KM: what every range allows.

    Where nothing is left `empty` decides: refuse, take the first range's word, or allow all.
    Misses add up: with two statistical ranges at level 1 - α a label is outside with at most 2α.
    """

    ranges: tuple[RangeModel, ...]
    empty: Empty = "error"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", _some(self.ranges, "ranges"))
        if self.empty not in get_args(Empty):
            raise KnowledgeError(f"empty must be error, first or all, got '{self.empty}'")

    @property
    def kind(self) -> RangeKind:
        return _kind(self.ranges)

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k) bool."""
        first = self.ranges[0](x).bool()
        rows = first.clone()
        for place, model in enumerate(self.ranges[1:], start=1):
            said = _alike(model(x).bool(), first, "ranges")
            left = rows & said
            none = ~left.any(1)
            if none.any() and self.empty == "error":
                self._refuse(place, int(none.nonzero()[0]), int(none.sum()))
            rows = left
        if self.empty == "error":
            return rows
        none = ~rows.any(1, keepdim=True)
        return torch.where(none, first if self.empty == "first" else True, rows)

    def _refuse(self, place: int, row: int, count: int) -> None:
        before = " and ".join(_name(self.ranges, i) for i in range(place))
        raise KnowledgeError(
            f"{_name(self.ranges, place)} leaves no class of what {before} allow"
            f"{'s' if place == 1 else ''} in {count} rows, first row {row} "
            "(empty = error; first and all are the alternatives)"
        )


@dataclass(frozen=True)
class AnyOf:
    """An R-KM: what at least one range allows."""

    ranges: tuple[RangeModel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", _some(self.ranges, "ranges"))

    @property
    def kind(self) -> RangeKind:
        # one certain member would make the union certain; marked with care all the same
        return _kind(self.ranges)

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k) bool."""
        first = self.ranges[0](x).bool()
        rows = first
        for model in self.ranges[1:]:
            rows = rows | _alike(model(x).bool(), first, "ranges")
        return rows


@dataclass(frozen=True)
class FirstOf:
    """A P-KM: the word of the first expert, in this order, who does not abstain."""

    predictions: tuple[PredictionModel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "predictions", _some(self.predictions, "predictions"))

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k)."""
        rows = _floating(self.predictions[0](x))
        for model in self.predictions[1:]:
            said = _alike(_floating(model(x)), rows, "predictions")
            rows = torch.where((rows != 0).any(1, keepdim=True), rows, said)
        return rows


@dataclass(frozen=True)
class Average:
    """A P-KM: the weighted mean of the experts who do not abstain.

    Where they differ the result is soft, with the weaker property of every soft P-KM.
    """

    predictions: tuple[PredictionModel, ...]
    weights: tuple[float, ...] | None = None  # equal ones by default

    def __post_init__(self) -> None:
        object.__setattr__(self, "predictions", _some(self.predictions, "predictions"))
        if self.weights is None:
            return
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))
        if len(self.weights) != len(self.predictions):
            raise KnowledgeError(
                f"there must be a weight for each of {len(self.predictions)} predictions, "
                f"got {len(self.weights)}"
            )
        if not all(0 < weight < float("inf") for weight in self.weights):
            raise KnowledgeError(f"weights must be positive, got {self.weights}")

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k)."""
        weights = self.weights or (1.0,) * len(self.predictions)
        first = _floating(self.predictions[0](x))
        total = first * weights[0]
        for model, weight in zip(self.predictions[1:], weights[1:], strict=True):
            total = total + _alike(_floating(model(x)), first, "predictions") * weight
        spoken = total.sum(1, keepdim=True)  # a row of weight w sums to w, or to 0
        return total / torch.where(spoken > 0, spoken, 1.0)


def _some(models: Sequence[_T], what: str) -> tuple[_T, ...]:
    if not models:
        raise KnowledgeError(f"there must be at least one of the {what}")
    return tuple(models)


def _kind(ranges: Sequence[object]) -> RangeKind:
    return "statistical" if any(kind_of(r) == "statistical" for r in ranges) else "certain"


def _alike(rows: Tensor, first: Tensor, what: str) -> Tensor:
    if rows.shape != first.shape:
        raise KnowledgeError(
            f"all {what} must have the same shape, got {tuple(first.shape)} and {tuple(rows.shape)}"
        )
    return rows.to(first.device)


def _floating(rows: Tensor) -> Tensor:
    return rows if rows.is_floating_point() else rows.float()


def _name(models: Sequence[object], place: int) -> str:
    return f"range {place + 1} ({type(models[place]).__name__})"
