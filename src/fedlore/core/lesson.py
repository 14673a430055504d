"""What training reads: rows with everything the loss needs, worked out once."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import FedloreError
from .examples import Examples
from .inject import odds_of, pair_of, slope


@dataclass(frozen=True, eq=False)
class Lesson:
    """Training rows. The network hears `prior` and `allowed`; the loss uses the rest."""

    x: Tensor  # (n, *features), scaled
    y: Tensor  # (n, 1)  class index
    target: Tensor  # (n, k)  the same, one-hot; or a distribution within the range
    prior: Tensor | None = None  # (n, k)
    allowed: Tensor | None = None  # (n, k)
    wall: Tensor | None = None  # (n, k)  0 inside the range of the loss, log ε or -inf outside
    pair: Tensor | None = None  # (n, 2, k)  in place of the wall where an expert is trusted
    odds: Tensor | None = None  # (n, k)  beside the wall for a soft target

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Tensor | slice) -> "Lesson":
        return self._each(lambda t: t[rows])

    def batches(self, size: int) -> Iterator["Lesson"]:
        """Consecutive parts of `size` rows, the last one smaller; views, no copies."""
        parts = [None if t is None else torch.split(t, size) for t in vars(self).values()]
        for i in range(math.ceil(len(self) / size)):
            yield Lesson(*(None if part is None else part[i] for part in parts))  # type: ignore[arg-type]

    def error(self, logits: Tensor, plain: float = 0.0) -> Tensor:
        """The slope of each row's loss at these logits, (n, k); see inject.slope."""
        return slope(
            logits, self.target, wall=self.wall, pair=self.pair, odds=self.odds, plain=plain
        )

    def to(self, device: torch.device | str) -> "Lesson":
        return self._each(lambda t: t.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Lesson":
        def apply(t: Tensor | None) -> Tensor | None:
            return None if t is None else change(t)

        return Lesson(
            change(self.x),
            change(self.y),
            change(self.target),
            apply(self.prior),
            apply(self.allowed),
            apply(self.wall),
            apply(self.pair),
            apply(self.odds),
        )


def teach(
    data: Examples,
    classes: int,
    *,
    trust: float = 0.0,
    outside: str = "error",
    heard: bool = True,
    floor: float = 0.0,
) -> Lesson:
    """Annotated examples as a lesson, with the policy for labels outside the range applied.

    `heard` keeps what a hearing network gets as input; a deaf one has no use for it. With a
    `floor` ε the loss gives classes outside the range a weight of ε in place of none, so that
    training leaves no exact zeros to be read from an upload; prediction knows no floor.
    """
    if data.y is None:
        raise FedloreError("training needs labels, these examples have none")
    if trust >= 1.0:
        raise FedloreError(
            f"trust must be below 1 in training (nothing is left to learn), got {trust:g}"
        )
    if not 0.0 <= floor < 1.0:
        raise FedloreError(f"floor must lie in [0, 1), got {floor:g}")
    if outside == "drop" and data.allowed is not None:
        data = _inside(data, data.allowed.gather(-1, data.y.unsqueeze(-1)).squeeze(-1))
    assert data.y is not None  # kept by indexing
    x, y = data.x, data.y.unsqueeze(-1)
    wall = within = None
    if data.allowed is not None:
        within = data.allowed.scatter(-1, y, True) if outside == "widen" else data.allowed
        _refuse_outside(within, y)
        height = math.log(floor) if floor > 0 else -math.inf
        wall = x.new_zeros(within.shape).masked_fill_(~within, height)
    target = x.new_zeros(len(x), classes).scatter_(-1, y, 1.0)
    if data.target is not None:
        target = _restrict(data.target.to(x.dtype), within, target)
    pair = odds = None
    if data.prior is not None and trust > 0:
        if data.target is None:
            pair = pair_of(target, odds_of(data.prior, y, trust).to(x.dtype), wall)
            wall = None
        else:
            odds = odds_of(data.prior, None, trust).to(x.dtype)
    return Lesson(
        x,
        y,
        target=target,
        prior=data.prior if heard else None,
        allowed=data.allowed if heard else None,
        wall=wall,
        pair=pair,
        odds=odds,
    )


def _inside(data: Examples, inside: Tensor) -> Examples:
    """The rows whose label lies in the range."""
    if not inside.any():
        raise FedloreError("every label is outside its range: nothing is left to learn")
    return data[inside]


def _restrict(target: Tensor, within: Tensor | None, hard: Tensor) -> Tensor:
    """A soft target inside the range, rows sum to 1; where nothing is left of it, the label."""
    if within is not None:
        target = target.masked_fill(~within, 0.0)
    total = target.sum(-1, keepdim=True)
    return torch.where(total > 0, target / torch.where(total > 0, total, 1.0), hard)


def _refuse_outside(within: Tensor, y: Tensor) -> None:
    outside = ~within.gather(-1, y).squeeze(-1)
    if outside.any():
        raise FedloreError(
            f"{int(outside.sum())} labels lie outside their range, first row "
            f"{int(outside.nonzero()[0])}"
        )
