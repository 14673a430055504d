"""The model of one round as a member of a site's mixture: rows in raw units, inside the range."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.examples import Examples
from ..core.foresight import Foresight
from ..core.scaler import Scaler
from ..knowledge.numbers.bins import Bins
from ..knowledge.numbers.told import Told
from .own.members import mask_logits, within


@dataclass(frozen=True, eq=False)
class Foreseen:
    """The one-round model over ordered classes."""

    foresight: Foresight
    scaler: Scaler | None
    name: str = "exact"

    def log_probs(self, known: Examples) -> Tensor:
        x = known.x if self.scaler is None else self.scaler(known.x)
        return mask_logits(self.foresight.logits(x, known.prior, known.allowed), known.allowed)


@dataclass(frozen=True, eq=False)
class ForeseenNumber:
    """The one-round model of a number: a place among the bins, read between their edges."""

    foresight: Foresight
    scaler: Scaler | None
    name: str = "exact"

    def number(self, known: Told) -> Tensor:
        x = known.x if self.scaler is None else self.scaler(known.x)
        place, _ = self.foresight.normal(x, known.prior, known.allowed)
        return within(number_at(place, known.bins), known)


def number_at(place: Tensor, bins: Bins) -> Tensor:
    """The number at a place on the scale of the bins, (n,): middles of bins are whole places.

    >>> number_at(torch.tensor([0.0, 0.5, 9.0]), Bins(0.0, 10.0, 2)).tolist()
    [2.5, 5.0, 10.0]
    """
    edges = torch.tensor(bins.edges, dtype=torch.float64, device=place.device)
    at = (place.double() + 0.5).nan_to_num(nan=0.0).clamp(0.0, float(bins.k))
    low = at.floor().clamp(max=bins.k - 1).long()
    return edges[low] + (at - low) * (edges[low + 1] - edges[low])
