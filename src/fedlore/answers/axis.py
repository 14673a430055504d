"""The axis of answers: k classes, or the line of numbers. What differs between them stands here.

A prediction says for n rows a distribution (n, k) or a number (n,); a range says which classes
are possible, (n, k) bool, or which numbers, `Sets`. Both axes have the same algebra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..core.examples import Examples
from ..core.tensors import torch
from ..errors import FedloreError, KnowledgeError
from .bins import Bins
from .measured import Measured
from .sets import Sets

if TYPE_CHECKING:
    from torch import Tensor

Asked = tuple[Literal["prediction", "number"], Literal["range", "set"]]
Allowed = Any  # of n rows: bool (n, k), or Sets


@dataclass(frozen=True)
class Classes:
    """One of k classes, from worst to best where they have an order.

    `prediction` to `fill_whole` are the algebra of what experts say, `check_prediction` to
    `silence` the door where it is checked, the rest is about rows, `Examples` or `Measured`.
    """

    names: tuple[str, ...] = ()
    ordered: bool = False

    word: ClassVar[str] = "class"
    asked: ClassVar[Asked] = ("prediction", "range")
    conflicts: ClassVar[tuple[str, ...]] = ("abstain", "restrict", "error")
    empties: ClassVar[tuple[str, ...]] = ("error", "first", "all")

    def prediction(self, predicted: Tensor, like: Tensor) -> Tensor:
        """What an expert said of the rows `like`, as floating point beside them."""
        predicted = predicted if predicted.is_floating_point() else predicted.float()
        return predicted.to(like.device)

    def range(self, allowed: Tensor, like: Tensor) -> Allowed:
        """What a range said of the rows `like`, as the algebra takes it, beside them."""
        return allowed.bool().to(like.device)

    def speaks(self, predicted: Tensor) -> Tensor:
        """Rows on which an expert says something, (n,) bool."""
        return (predicted != 0).any(1)

    def choose(self, rows: Tensor, predicted: Tensor, other: Tensor) -> Tensor:
        """One prediction where rows (n,) are true, another elsewhere."""
        return torch.where(rows.unsqueeze(1), predicted, _alike(predicted, other, "predictions"))

    def average(self, predictions: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        """The weighted mean of those who speak, (n, k)."""
        total = predictions[0] * weights[0]
        for one, weight in zip(predictions[1:], weights[1:], strict=True):
            total = total + _alike(predictions[0], one, "predictions") * weight
        spoken = total.sum(1, keepdim=True)  # a row of weight w sums to w, or to 0
        return total / torch.where(spoken > 0, spoken, 1.0)

    def fill_silence(self, predicted: Tensor, rows: Tensor) -> Tensor:
        """A prediction about those of n rows that are true; silence on the others."""
        return _scatter(predicted, rows, 0)

    def whole(self, like: Tensor) -> Allowed:
        """Every answer, for as many rows as a range has."""
        return torch.ones_like(like)

    def meet(self, one: Tensor, other: Tensor) -> Allowed:
        """What both allow."""
        return one & _alike(one, other, "ranges")

    def join(self, one: Tensor, other: Tensor) -> Allowed:
        """What one of them allows."""
        return one | _alike(one, other, "ranges")

    def empty(self, allowed: Tensor) -> Tensor:
        """Rows that allow nothing, (n,) bool."""
        return ~allowed.any(1)

    def where(self, rows: Tensor, one: Tensor, other: Tensor) -> Allowed:
        """One range where rows (n,) are true, another elsewhere."""
        return torch.where(rows.unsqueeze(1), one, other)

    def fill_whole(self, allowed: Tensor, rows: Tensor) -> Allowed:
        """A range of those of n rows that are true; every answer on the others."""
        return _scatter(allowed, rows, 1)

    def check_prediction(self, predicted: Tensor, n: int) -> Tensor:
        """What a P-KM says of n rows, or an error where it says what it must not."""
        self._check_shape("P-KM", predicted, n)
        rows = predicted if predicted.is_floating_point() else predicted.float()
        total = rows.sum(1)
        legal = (rows >= 0).all(1) & ((total == 0) | ((total - 1).abs() <= 1e-4))
        if not legal.all():
            row = int((~legal).nonzero()[0])
            raise KnowledgeError(
                "a P-KM row must be one-hot, a distribution, or zero to abstain: "
                f"row {row} is {[round(v, 4) for v in rows[row].tolist()]}",
                row=row,
            )
        return rows

    def check_range(self, allowed: Tensor, x: Tensor, opened: Tensor | None) -> Allowed:
        """What an R-KM says of rows; an empty one is refused, or opened with the rows (n,)."""
        self._check_shape("R-KM", allowed, len(x))
        if allowed.dtype != torch.bool:
            if not ((allowed == 0) | (allowed == 1)).all():
                raise KnowledgeError("an R-KM row must hold booleans (or 0 and 1)")
            allowed = allowed.bool()
        none = self.empty(allowed)
        if none.any():
            row = int(none.nonzero()[0])
            raise KnowledgeError(
                f"an R-KM row must allow at least one class: {int(none.sum())} rows are empty, "
                f"first row {row}",
                row=row,
            )
        return allowed

    def _check_shape(self, who: str, rows: Tensor, n: int) -> None:
        k = len(self.names)
        if rows.ndim != 2 or rows.shape[0] != n or (k and k != rows.shape[1]):
            wanted = f"({n}, {k or 'k'})"
            raise KnowledgeError(f"the {who} must return shape {wanted}, got {tuple(rows.shape)}")

    def find_conflicts(self, predicted: Tensor, allowed: Tensor | None) -> Tensor:
        """Rows on which a prediction leaves its range, (n,) bool."""
        if allowed is None:
            return torch.zeros(len(predicted), dtype=torch.bool, device=predicted.device)
        if predicted.shape != allowed.shape:
            raise KnowledgeError(
                f"the P-KM knows {predicted.shape[1]} classes, the R-KM {allowed.shape[1]}"
            )
        return ((predicted > 0) & ~allowed).any(1)

    def move_inside(self, predicted: Tensor, allowed: Tensor | None) -> Tensor:
        """A prediction restricted to its range, or moved to the nearest number of it."""
        inside = predicted if allowed is None else predicted * allowed
        left = inside.sum(1, keepdim=True)  # nothing left: the expert is silent
        return inside / torch.where(left > 0, left, 1.0)

    def silence(self, predicted: Tensor, rows: Tensor) -> Tensor:
        """The prediction without those rows (n,) that are true."""
        return predicted.masked_fill(rows.unsqueeze(1), 0.0)

    def miss(self, predicted: Tensor, y: Tensor) -> Tensor:
        """How wrong a prediction is about each label, (n,) float64; of classes 0 or 1."""
        return (predicted.argmax(1) != y).double()

    def find_outside(self, allowed: Tensor, y: Tensor) -> Tensor:
        """Labels outside their range, (n,) bool; one that is no class is."""
        return find_outside(allowed, y)

    def rows(self, x: Tensor) -> Examples:
        """Rows without labels."""
        return Examples(x)

    def annotate(
        self, rows: Examples, predicted: Tensor | None, allowed: Tensor | None
    ) -> Examples:
        """Rows with what knowledge says of them."""
        return replace(rows, prior=predicted, allowed=allowed)

    def read(self, rows: Any) -> tuple[Tensor | None, Any]:
        """What knowledge said of annotated rows: the prediction, the range."""
        return rows.prior, rows.allowed

    def admit(self, rows: Examples, outside: str) -> Examples:
        """Annotated rows as training may have them, by the policy on labels outside the range."""
        if outside != "error" or rows.y is None or rows.allowed is None:
            return rows  # rows to drop are known by their range
        out = find_outside(rows.allowed, rows.y)
        if out.any():
            row = int(out.nonzero()[0])
            raise KnowledgeError(
                f"{int(out.sum())} labels lie outside their range, first row {row} "
                "(policy outside = error; widen and drop are the alternatives)",
                row=row,
            )
        return rows


@dataclass(frozen=True)
class Line:
    """A number within the bounds of its bins, in some unit; any number where none are given."""

    bins: Bins | None = None
    unit: str = ""

    word: ClassVar[str] = "number"
    asked: ClassVar[Asked] = ("number", "set")
    conflicts: ClassVar[tuple[str, ...]] = ("abstain", "project", "error")
    empties: ClassVar[tuple[str, ...]] = ("error", "all")

    def prediction(self, predicted: Tensor, like: Tensor) -> Tensor:
        if predicted.shape != (len(like),) or not predicted.is_floating_point():
            raise KnowledgeError(
                f"a formula must give one number per row, shape ({len(like)},): got "
                f"{predicted.dtype} of shape {tuple(predicted.shape)}"
            )
        return predicted.double().to(like.device)

    def range(self, allowed: Sets, like: Tensor) -> Allowed:
        return allowed.to(like.device)

    def speaks(self, predicted: Tensor) -> Tensor:
        return predicted.isfinite()

    def choose(self, rows: Tensor, predicted: Tensor, other: Tensor) -> Tensor:
        return torch.where(rows, predicted, other)

    def average(self, predictions: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        raise KnowledgeError("numbers are not averaged: name the experts in order")

    def fill_silence(self, predicted: Tensor, rows: Tensor) -> Tensor:
        return _scatter(predicted, rows, torch.nan)

    def whole(self, like: Sets) -> Allowed:
        low, high = (-torch.inf, torch.inf) if self.bins is None else self.bins.bounds
        return Sets.whole(len(like), low, high, like=like.lower)

    def meet(self, one: Sets, other: Sets) -> Allowed:
        return one.meet(other)

    def join(self, one: Sets, other: Sets) -> Allowed:
        return one.join(other)

    def empty(self, allowed: Sets) -> Tensor:
        return allowed.empty

    def where(self, rows: Tensor, one: Sets, other: Sets) -> Allowed:
        return one.only(rows).join(other.only(~rows))

    def fill_whole(self, allowed: Sets, rows: Tensor) -> Allowed:
        width = allowed.lower.shape[1]
        none = torch.tensor([torch.inf] + [torch.nan] * (width - 1), dtype=torch.float64)
        low, high = (end.to(rows.device).repeat(len(rows), 1) for end in (-none, none))
        low[rows], high[rows] = allowed.lower, allowed.upper
        return Sets(low, high)

    def check_prediction(self, predicted: Tensor, n: int) -> Tensor:
        if predicted.shape != (n,) or not predicted.is_floating_point():
            raise KnowledgeError(
                f"the P-KM must give one number per row, shape ({n},): got "
                f"{predicted.dtype} of shape {tuple(predicted.shape)}"
            )
        wide = predicted.double()
        return torch.where(wide.isfinite(), wide, torch.nan)  # undefined: the expert is silent

    def check_range(self, allowed: Sets, x: Tensor, opened: Tensor | None) -> Allowed:
        if not isinstance(allowed, Sets) or len(allowed) != len(x):
            rows = f" of {len(allowed)} rows" if hasattr(allowed, "__len__") else ""
            found = f"{type(allowed).__name__}{rows}"
            raise KnowledgeError(f"the R-KM must give Sets for {len(x)} rows, got {found}")
        low, high = self._cut.bounds
        inside = allowed.to(x.device).clip(low, high)
        none = inside.empty
        if opened is not None:  # where a value is missing nothing may be left, as well
            none = none | opened
            return self.where(none, self.whole(inside), inside) if none.any() else inside
        if none.any():
            row = int(none.nonzero()[0])
            ends = f"{allowed.lower[row].tolist()} to {allowed.upper[row].tolist()}"
            raise KnowledgeError(
                f"a set must hold a number in [{low!r}, {high!r}]: {int(none.sum())} do not, "
                f"first row {row} is {ends} (policy empty = error; all is the alternative)",
                row=row,
            )
        return inside

    def find_conflicts(self, predicted: Tensor, allowed: Sets | None) -> Tensor:
        return ~predicted.isnan() & ~self._limits(predicted, allowed).holds(predicted)

    def move_inside(self, predicted: Tensor, allowed: Sets | None) -> Tensor:
        return self._limits(predicted, allowed).nearest(predicted)

    def _limits(self, predicted: Tensor, allowed: Sets | None) -> Sets:
        return (
            Sets.whole(len(predicted), *self._cut.bounds, like=predicted)
            if allowed is None
            else allowed
        )

    def silence(self, predicted: Tensor, rows: Tensor) -> Tensor:
        return predicted.masked_fill(rows, torch.nan)

    def miss(self, predicted: Tensor, y: Tensor) -> Tensor:
        return (predicted - y).abs().double()

    def find_outside(self, allowed: Sets, y: Tensor) -> Tensor:
        return ~allowed.holds(y)

    def rows(self, x: Tensor) -> Measured:
        return Measured(x)

    def annotate(self, rows: Measured, predicted: Tensor | None, allowed: Sets | None) -> Measured:
        return replace(rows, said=predicted, sets=allowed, cut=self._cut)

    def read(self, rows: Any) -> tuple[Tensor | None, Any]:
        return rows.said, rows.sets

    def admit(self, rows: Measured, outside: str) -> Measured:
        if rows.y is None:
            return rows
        rows.bins.encode(rows.y)  # refuses what is not finite or beyond the bounds
        out = rows.missed
        if outside == "widen" or not out.any():
            return rows
        if outside == "error":
            row = int(out.nonzero()[0])
            raise KnowledgeError(
                f"{int(out.sum())} labels lie outside their set, first row {row} with "
                f"{float(rows.y[row])!r} (policy outside = error; widen and drop are the "
                "alternatives)",
                row=row,
            )
        if out.all():
            raise FedloreError("every label is outside its set: nothing is left to learn")
        return rows[~out]

    @property
    def _cut(self) -> Bins:
        if self.bins is None:
            raise KnowledgeError(
                "knowledge about a number needs bins: its bounds, cut into classes"
            )
        return self.bins


Axis = Classes | Line

_CLASSES, _LINE = Classes(), Line()


def axis_of(answer: Allowed) -> Axis:
    """The axis that a prediction or a range speaks of."""
    return _LINE if isinstance(answer, Sets) or answer.ndim == 1 else _CLASSES


def find_outside(allowed: Tensor, y: Tensor) -> Tensor:
    """Labels outside their range, (n, k) and (n,) -> (n,) bool; one that is no class is."""
    legal = (y >= 0) & (y < allowed.shape[1])
    safe = y.clamp(0, allowed.shape[1] - 1)
    return ~(allowed.gather(1, safe.unsqueeze(1)).squeeze(1) & legal)


def find_favoured(prior: Tensor) -> Tensor:
    """The classes that an expert holds to be most likely, (n, k) bool; none where he is silent."""
    return (prior > 0) & (prior >= prior.amax(1, keepdim=True) - 1e-6)


def name_class(favoured: Tensor) -> Tensor:
    """The class that he names, (n,); -1 where he is silent or holds several equally likely."""
    return torch.where(favoured.sum(1) == 1, favoured.double().argmax(1), -1)


def share_right(favoured: Tensor, y: Tensor) -> Tensor:
    """How far he is right about each label, (n,); of several that he favours one is as good."""
    return (~find_outside(favoured, y)).float() / favoured.sum(1).clamp(min=1)


def _alike(first: Tensor, other: Tensor, what: str) -> Tensor:
    if other.shape != first.shape:
        shapes = f"{tuple(first.shape)} and {tuple(other.shape)}"
        raise KnowledgeError(f"all {what} must have the same shape, got {shapes}")
    return other.to(first.device)


def _scatter(predicted: Tensor, rows: Tensor, instead: float) -> Tensor:
    shape = (len(rows), *predicted.shape[1:])
    found = torch.full(shape, instead, dtype=predicted.dtype, device=predicted.device)
    found[rows] = predicted
    return found
