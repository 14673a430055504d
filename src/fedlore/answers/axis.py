"""The axis of answers: k classes, or the line of numbers. What differs between them stands here.

A prediction says for n rows a distribution (n, k) or a number (n,); a range says which classes
are possible, (n, k) bool, or which numbers, `Sets`. Both axes have the same algebra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..core.tensors import torch
from ..errors import KnowledgeError
from .bins import Bins
from .sets import Sets

if TYPE_CHECKING:
    from torch import Tensor

Allowed = Any  # of n rows: bool (n, k), or Sets


class Axis(Protocol):
    """The algebra of what experts say."""

    word: ClassVar[str]  # what one answer is called

    def prediction(self, said: Tensor, like: Tensor) -> Tensor:
        """What an expert said of the rows `like`, as floating point beside them."""
        ...

    def range(self, said: Allowed, like: Tensor) -> Allowed:
        """What a range said of the rows `like`, as the algebra takes it, beside them."""
        ...

    def speaks(self, said: Tensor) -> Tensor:
        """Rows on which an expert says something, (n,) bool."""
        ...

    def choose(self, rows: Tensor, said: Tensor, other: Tensor) -> Tensor:
        """One prediction where rows (n,) are true, another elsewhere."""
        ...

    def average(self, said: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        """The weighted mean of those who speak, (n, k)."""
        ...

    def fill_silence(self, said: Tensor, rows: Tensor) -> Tensor:
        """A prediction about those of n rows that are true; silence on the others."""
        ...

    def whole(self, like: Allowed) -> Allowed:
        """Every answer, for as many rows as a range has."""
        ...

    def meet(self, one: Allowed, other: Allowed) -> Allowed:
        """What both allow."""
        ...

    def join(self, one: Allowed, other: Allowed) -> Allowed:
        """What one of them allows."""
        ...

    def empty(self, allowed: Allowed) -> Tensor:
        """Rows that allow nothing, (n,) bool."""
        ...

    def where(self, rows: Tensor, one: Allowed, other: Allowed) -> Allowed:
        """One range where rows (n,) are true, another elsewhere."""
        ...

    def fill_whole(self, allowed: Allowed, rows: Tensor) -> Allowed:
        """A range of those of n rows that are true; every answer on the others."""
        ...


@dataclass(frozen=True)
class Classes:
    """One of k classes, from worst to best where they have an order."""

    names: tuple[str, ...] = ()
    ordered: bool = False

    word: ClassVar[str] = "class"

    def prediction(self, said: Tensor, like: Tensor) -> Tensor:
        said = said if said.is_floating_point() else said.float()
        return said.to(like.device)

    def range(self, said: Tensor, like: Tensor) -> Tensor:
        return said.bool().to(like.device)

    def speaks(self, said: Tensor) -> Tensor:
        return (said != 0).any(1)

    def choose(self, rows: Tensor, said: Tensor, other: Tensor) -> Tensor:
        return torch.where(rows.unsqueeze(1), said, _alike(said, other, "predictions"))

    def average(self, said: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        total = said[0] * weights[0]
        for one, weight in zip(said[1:], weights[1:], strict=True):
            total = total + _alike(said[0], one, "predictions") * weight
        spoken = total.sum(1, keepdim=True)  # a row of weight w sums to w, or to 0
        return total / torch.where(spoken > 0, spoken, 1.0)

    def fill_silence(self, said: Tensor, rows: Tensor) -> Tensor:
        return _scatter(said, rows, 0)

    def whole(self, like: Tensor) -> Tensor:
        return torch.ones_like(like)

    def meet(self, one: Tensor, other: Tensor) -> Tensor:
        return one & _alike(one, other, "ranges")

    def join(self, one: Tensor, other: Tensor) -> Tensor:
        return one | _alike(one, other, "ranges")

    def empty(self, allowed: Tensor) -> Tensor:
        return ~allowed.any(1)

    def where(self, rows: Tensor, one: Tensor, other: Tensor) -> Tensor:
        return torch.where(rows.unsqueeze(1), one, other)

    def fill_whole(self, allowed: Tensor, rows: Tensor) -> Tensor:
        return _scatter(allowed, rows, 1)


@dataclass(frozen=True)
class Line:
    """A number within the bounds of its bins, in some unit; any number where none are given."""

    bins: Bins | None = None
    unit: str = ""

    word: ClassVar[str] = "number"

    def prediction(self, said: Tensor, like: Tensor) -> Tensor:
        if said.shape != (len(like),) or not said.is_floating_point():
            raise KnowledgeError(
                f"a formula must give one number per row, shape ({len(like)},): got {said.dtype} "
                f"of shape {tuple(said.shape)}"
            )
        return said.double().to(like.device)

    def range(self, said: Sets, like: Tensor) -> Sets:
        return said.to(like.device)

    def speaks(self, said: Tensor) -> Tensor:
        return said.isfinite()

    def choose(self, rows: Tensor, said: Tensor, other: Tensor) -> Tensor:
        return torch.where(rows, said, other)

    def average(self, said: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        raise KnowledgeError("numbers are not averaged: name the experts in order")

    def fill_silence(self, said: Tensor, rows: Tensor) -> Tensor:
        return _scatter(said, rows, torch.nan)

    def whole(self, like: Sets) -> Sets:
        low, high = (-torch.inf, torch.inf) if self.bins is None else self.bins.bounds
        return Sets.whole(len(like), low, high, like=like.lower)

    def meet(self, one: Sets, other: Sets) -> Sets:
        return one.meet(other)

    def join(self, one: Sets, other: Sets) -> Sets:
        return one.join(other)

    def empty(self, allowed: Sets) -> Tensor:
        return allowed.empty

    def where(self, rows: Tensor, one: Sets, other: Sets) -> Sets:
        return one.only(rows).join(other.only(~rows))

    def fill_whole(self, allowed: Sets, rows: Tensor) -> Sets:
        width = allowed.lower.shape[1]
        none = torch.tensor([torch.inf] + [torch.nan] * (width - 1), dtype=torch.float64)
        low, high = (end.to(rows.device).repeat(len(rows), 1) for end in (-none, none))
        low[rows], high[rows] = allowed.lower, allowed.upper
        return Sets(low, high)


_CLASSES, _LINE = Classes(), Line()


def axis_of(said: Allowed) -> Axis:
    """The axis that a prediction or a range speaks of."""
    return _LINE if isinstance(said, Sets) or said.ndim == 1 else _CLASSES


def _alike(first: Tensor, other: Tensor, what: str) -> Tensor:
    if other.shape != first.shape:
        shapes = f"{tuple(first.shape)} and {tuple(other.shape)}"
        raise KnowledgeError(f"all {what} must have the same shape, got {shapes}")
    return other.to(first.device)


def _scatter(said: Tensor, rows: Tensor, instead: float) -> Tensor:
    shape = (len(rows), *said.shape[1:])
    found = torch.full(shape, instead, dtype=said.dtype, device=said.device)
    found[rows] = said
    return found
