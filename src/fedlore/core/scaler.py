"""Per-feature standardisation from sums, so that it can be learned without sharing rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .inputs import Inputs
from .tree import Params

__all__ = ["Scaler", "from_moments", "moments"]


@dataclass(frozen=True, eq=False)
class Scaler:
    """x -> (x - shift) / spread, feature by feature."""

    shift: Tensor  # (*features)
    spread: Tensor  # (*features), positive
    inputs: Inputs | None = None  # where features are not plain numbers: shift is then of these

    def __call__(self, x: Tensor) -> Tensor:
        x = self.encode(x)
        return ((x.double() - self.shift) / self.spread).to(x.dtype)

    def encode(self, x: Tensor) -> Tensor:
        """Rows in raw units without holes and names; those that are so already stay."""
        if self.inputs is None:
            return x
        wider = self.inputs.width > len(self.inputs.features)
        return x if wider and x.shape[1] == len(self.shift) else self.inputs.encode(x)

    def tensors(self) -> Params:
        """All that was learned, by name."""
        found = {"shift": self.shift, "spread": self.spread}
        return found if self.inputs is None else found | {"fills": self.inputs.fills}

    def widen(self, columns: int) -> "Scaler":
        """The same with more columns behind it that are on their scale already."""
        none = self.shift.new_zeros(columns)
        shift, spread = torch.cat([self.shift, none]), torch.cat([self.spread, none + 1.0])
        return Scaler(shift, spread, self.inputs)

    @staticmethod
    def of(x: Tensor) -> "Scaler":
        return from_moments(moments(x))

    @staticmethod
    def read(tensors: Params, inputs: Inputs | None) -> "Scaler":
        """What `tensors` gave, for rows of these inputs."""
        if inputs is not None and "fills" in tensors:
            inputs = inputs.with_fills(tensors["fills"].tolist())
        return Scaler(tensors["shift"], tensors["spread"], inputs)


def leave_unscaled(inputs: Inputs) -> Scaler:
    """Inputs as they are, where nothing is scaled."""
    zeros = torch.zeros(inputs.width, dtype=torch.float64)
    return Scaler(zeros, zeros + 1.0, inputs)


def moments(x: Tensor) -> Params:
    """Row count, sums and sums of squares in float64: what a site gives away for a scaling."""
    wide = x.double()
    return {
        "rows": torch.tensor(float(len(x)), dtype=torch.float64),
        "sum": wide.sum(0),
        "squares": wide.square().sum(0),
    }


def from_moments(total: Params, inputs: Inputs | None = None) -> Scaler:
    """The scaler of pooled rows, from the sum (or the mean) of the sites' moments."""
    rows = total["rows"]
    if inputs is not None:  # a value that nobody has: what was there before the sums stands for it
        rows = torch.where(rows > 0, rows, 1.0)
    shift = total["sum"] / rows
    variance = (total["squares"] / rows - shift.square()).clamp(min=0)
    spread = variance.sqrt()
    # a constant feature carries nothing: leave it at 0 rather than divide by rounding error
    constant = variance <= 1e-12 * (shift.square() + 1e-30)
    if inputs is not None:
        known = torch.where(total["rows"] > 0, shift, torch.nan)
        inputs = inputs.fill_from(known, total.get("histograms"))
    return Scaler(shift, torch.where(constant, 1.0, spread), inputs)
