"""The law of nature of the simulated plants, which no plant knows and every plan is judged by."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .experts import COKE, Expert

UNSEEN = 3.6  # points of CSR at which all that lies beyond the expert's equation saturates
NOISE = 1.2  # sd of the test, which is then cut at two of them
BOUND = UNSEEN + 2.0 * NOISE  # points of CSR that the equations miss at most: 6
_KEPT = math.erf(math.sqrt(2.0))  # the share of a normal within two sds


@dataclass(frozen=True)
class PlantLaw:
    """CSR of a blend at one plant: never farther than the bound from what its expert says."""

    expert: Expert
    practice: float  # points that ovens and practice add
    unseen: float = UNSEEN

    def mean(self, x: Tensor) -> Tensor:
        """CSR without the noise of the test, (n, 17) -> (n,)."""
        told = self._told(x)
        return told + self._beyond(x, told)

    def bake(self, x: Tensor, draw: torch.Generator) -> Tensor:
        """One test of each blend, (n,)."""
        told = self._told(x)
        uniform = torch.rand(len(x), generator=draw, dtype=torch.float64)
        noise = NOISE * math.sqrt(2.0) * torch.erfinv(_KEPT * (2.0 * uniform - 1.0))
        edge = (
            self.unseen + 2.0 * NOISE - 1e-6
        )  # a hair inside, so that no rounding leaves the range
        return told + (self._beyond(x, told) + noise).clamp(-edge, edge)

    def chance(self, x: Tensor, csr: float) -> Tensor:
        """P(CSR >= csr) of one test, (n,)."""
        z = ((self.mean(x) - csr) / NOISE).clamp(-2.0, 2.0)
        lowest = torch.special.ndtr(torch.full_like(z, -2.0))
        found: Tensor = (torch.special.ndtr(z) - lowest) / _KEPT
        return found

    def _told(self, x: Tensor) -> Tensor:
        return self.expert(x[:, self.expert.equation.columns])

    def _beyond(self, x: Tensor, told: Tensor) -> Tensor:
        missed = strength(x.double()) + self.practice - told
        return self.unseen * torch.tanh(missed / self.unseen)


def strength(x: Tensor) -> Tensor:
    """CSR in average practice, from all 17 features, (n, 17) -> (n,)."""
    t = dict(zip(COKE.names, x.unbind(1), strict=True))
    rank = t["Ro"] - 1.20
    csr = 60.7 + 48.6 * rank - 88.6 * rank.square()
    csr = csr + 3.6 * (t["logMF"] - 2.84) - 6.9 * (t["MBI"] - 1.70)
    lean, rich = (25.0 - t["inerts"]).clamp(min=0.0), (t["inerts"] - 35.0).clamp(min=0.0)
    csr = csr - 25.0 * (t["Ro_sd"] - 0.18) - 0.4 * lean - 0.6 * rich
    csr = csr + 0.06 * (t["V9_V13"] - 70.0) - 0.05 * (t["Vdaf"] - 28.0)
    csr = csr + 2.0 * torch.tanh((t["G"] - 80.0) / 10.0) + 1.0 * (t["CSN"] - 7.4)
    csr = csr - 0.04 * (t["Y"] - 18.0).square() - 0.12 * (t["X"] - 28.0)
    csr = csr + 1.0 * torch.tanh((t["b"] - 90.0) / 60.0)
    csr = csr - 2.0 * (t["St_d"] - 1.1) - 30.0 * (t["P"] - 0.04) - 0.3 * (t["Ad"] - 10.0)
    csr = csr - 0.4 * (t["Mt"] - 10.0) + 0.7 * (t["coking_time"] - 20.0)
    # inerts need caking coal to bind them
    return csr + 0.03 * (t["inerts"] - 30.0) * (t["G"] - 80.0)
