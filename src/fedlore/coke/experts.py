"""The experts of the simulated coking plants: published CSR equations as knowledge models.

Kobe Steel's equation as collected by Diez, Alvarez and Barriocanal 2002 (Int. J. Coal Geol.
50:389-412); a refit on 26 traded coals; the arch in reflectance of two public sources. BHP's and
CANMET's are left out: on these blends they miss by 3 to 9 points (sd) once their bias is taken
away, the ones kept by 1.5 to 3.2, and an expert would notice.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..knowledge.schema import Feature, Schema

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

Equation = Callable[[Tensor], Tensor]  # (n, 5) -> (n,) CSR


def grade(csr: Tensor) -> Tensor:
    """The grade of a CSR: 2-point steps from 30 to 70, (n,) -> (n,) int64.

    >>> grade(torch.tensor([12.0, 31.9, 32.0, 67.9, 75.0])).tolist()
    [0, 0, 1, 18, 19]
    """
    return ((csr - LOWEST) / STEP).floor().clamp(0, GRADES - 1).long()


def kobe(seen: Tensor) -> Tensor:
    """70.9 Ro + 7.8 log10 MF - 89 BR - 32, with the basicity ratio BR taken back out of the MBI."""
    ro, fluidity, mbi, ash, volatile = seen.unbind(1)
    dry = volatile * (1.0 - ash / 100.0)
    ratio = mbi * (100.0 - dry) / (100.0 * ash)
    return 70.9 * ro + 7.8 * fluidity - 89.0 * ratio - 32.0


def refit(seen: Tensor) -> Tensor:
    """3.2 + 48.6 Ro + 3.6 log10 MF - 6.9 MBI, and the rules of the house."""
    ro, fluidity, mbi, inerts, spread = seen.unbind(1)
    return 3.2 + 48.6 * ro + 3.6 * fluidity - 6.9 * mbi - _house(inerts, spread)


def arch(seen: Tensor) -> Tensor:
    """-116 + 253 Ro - 88.6 Ro², CANMET's dilatation, the refit's MBI, rules of the house."""
    ro, mbi, dilatation, inerts, spread = seen.unbind(1)
    rank = -116.0 + 253.0 * ro - 88.6 * ro * ro
    return rank + 0.0826 * dilatation - 6.9 * mbi - _house(inerts, spread)


def _house(inerts: Tensor, spread: Tensor) -> Tensor:
    """What every shop floor knows: beware of inerts above 30 % and of a wide histogram."""
    return 0.3 * (inerts - 30.0).clamp(min=0.0) + 15.0 * (spread - 0.15).clamp(min=0.0)


#: What each equation looks at, in its order.
SEES: dict[Equation, tuple[str, ...]] = {
    kobe: ("Ro", "logMF", "MBI", "Ad", "Vdaf"),
    refit: ("Ro", "logMF", "MBI", "inerts", "Ro_sd"),
    arch: ("Ro", "MBI", "b", "inerts", "Ro_sd"),
}


def columns(equation: Equation) -> tuple[int, ...]:
    """Where in a row of 17 features the five are that an equation looks at."""
    return tuple(COKE.column(name) for name in SEES[equation])


@dataclass(frozen=True)
class Expert:
    """A plant's CSR equation over the five features it sees, calibrated by one constant."""

    equation: Equation
    constant: float

    def __call__(self, seen: Tensor, /) -> Tensor:
        """(n, 5) -> (n,) CSR in float64."""
        return self.equation(seen.double()) + self.constant


@dataclass(frozen=True)
class Verdict:
    """P-KM: the grade of the CSR the expert works out, one-hot; `blur` makes it a worse one."""

    expert: Expert
    blur: float = 0.0  # the largest extra error, in points of CSR

    def __call__(self, seen: Tensor, /) -> Tensor:
        csr = self.expert(seen)
        if self.blur:
            # a smooth error in what the expert sees, several waves across the scope
            scope = [COKE.features[i] for i in columns(self.expert.equation)]
            waves = torch.tensor([12.0 / (f.high - f.low) for f in scope]).to(csr)
            csr = csr + self.blur * torch.sin((seen.double() * waves).sum(1))
        return torch.nn.functional.one_hot(grade(csr), GRADES).float()


@dataclass(frozen=True)
class Bounds:
    """R-KM: every grade that the expert's CSR, give or take `bound` points, touches."""

    expert: Expert
    bound: float

    def __call__(self, seen: Tensor, /) -> Tensor:
        csr = self.expert(seen)
        low, high = grade(csr - self.bound), grade(csr + self.bound)
        classes = torch.arange(GRADES, device=seen.device)
        return (classes >= low[:, None]) & (classes <= high[:, None])
