"""The model of one round as a member of a site's mixture: rows in raw units, inside the range."""

from dataclasses import dataclass

from torch import Tensor

from ..answers import Measured
from ..core.examples import Examples
from ..core.foresight import Foresight
from ..core.scaler import Scaler
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

    def number(self, known: Measured) -> Tensor:
        x = known.x if self.scaler is None else self.scaler(known.x)
        place, _ = self.foresight.normal(x, known.between, known.allowed)
        return within(known.bins.numbers(place), known)
