"""Per-feature standardisation from sums, so that it can be learned without sharing rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .tree import Params


@dataclass(frozen=True, eq=False)
class Scaler:
    """x -> (x - shift) / spread, feature by feature."""

    shift: Tensor  # (*features)
    spread: Tensor  # (*features), positive

    def __call__(self, x: Tensor) -> Tensor:
        return ((x.double() - self.shift) / self.spread).to(x.dtype)

    @staticmethod
    def of(x: Tensor) -> "Scaler":
        return from_moments(moments(x))


def moments(x: Tensor) -> Params:
    """Row count, sums and sums of squares in float64: what a site gives away for a scaling."""
    wide = x.double()
    return {
        "rows": torch.tensor(float(len(x)), dtype=torch.float64),
        "sum": wide.sum(0),
        "squares": wide.square().sum(0),
    }


def from_moments(total: Params) -> Scaler:
    """The scaler of pooled rows, from the sum (or the mean) of the sites' moments."""
    rows = total["rows"]
    shift = total["sum"] / rows
    variance = (total["squares"] / rows - shift.square()).clamp(min=0)
    spread = variance.sqrt()
    # a constant feature carries nothing: leave it at 0 rather than divide by rounding error
    constant = variance <= 1e-12 * (shift.square() + 1e-30)
    return Scaler(shift, torch.where(constant, 1.0, spread))
