"""How properties of coals become properties of a blend: one small rule per feature.

Standard practice: ash, sulphur, phosphorus and macerals are additive by dry mass, moisture by the
mass as charged; ash oxides are weighed by ash; volatile matter is additive on the dry coal, so
Vdaf is converted there and back; reflectance is a mixture of distributions; fluidity is additive
in its logarithm. Caking properties are additive among caking coals and less than that with coals
that hardly cake (North et al. 2018, doi:10.1007/s40789-018-0217-2); the size of that loss is
fedlore's own, the one of its simulated plants.

Every rule leaves a blend of a coal with itself as it is, `Stiffened` excepted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedlore.errors import FedloreError

from .coals import Array

BASICITY = ("Fe2O3", "CaO", "MgO", "Na2O", "K2O")
ACID = ("SiO2", "Al2O3")


@dataclass(frozen=True, eq=False)
class Mix:
    """n blends of the same c coals."""

    charged: Array  # (n, c) shares of the mass as charged, rows sum to 1
    dry: Array  # (n, c) shares of the dry mass, rows sum to 1
    properties: Mapping[str, Array]  # name -> (c,)

    @staticmethod
    def of(shares: Array, properties: Mapping[str, Array], *, moisture: str = "Mt") -> "Mix":
        """Blends of shares as charged; coals without a known moisture are alike in it."""
        if moisture not in properties:
            return Mix(shares, shares, properties)
        solid = shares * (1.0 - properties[moisture] / 100.0)
        return Mix(shares, solid / solid.sum(1, keepdims=True), properties)

    def mean(self, name: str) -> Array:
        """The mean of a property by dry mass, (n,)."""
        return self.dry @ self.properties[name]


class MixingRule(Protocol):
    """The value of one feature for each blend."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The properties of coals that it is worked out from."""
        ...

    def __call__(self, mix: Mix, /) -> Array:
        """n blends -> (n,)."""
        ...


@dataclass(frozen=True)
class Additive:
    """The mean by dry mass."""

    column: str  # of the coals; the feature's own name

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def __call__(self, mix: Mix, /) -> Array:
        return mix.mean(self.column)


@dataclass(frozen=True)
class AsCharged:
    """The mean by mass as charged: moisture."""

    column: str  # of the coals; the feature's own name

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def __call__(self, mix: Mix, /) -> Array:
        return mix.charged @ mix.properties[self.column]


@dataclass(frozen=True)
class Weighted:
    """The mean by the mass of a part: of the ash for oxides, of the vitrinite for V9-V13."""

    column: str  # of the coals; the feature's own name
    by: str  # percent of dry mass
    rest: bool = False  # weigh by what is not `by`: vitrinite is 100 - inerts

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column, self.by)

    def __call__(self, mix: Mix, /) -> Array:
        part = mix.properties[self.by]
        part = 100.0 - part if self.rest else part
        total = mix.dry @ part
        _positive(total, f"the mass by which '{self.column}' is weighed")
        return (mix.dry @ (part * mix.properties[self.column])) / total


@dataclass(frozen=True)
class AshFree:
    """A percentage of the ash-free coal, such as Vdaf: additive on the dry coal."""

    column: str  # of the coals; the feature's own name
    ash: str = "Ad"  # the column of ash, percent dry

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column, self.ash)

    def __call__(self, mix: Mix, /) -> Array:
        pure = 1.0 - mix.properties[self.ash] / 100.0
        return (mix.dry @ (pure * mix.properties[self.column])) / (mix.dry @ pure)


@dataclass(frozen=True)
class Spread:
    """The standard deviation of a mixture: variance = sum w (s² + (R - mean)²)."""

    column: str  # of the coals; the feature's own name
    mean: str = "Ro"  # the column of what spreads

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column, self.mean)

    def __call__(self, mix: Mix, /) -> Array:
        centre = mix.mean(self.mean)
        # by moments about a middle value, which loses fewer digits than about zero
        middle = float(mix.properties[self.mean].mean())
        away = mix.properties[self.mean] - middle
        square = mix.dry @ (mix.properties[self.column] ** 2 + away**2)
        variance: Array = np.maximum(square - (centre - middle) ** 2, 0.0)
        return np.sqrt(variance)


@dataclass(frozen=True)
class Log:
    """The geometric mean: additive in the logarithm, as maximum fluidity in ddpm."""

    column: str  # of the coals; the feature's own name

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def __call__(self, mix: Mix, /) -> Array:
        values = mix.properties[self.column]
        _positive(values, f"'{self.column}'")
        mean: Array = np.exp(mix.dry @ np.log(values))
        return mean


@dataclass(frozen=True)
class Thinned:
    """Additive, less a loss where coals that hardly cake are mixed into coals that do.

    How far a coal falls short of caking is convex in its G, so the mean shortfall of the coals is
    at least that of their mean: the loss is the difference. It is 0 among caking coals, among lean
    ones, and for a coal with itself.
    """

    column: str  # of the coals; the feature's own name
    loss: float  # what a fully lean coal takes away
    caking: str = "G"  # the column of the caking index
    below: float = 65.0  # a coal that cakes less is lean
    width: float = 45.0  # and one that cakes so much less is fully lean

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column, self.caking)

    def __call__(self, mix: Mix, /) -> Array:
        apart = mix.dry @ self._lean(mix.properties[self.caking])
        return mix.mean(self.column) - self.loss * (apart - self._lean(mix.mean(self.caking)))

    def _lean(self, caking: Array) -> Array:
        return np.maximum(self.below - caking, 0.0) / self.width


@dataclass(frozen=True)
class Stiffened:
    """Additive, less a loss for every percent of inerts in the blend above a limit.

    For plants that measured it. The fluidity of an inert-rich coal alone is then not its own.
    """

    column: str  # of the coals; the feature's own name
    loss: float  # per percent of inerts above `above`
    inerts: str = "inerts"  # the column of inerts, percent
    above: float = 30.0  # percent from which they count

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column, self.inerts)

    def __call__(self, mix: Mix, /) -> Array:
        rich = np.maximum(mix.mean(self.inerts) - self.above, 0.0)
        return mix.mean(self.column) - self.loss * rich


@dataclass(frozen=True)
class Basicity:
    """The modified basicity index 100 A BR / (100 - V) from ash oxides, each weighed by ash.

    BR = (Fe2O3 + CaO + MgO + Na2O + K2O) / (SiO2 + Al2O3), V on the dry coal (Price et al. 1988).
    """

    ash: str = "Ad"  # the column of ash, percent dry
    volatile: str = "Vdaf"  # the column of volatile matter

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ash, self.volatile, *BASICITY, *ACID)

    def __call__(self, mix: Mix, /) -> Array:
        p = mix.properties
        basic, acid = (np.sum([p[name] for name in names], axis=0) for names in (BASICITY, ACID))
        return _index(mix, p[self.ash], p[self.volatile], basic, acid)


@dataclass(frozen=True)
class BasicityOfIndices:
    """The same where only each coal's own index is known: basic and acid oxides make up the same
    part of every ash."""

    column: str = "MBI"  # of the coals; the feature's own name
    ash: str = "Ad"  # the column of ash, percent dry
    volatile: str = "Vdaf"  # the column of volatile matter

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column, self.ash, self.volatile)

    def __call__(self, mix: Mix, /) -> Array:
        ash, volatile, index = (mix.properties[n] for n in (self.ash, self.volatile, self.column))
        dry = volatile * (1.0 - ash / 100.0)
        ratio = index * (100.0 - dry) / (100.0 * ash)  # BR of each coal
        return _index(mix, ash, volatile, ratio / (1.0 + ratio), 1.0 / (1.0 + ratio))


@dataclass(frozen=True)
class Fixed:
    """What no coal brings along: the oven's temperature, the coking time."""

    value: float
    needs: tuple[str, ...] = ()

    def __call__(self, mix: Mix, /) -> Array:
        return np.full(len(mix.charged), self.value)


def _index(mix: Mix, ash: Array, volatile: Array, basic: Array, acid: Array) -> Array:
    """100 A BR / (100 - V); each argument is (c,), the result (n,)."""
    sour = mix.dry @ (ash * acid)
    _positive(sour, "acid oxides times ash")
    ratio = (mix.dry @ (ash * basic)) / sour
    burnt = mix.dry @ (volatile * (1.0 - ash / 100.0))
    return 100.0 * (mix.dry @ ash) * ratio / (100.0 - burnt)


def _positive(values: Array, what: str) -> None:
    if not (values > 0).all():
        raise FedloreError(f"{what} must be positive, got {float(values.min()):g}")
