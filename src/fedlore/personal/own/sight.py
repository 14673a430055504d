"""Rows as a site's own learners see them: the features, and the expert's word in few numbers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...answers import Measured
from ...core.examples import Examples

HEARD_OF_ORDER = 3  # numbers of an expert who names a place: it, middle and half width of the range


@dataclass(frozen=True, eq=False)
class Sight:
    """Features in raw units and what the expert says, both in float32: trees compare in it."""

    x: Tensor  # (n, d) float32
    heard: Tensor  # (n, h) float32
    start: Tensor  # (n,) float64  the expert's number or place; 0 where classes have no order

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Tensor) -> "Sight":
        return Sight(self.x[rows], self.heard[rows], self.start[rows])

    def inputs(self, *, hears: bool) -> Tensor:
        """The columns of a learner that hears the expert or does not, (n, i) float32."""
        return torch.cat([self.x, self.heard], 1) if hears else self.x

    def withhold(self, signs: Tensor) -> "Sight":
        """The same rows with nothing in the columns whose sign is NaN, so that nobody uses them."""
        lost = signs.isnan()
        d = self.x.shape[1]
        x, heard = (
            part.masked_fill(away, 0.0)
            for part, away in ((self.x, lost[:d]), (self.heard, lost[d:]))
        )
        return Sight(x, heard, self.start)


def see_numbers(known: Measured) -> Sight:
    """Rows with a number to predict: the expert's number, middle and half width of the range.

    Where the expert is silent the middle of the range stands for the number, and where there is no
    range the bounds are one.
    """
    bins = known.bins
    low = torch.full((len(known),), bins.lower, dtype=torch.float64, device=known.x.device)
    high = torch.full_like(low, bins.upper)
    if known.sets is not None:
        low = known.sets.lower.nan_to_num(nan=bins.upper).amin(1)
        high = known.sets.upper.nan_to_num(nan=bins.lower).amax(1)
    return _see(known.x, known.said, low, high)


def see_order(known: Examples, classes: int) -> Sight:
    """Rows of ordered classes: the place of the expert's class, middle and half width of the range.

    A soft prior names its mean place.
    """
    places = torch.arange(classes, dtype=torch.float64, device=known.x.device)
    low, high = places.new_zeros(len(known)), places.new_full((len(known),), classes - 1.0)
    if known.allowed is not None:
        low = torch.where(known.allowed, places, classes - 1.0).amin(1)
        high = torch.where(known.allowed, places, 0.0).amax(1)
    said = None
    if known.prior is not None:
        mass = known.prior.double()
        said = mass @ places / mass.sum(1)  # 0 / 0: NaN where the expert is silent
    return _see(known.x, said, low, high)


def see_classes(known: Examples) -> Sight:
    """Rows of classes without order: the rows of prior and range as they are."""
    parts = [t.float() for t in (known.prior, known.allowed) if t is not None]
    x = _flat(known.x)
    heard = torch.cat(parts, 1) if parts else x.new_zeros(len(x), 0)
    return Sight(x, heard, torch.zeros(len(x), dtype=torch.float64, device=x.device))


def _see(x: Tensor, said: Tensor | None, low: Tensor, high: Tensor) -> Sight:
    middle, half = (low + high) / 2, (high - low) / 2
    start = middle if said is None else torch.where(said.isnan(), middle, said)
    return Sight(_flat(x), torch.stack([start, middle, half], 1).float(), start)


def _flat(x: Tensor) -> Tensor:
    return x.flatten(1).float()
