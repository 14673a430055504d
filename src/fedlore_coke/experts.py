"""The experts of the simulated plants, and the law of coke that they know a part of.

Kobe Steel's equation as collected by Diez, Alvarez and Barriocanal 2002 (Int. J. Coal Geol.
50:389-412); a refit on 26 traded coals; the arch in reflectance of two public sources. BHP's and
CANMET's are left out: on these blends they miss by 3 to 9 points (sd) once their bias is taken
away, the ones kept by 1.5 to 3.2, and an expert would notice.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fedlore.knowledge import Feature, Formula, Schema

LOWEST, STEP, GRADES = 30, 2, 20  # CSR; the first and the last grade are open

COKE = Schema(
    features=(
        Feature("Mt", "%", 4.0, 16.0),  # moisture as charged
        Feature("Ad", "%", 5.0, 16.5),  # ash, dry
        Feature("Vdaf", "%", 10.0, 45.0),  # volatile matter, dry and ash-free
        Feature("St_d", "%", 0.2, 3.5),  # sulphur, dry
        Feature("P", "%", 0.0, 0.15),  # phosphorus
        Feature("Ro", "%", 0.6, 1.8),  # mean reflectance of vitrinite
        Feature("Ro_sd", "%", 0.0, 0.5),  # and its spread in the blend
        Feature("V9_V13", "%", 0.0, 100.0),  # vitrinite of reflectance 0.9 to 1.4
        Feature("inerts", "%", 5.0, 60.0),
        Feature("logMF", "log10 ddpm", 0.0, 5.0),  # Gieseler maximum fluidity
        Feature("CSN", "", 0.0, 9.0),  # swelling number
        Feature("G", "", 10.0, 105.0),  # caking index
        Feature("X", "mm", 5.0, 60.0),  # shrinkage of the plastic layer
        Feature("Y", "mm", 0.0, 40.0),  # its largest thickness
        Feature("b", "%", -50.0, 400.0),  # dilatation
        Feature("MBI", "", 0.0, 6.0),  # modified basicity index
        Feature("coking_time", "h", 15.0, 27.0),
    ),
    classes=tuple(f"CSR{LOWEST + STEP * i}" for i in range(GRADES)),
)

Number = Callable[[Tensor], Tensor]  # (n, d) -> (n,)
EDGES = tuple(float(LOWEST + STEP * i) for i in range(1, GRADES))  # between the grades


@dataclass(frozen=True)
class Equation:
    """A CSR equation over the five features it sees, as an expert would write it down."""

    name: str
    text: str
    sees: tuple[str, ...]  # in the order of its columns

    def __call__(self, seen: Tensor, /) -> Tensor:
        """(n, 5) -> (n,) CSR."""
        return self._formula(seen)

    @property
    def columns(self) -> tuple[int, ...]:
        """Where in a row of 17 features the five are."""
        return tuple(COKE.column(name) for name in self.sees)

    @cached_property
    def _formula(self) -> Formula:
        features = tuple(COKE.features[column] for column in self.columns)
        return Formula.parse(self.text, Schema(features, COKE.classes))


def grade(csr: Tensor) -> Tensor:
    """The grade of a CSR: 2-point steps from 30 to 70, (n,) -> (n,) int64.

    >>> grade(torch.tensor([12.0, 31.9, 32.0, 67.9, 75.0])).tolist()
    [0, 0, 1, 18, 19]
    """
    return ((csr - LOWEST) / STEP).floor().clamp(0, GRADES - 1).long()


# what every shop floor knows: beware of inerts above 30 % and of a wide histogram
_HOUSE = "0.3*max(inerts - 30, 0) - 15*max(Ro_sd - 0.15, 0)"

#: Kobe Steel's, with the basicity ratio taken back out of the MBI.
kobe = Equation(
    "kobe",
    "70.9*Ro + 7.8*logMF - 89*MBI*(100 - Vdaf*(1 - Ad/100))/(100*Ad) - 32",
    ("Ro", "logMF", "MBI", "Ad", "Vdaf"),
)
#: The refit, and the rules of the house.
refit = Equation(
    "refit",
    f"3.2 + 48.6*Ro + 3.6*logMF - 6.9*MBI - {_HOUSE}",
    ("Ro", "logMF", "MBI", "inerts", "Ro_sd"),
)
#: The arch, CANMET's dilatation, the refit's MBI, rules of the house.
arch = Equation(
    "arch",
    f"-116 + 253*Ro - 88.6*Ro*Ro + 0.0826*b - 6.9*MBI - {_HOUSE}",
    ("Ro", "MBI", "b", "inerts", "Ro_sd"),
)


@dataclass(frozen=True)
class Expert:
    """A plant's CSR equation over the five features it sees, calibrated by one constant."""

    equation: Equation
    constant: float

    @property
    def text(self) -> str:
        """The equation with its constant, for a knowledge file."""
        return f"{self.equation.text} + {self.constant}"

    def __call__(self, seen: Tensor, /) -> Tensor:
        """(n, 5) -> (n,) CSR in float64."""
        return self.equation(seen.double()) + self.constant


@dataclass(frozen=True)
class ExpertVerdict:
    """P-KM: the grade of the CSR the expert works out, one-hot; `blur` makes it a worse one."""

    expert: Expert
    blur: float = 0.0  # the largest extra error, in points of CSR

    edges = EDGES

    @property
    def sides(self) -> tuple[Number, Number]:
        """The CSR behind the grade."""
        return self.csr, self.csr

    def __call__(self, seen: Tensor, /) -> Tensor:
        return torch.nn.functional.one_hot(grade(self.csr(seen)), GRADES).float()

    def csr(self, seen: Tensor) -> Tensor:
        """What the expert works out, (n,)."""
        csr = self.expert(seen)
        if self.blur:
            # a smooth error in what the expert sees, several waves across the scope
            scope = [COKE.features[i] for i in self.expert.equation.columns]
            waves = torch.tensor([12.0 / (f.high - f.low) for f in scope]).to(csr)
            csr = csr + self.blur * torch.sin((seen.double() * waves).sum(1))
        return csr


@dataclass(frozen=True)
class Bounds:
    """R-KM: every grade that the expert's CSR, give or take `bound` points, touches."""

    expert: Expert
    bound: float
    edges = EDGES

    @property
    def sides(self) -> tuple[Number, Number]:
        """Between which CSR the truth lies."""
        return (
            lambda seen: self.expert(seen) - self.bound,
            lambda seen: self.expert(seen) + self.bound,
        )

    def __call__(self, seen: Tensor, /) -> Tensor:
        csr = self.expert(seen)
        low, high = grade(csr - self.bound), grade(csr + self.bound)
        classes = torch.arange(GRADES, device=seen.device)
        return (classes >= low[:, None]) & (classes <= high[:, None])


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
        seen = self._expert_sees(x)
        return seen + self._beyond(x, seen)

    def bake(self, x: Tensor, draw: torch.Generator) -> Tensor:
        """One test of each blend, (n,)."""
        seen = self._expert_sees(x)
        uniform = torch.rand(len(x), generator=draw, dtype=torch.float64)
        noise = NOISE * math.sqrt(2.0) * torch.erfinv(_KEPT * (2.0 * uniform - 1.0))
        edge = (
            self.unseen + 2.0 * NOISE - 1e-6
        )  # a hair inside, so that no rounding leaves the range
        return seen + (self._beyond(x, seen) + noise).clamp(-edge, edge)

    def chance(self, x: Tensor, csr: float) -> Tensor:
        """P(CSR >= csr) of one test, (n,)."""
        z = ((self.mean(x) - csr) / NOISE).clamp(-2.0, 2.0)
        lowest = torch.special.ndtr(torch.full_like(z, -2.0))
        found: Tensor = (torch.special.ndtr(z) - lowest) / _KEPT
        return found

    def _expert_sees(self, x: Tensor) -> Tensor:
        return self.expert(x[:, self.expert.equation.columns])

    def _beyond(self, x: Tensor, seen: Tensor) -> Tensor:
        missed = strength(x.double()) + self.practice - seen
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
