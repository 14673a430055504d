"""Several experts at once: ranges intersect or join, predictions go by priority or are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, get_args

from ..answers.axis import axis_of
from ..core.tensors import torch
from ..errors import KnowledgeError
from ..kernel.document import Empty as Empty
from ..kernel.document import check_weights
from .missing import allow, find_lacking, hear

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class _Combined:
    """Several models as one."""

    parts: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise KnowledgeError("there must be at least one model to combine")
        object.__setattr__(self, "parts", tuple(self.parts))

    def with_parts(self, parts: tuple[Any, ...]) -> Self:
        return replace(self, parts=parts)

    @property
    def file_keys(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class AllOf(_Combined):
    """An R-KM of classes or numbers: what every range allows.

    Where nothing is left `empty` decides: refuse, take what the first range allows, or allow all.
    So it does where a value is missing that a range looks at, since then nothing may be left.
    Misses add up: with two statistical ranges at level 1 - α a label is outside with at most 2α.
    """

    empty: Empty = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.empty not in get_args(Empty):
            raise KnowledgeError(f"empty must be error, first or all, got '{self.empty}'")

    def __call__(self, x: Tensor, /) -> Any:
        """(n, *features) -> (n, k) bool, or `Sets`."""
        first = allow(self.parts[0], x)
        axis = axis_of(first)
        left = first = axis.range(first, x)
        for place, model in enumerate(self.parts[1:], start=1):
            left = axis.meet(left, axis.range(allow(model, x), x))
            if self.empty == "error" and (none := axis.empty(left)).any():
                self._refuse(axis.word, place, none)
        if self.empty == "error":
            return left
        none = axis.empty(left) | find_lacking(self, x)
        return axis.where(none, first if self.empty == "first" else axis.whole(left), left)

    @property
    def file_keys(self) -> dict[str, Any]:
        return {"empty": self.empty}

    def _refuse(self, word: str, place: int, none: Tensor) -> None:
        before = " and ".join(_name(self.parts, i) for i in range(place))
        row = int(none.nonzero()[0])
        raise KnowledgeError(
            f"{_name(self.parts, place)} leaves no {word} of what {before} allow"
            f"{'s' if place == 1 else ''} in {int(none.sum())} rows, first row "
            f"{row} (empty = error; first and all are the alternatives)",
            row=row,
        )


@dataclass(frozen=True)
class AnyOf(_Combined):
    """An R-KM of classes or numbers: what at least one range allows."""

    def __call__(self, x: Tensor, /) -> Any:
        """(n, *features) -> (n, k) bool, or `Sets`."""
        said = allow(self.parts[0], x)
        axis = axis_of(said)
        rows = axis.range(said, x)
        for model in self.parts[1:]:
            rows = axis.join(rows, axis.range(allow(model, x), x))
        return rows

    @property
    def file_keys(self) -> dict[str, Any]:
        return {"combine": "any"}


@dataclass(frozen=True)
class FirstOf(_Combined):
    """A P-KM: the prediction of the first expert, in this order, who does not abstain.

    One who abstains where a value is missing that he looks at might have predicted: nobody after
    him is asked there.
    """

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k), or (n,) of a number."""
        said = hear(self.parts[0], x)
        axis = axis_of(said)
        rows = axis.prediction(said, x)
        over = axis.speaks(rows) | find_lacking(self.parts[0], x)
        for model in self.parts[1:]:
            said = axis.prediction(hear(model, x), x)
            rows = axis.choose(over, rows, said)
            over = over | axis.speaks(said) | find_lacking(model, x)
        return rows


@dataclass(frozen=True)
class Average(_Combined):
    """A P-KM: the weighted mean of the experts who do not abstain.

    Where they differ the result is soft, with the weaker property of every soft P-KM. Where one
    abstains and a value is missing that he looks at, so does the mean.
    """

    weights: tuple[float, ...] | None = None  # equal ones by default

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is None:
            return
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))
        check_weights(self.weights, len(self.parts))

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k)."""
        weights = self.weights or (1.0,) * len(self.parts)
        said = [hear(model, x) for model in self.parts]
        axis = axis_of(said[0])
        said = [axis.prediction(one, x) for one in said]
        unknown = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for model, one in zip(self.parts, said, strict=True):
            unknown = unknown | (~axis.speaks(one) & find_lacking(model, x))
        return axis.choose(~unknown, axis.average(said, weights), torch.zeros_like(said[0]))

    @property
    def file_keys(self) -> dict[str, Any]:
        return {"combine": "average"} | ({"weights": list(self.weights)} if self.weights else {})


def _name(models: Sequence[object], place: int) -> str:
    return f"range {place + 1} ({type(models[place]).__name__})"
