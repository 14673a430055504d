"""Sets of numbers, one for each row: closed unions of intervals, what an R-KM says of a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.tensors import torch
from ..errors import KnowledgeError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Sets:
    """For each row a closed set of numbers, S(x): disjoint intervals in increasing order.

    Made by `Sets.of`. A row may have fewer intervals than others (NaN), or none: it is empty.
    """

    lower: Tensor  # (n, s) float64, NaN where there is no interval
    upper: Tensor  # (n, s) float64

    @staticmethod
    def of(lower: Tensor, upper: Tensor) -> Sets:
        """Sets from the ends of intervals, (n,) or (n, s), in any order; both NaN is no interval.

        Ends belong to the set. Intervals that overlap or touch become one.

        >>> s = Sets.of(torch.tensor([[4., 1., 2.]]), torch.tensor([[5., 2., 3.]]))
        >>> s.lower.tolist(), s.upper.tolist()
        ([[1.0, 4.0]], [[3.0, 5.0]])
        """
        if lower.shape != upper.shape or lower.ndim not in (1, 2):
            raise KnowledgeError(
                "intervals must have shape (n,) or (n, s) on both sides, got "
                f"{tuple(lower.shape)} and {tuple(upper.shape)}"
            )
        low, high = (t.double() if t.ndim == 2 else t.double().unsqueeze(1) for t in (lower, upper))
        if low.shape[1] == 0:  # no intervals at all: a column that says so
            low = high = low.new_full((len(low), 1), torch.nan)
        # NaN on one side only compares false too
        wrong = (~(low <= high) & ~(low.isnan() & high.isnan())).any(1)
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise KnowledgeError(
                f"an interval must have lower <= upper: {int(wrong.sum())} rows do not, first row "
                f"{row} with {low[row].tolist()} and {high[row].tolist()}"
            )
        return Sets(*_tidy(low, high))

    @staticmethod
    def whole(rows: int, low: float, high: float, *, like: Tensor | None = None) -> Sets:
        """The same interval for every row."""
        device = None if like is None else like.device
        ends = (torch.full((rows, 1), v, dtype=torch.float64, device=device) for v in (low, high))
        return Sets.of(*ends)

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, rows: Tensor | slice) -> Sets:
        return Sets(self.lower[rows], self.upper[rows])

    def to(self, device: torch.device | str) -> Sets:
        return Sets(self.lower.to(device), self.upper.to(device))

    @property
    def empty(self) -> Tensor:
        """Rows without any number, (n,) bool."""
        return self.lower.isnan().all(1)

    @property
    def length(self) -> Tensor:
        """The length of each set, gaps not counted, (n,)."""
        return torch.where(self.lower.isnan(), 0.0, self.upper - self.lower).sum(1)

    def holds(self, values: Tensor) -> Tensor:
        """Whether each row's number lies in its set, ends included, (n,) -> (n,) bool."""
        v = values.double().unsqueeze(1)
        return ((self.lower <= v) & (v <= self.upper)).any(1)

    def nearest(self, values: Tensor) -> Tensor:
        """The number of each set that is nearest to the row's, (n,); of two the lower one."""
        return nearest(self.lower, self.upper, values.double())

    def only(self, rows: Tensor) -> Sets:
        """The sets of those rows that are true, (n,); the others become empty."""
        gone = ~rows.unsqueeze(1)
        return Sets(*(ends.masked_fill(gone, torch.nan) for ends in (self.lower, self.upper)))

    def clip(self, low: float, high: float) -> Sets:
        """What of each set lies in [low, high]; rows may become empty."""
        return self.meet(Sets.whole(len(self), low, high, like=self.lower))

    def meet(self, other: Sets) -> Sets:
        """What lies in both sets; rows may become empty."""
        low = torch.maximum(self.lower.unsqueeze(2), other.lower.unsqueeze(1)).flatten(1)
        high = torch.minimum(self.upper.unsqueeze(2), other.upper.unsqueeze(1)).flatten(1)
        gone = ~(low <= high)
        return Sets(*_tidy(low.masked_fill(gone, torch.nan), high.masked_fill(gone, torch.nan)))

    def join(self, other: Sets) -> Sets:
        """What lies in one of the sets or in both."""
        return Sets(
            *_tidy(torch.cat([self.lower, other.lower], 1), torch.cat([self.upper, other.upper], 1))
        )


def nearest(lower: Tensor, upper: Tensor, values: Tensor) -> Tensor:
    """The nearest number of ordered intervals, (n, s) and (n,) -> (n,); of two the lower one.

    The result is the number itself or one of the very ends, so no rounding can leave the set.
    """
    v = values.unsqueeze(1)
    candidates = torch.minimum(torch.maximum(v, lower), upper)  # NaN where there is no interval
    away = torch.where(candidates.isnan(), torch.inf, (candidates - v).abs())
    return candidates.gather(1, away.argmin(1, keepdim=True)).squeeze(1)


def _tidy(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Intervals in order, those that overlap or touch made one, spare columns dropped."""
    if low.shape[1] == 1:
        return low, high
    order = torch.where(low.isnan(), torch.inf, low).argsort(dim=1, stable=True)
    low, high = low.gather(1, order), high.gather(1, order)
    none = low.isnan()
    reach = high.masked_fill(none, -torch.inf).cummax(1).values
    starts = ~none
    starts[:, 1:] &= low[:, 1:] > reach[:, :-1]
    group = (starts.cumsum(1) - 1).clamp(min=0)  # the interval that each one becomes part of
    width = int(starts.sum(1).max()) if len(low) else 1
    lowest = torch.full_like(low, torch.inf).scatter_reduce(
        1, group, low.masked_fill(none, torch.inf), "amin"
    )
    highest = torch.full_like(low, -torch.inf).scatter_reduce(
        1, group, high.masked_fill(none, -torch.inf), "amax"
    )
    absent = torch.arange(low.shape[1], device=low.device) >= starts.sum(1, keepdim=True)
    lowest, highest = (t.masked_fill(absent, torch.nan) for t in (lowest, highest))
    return lowest[:, : max(width, 1)], highest[:, : max(width, 1)]
