"""Several experts at once: ranges intersect or join, predictions go by priority or are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from ..answers.axis import axis_of
from ..core.tensors import torch
from ..errors import KnowledgeError
from ..kernel.document import Empty as Empty
from ..kernel.document import check_weights
from .missing import allow, find_lacking, hear
from .protocols import PredictionModel, RangeModel

if TYPE_CHECKING:
    from torch import Tensor

_T = TypeVar("_T")


@dataclass(frozen=True)
class AllOf:
    """An R-KM of classes or numbers: what every range allows.

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

    def __call__(self, x: Tensor, /) -> Any:
        """(n, *features) -> (n, k) bool, or `Sets`."""
        first = allow(self.ranges[0], x)
        axis = axis_of(first)
        left = first = axis.range(first, x)
        for place, model in enumerate(self.ranges[1:], start=1):
            left = axis.meet(left, axis.range(allow(model, x), x))
            if self.empty == "error" and (none := axis.empty(left)).any():
                self._refuse(axis.word, place, none)
        if self.empty == "error":
            return left
        none = axis.empty(left) | find_lacking(self, x)
        return axis.where(none, first if self.empty == "first" else axis.whole(left), left)

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.ranges

    @property
    def file_keys(self) -> dict[str, Any]:
        """How a knowledge file says that these are combined."""
        return {"empty": self.empty}

    def _refuse(self, word: str, place: int, none: Tensor) -> None:
        before = " and ".join(_name(self.ranges, i) for i in range(place))
        raise KnowledgeError(
            f"{_name(self.ranges, place)} leaves no {word} of what {before} allow"
            f"{'s' if place == 1 else ''} in {int(none.sum())} rows, first row "
            f"{int(none.nonzero()[0])} (empty = error; first and all are the alternatives)"
        )


@dataclass(frozen=True)
class AnyOf:
    """An R-KM of classes or numbers: what at least one range allows."""

    ranges: tuple[RangeModel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", _some(self.ranges, "ranges"))

    def __call__(self, x: Tensor, /) -> Any:
        """(n, *features) -> (n, k) bool, or `Sets`."""
        said = allow(self.ranges[0], x)
        axis = axis_of(said)
        rows = axis.range(said, x)
        for model in self.ranges[1:]:
            rows = axis.join(rows, axis.range(allow(model, x), x))
        return rows

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.ranges

    @property
    def file_keys(self) -> dict[str, Any]:
        """How a knowledge file says that these are combined."""
        return {"combine": "any"}


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
        """(n, *features) -> (n, k), or (n,) of a number."""
        said = hear(self.predictions[0], x)
        axis = axis_of(said)
        rows = axis.prediction(said, x)
        over = axis.speaks(rows) | find_lacking(self.predictions[0], x)
        for model in self.predictions[1:]:
            said = axis.prediction(hear(model, x), x)
            rows = axis.choose(over, rows, said)
            over = over | axis.speaks(said) | find_lacking(model, x)
        return rows

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.predictions

    def with_parts(self, parts: tuple[Any, ...]) -> FirstOf:
        """The same combination of other experts."""
        return replace(self, predictions=parts)

    @property
    def file_keys(self) -> dict[str, Any]:
        """How a knowledge file says that these are combined."""
        return {}


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
        check_weights(self.weights, len(self.predictions))

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k)."""
        weights = self.weights or (1.0,) * len(self.predictions)
        said = [hear(model, x) for model in self.predictions]
        axis = axis_of(said[0])
        said = [axis.prediction(one, x) for one in said]
        unknown = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for model, one in zip(self.predictions, said, strict=True):
            unknown = unknown | (~axis.speaks(one) & find_lacking(model, x))
        return axis.choose(~unknown, axis.average(said, weights), torch.zeros_like(said[0]))

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.predictions

    def with_parts(self, parts: tuple[Any, ...]) -> Average:
        """The same combination of other experts."""
        return replace(self, predictions=parts)

    @property
    def file_keys(self) -> dict[str, Any]:
        """How a knowledge file says that these are combined."""
        return {"combine": "average"} | ({"weights": list(self.weights)} if self.weights else {})


def _some(models: Sequence[_T], what: str) -> tuple[_T, ...]:
    if not models:
        raise KnowledgeError(f"there must be at least one of the {what}")
    return tuple(models)


def _name(models: Sequence[object], place: int) -> str:
    return f"range {place + 1} ({type(models[place]).__name__})"
