"""Several experts at once: ranges intersect or join, predictions go by priority or are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from ..core.tensors import torch
from ..errors import KnowledgeError
from .kinds import RangeKind, kind_of
from .missing import allow, find_lacking, hear, join_columns
from .protocols import PredictionModel, RangeModel

if TYPE_CHECKING:
    from torch import Tensor

Empty = Literal["error", "first", "all"]
_T = TypeVar("_T")


@dataclass(frozen=True)
class AllOf:
    """An R-KM: what every range allows.

    Where nothing is left `empty` decides: refuse, take the first range's word, or allow all. So it
    does where a value is missing that a range looks at, since then nothing may be left.
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
        first = allow(self.ranges[0], x).bool()
        rows = first.clone()
        for place, model in enumerate(self.ranges[1:], start=1):
            said = _alike(allow(model, x).bool(), first, "ranges")
            left = rows & said
            none = ~left.any(1)
            if none.any() and self.empty == "error":
                self._refuse(place, int(none.nonzero()[0]), int(none.sum()))
            rows = left
        if self.empty == "error":
            return rows
        none = (~rows.any(1) | find_lacking(self, x).to(rows.device)).unsqueeze(1)
        return torch.where(none, first if self.empty == "first" else True, rows)

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that some range looks at."""
        return join_columns(self.ranges, width)

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
        first = allow(self.ranges[0], x).bool()
        rows = first
        for model in self.ranges[1:]:
            rows = rows | _alike(allow(model, x).bool(), first, "ranges")
        return rows

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that some range looks at."""
        return join_columns(self.ranges, width)


@dataclass(frozen=True)
class FirstOf:
    """A P-KM: the word of the first expert, in this order, who does not abstain.

    One who abstains where a value is missing that he looks at might have spoken: nobody after him
    is heard there.
    """

    predictions: tuple[PredictionModel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "predictions", _some(self.predictions, "predictions"))

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k)."""
        rows = _floating(hear(self.predictions[0], x))
        over = (rows != 0).any(1) | find_lacking(self.predictions[0], x).to(rows.device)
        for model in self.predictions[1:]:
            said = _alike(_floating(hear(model, x)), rows, "predictions")
            rows = torch.where(over.unsqueeze(1), rows, said)
            over = over | (said != 0).any(1) | find_lacking(model, x).to(rows.device)
        return rows

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that some expert looks at."""
        return join_columns(self.predictions, width)


@dataclass(frozen=True)
class Average:
    """A P-KM: the weighted mean of the experts who do not abstain.

    Where they differ the result is soft, with the weaker property of every soft P-KM. Where one
    abstains and a value is missing that he looks at, so does the mean.
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
        first = _floating(hear(self.predictions[0], x))
        total = first * weights[0]
        unknown = _silent(first) & find_lacking(self.predictions[0], x).to(first.device)
        for model, weight in zip(self.predictions[1:], weights[1:], strict=True):
            said = _alike(_floating(hear(model, x)), first, "predictions")
            total = total + said * weight
            unknown = unknown | (_silent(said) & find_lacking(model, x).to(first.device))
        spoken = total.sum(1, keepdim=True)  # a row of weight w sums to w, or to 0
        mean = total / torch.where(spoken > 0, spoken, 1.0)
        return mean.masked_fill(unknown.unsqueeze(1), 0.0)

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that some expert looks at."""
        return join_columns(self.predictions, width)


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


def _silent(rows: Tensor) -> Tensor:
    return ~(rows != 0).any(1)


def _floating(rows: Tensor) -> Tensor:
    return rows if rows.is_floating_point() else rows.float()


def _name(models: Sequence[object], place: int) -> str:
    return f"range {place + 1} ({type(models[place]).__name__})"
