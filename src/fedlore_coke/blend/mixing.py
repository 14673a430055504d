"""How properties of coals become those of their blend: rules, and a recipe of them by column.

Standard practice: ash, sulphur, phosphorus and macerals are additive by dry mass, moisture by the
mass as charged; ash oxides are weighed by ash; volatile matter is additive on the dry coal, so
Vdaf is converted there and back; reflectance is a mixture of distributions; fluidity is additive
in its logarithm. Caking properties are additive among caking coals and less than that with coals
that hardly cake (North et al. 2018, doi:10.1007/s40789-018-0217-2); the size of that loss is
fedlore's own, the one of its simulated plants.

Every rule leaves a blend of a coal with itself as it is, `Stiffened` excepted.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlore.config import build, read_toml
from fedlore.errors import ConfigError, FedloreError, unknown
from fedlore.knowledge import Feature, Schema

from .coals import Array, Coals

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


class MixingRule(ABC):
    """The value of one feature for each blend; its texts name the properties that it needs."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The properties of coals that it is worked out from."""
        every: Any = self
        values = (getattr(every, one.name) for one in fields(every))
        return tuple(value for value in values if isinstance(value, str))

    @abstractmethod
    def __call__(self, mix: Mix, /) -> Array:
        """n blends -> (n,)."""


@dataclass(frozen=True)
class Additive(MixingRule):
    """The mean by dry mass."""

    column: str  # of the coals; the feature's own name

    def __str__(self) -> str:
        return "additive by dry mass"

    def __call__(self, mix: Mix, /) -> Array:
        return mix.mean(self.column)


@dataclass(frozen=True)
class AsCharged(MixingRule):
    """The mean by mass as charged: moisture."""

    column: str  # of the coals; the feature's own name

    def __str__(self) -> str:
        return "additive by mass as charged"

    def __call__(self, mix: Mix, /) -> Array:
        return mix.charged @ mix.properties[self.column]


@dataclass(frozen=True)
class Weighted(MixingRule):
    """The mean by the mass of a part: of the ash for oxides, of the vitrinite for V9-V13."""

    column: str  # of the coals; the feature's own name
    by: str  # percent of dry mass
    rest: bool = False  # weigh by what is not `by`: vitrinite is 100 - inerts

    def __str__(self) -> str:
        return f"weighted by {'100 - ' if self.rest else ''}{self.by}"

    def __call__(self, mix: Mix, /) -> Array:
        part = mix.properties[self.by]
        part = 100.0 - part if self.rest else part
        total = mix.dry @ part
        _positive(total, f"the mass by which '{self.column}' is weighed")
        return (mix.dry @ (part * mix.properties[self.column])) / total


@dataclass(frozen=True)
class AshFree(MixingRule):
    """A percentage of the ash-free coal, such as Vdaf: additive on the dry coal."""

    column: str  # of the coals; the feature's own name
    ash: str = "Ad"  # the column of ash, percent dry

    def __str__(self) -> str:
        return "additive on the dry coal"

    def __call__(self, mix: Mix, /) -> Array:
        pure = 1.0 - mix.properties[self.ash] / 100.0
        return (mix.dry @ (pure * mix.properties[self.column])) / (mix.dry @ pure)


@dataclass(frozen=True)
class Spread(MixingRule):
    """The standard deviation of a mixture: variance = sum w (s² + (R - mean)²)."""

    column: str  # of the coals; the feature's own name
    mean: str = "Ro"  # the column of what spreads

    def __str__(self) -> str:
        return f"mixture of {self.mean}"

    def __call__(self, mix: Mix, /) -> Array:
        centre = mix.mean(self.mean)
        # by moments about a middle value, which loses fewer digits than about zero
        middle = float(mix.properties[self.mean].mean())
        away = mix.properties[self.mean] - middle
        square = mix.dry @ (mix.properties[self.column] ** 2 + away**2)
        variance: Array = np.maximum(square - (centre - middle) ** 2, 0.0)
        return np.sqrt(variance)


@dataclass(frozen=True)
class Log(MixingRule):
    """The geometric mean: additive in the logarithm, as maximum fluidity in ddpm."""

    column: str  # of the coals; the feature's own name

    def __str__(self) -> str:
        return "additive in the logarithm"

    def __call__(self, mix: Mix, /) -> Array:
        values = mix.properties[self.column]
        _positive(values, f"'{self.column}'")
        mean: Array = np.exp(mix.dry @ np.log(values))
        return mean


@dataclass(frozen=True)
class Thinned(MixingRule):
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

    def __str__(self) -> str:
        where = f"where {self.caking} < {self.below:g} meets more"
        return f"additive, thinned by up to {self.loss:g} {where}"

    def __call__(self, mix: Mix, /) -> Array:
        apart = mix.dry @ self._caking_lost(mix.properties[self.caking])
        return mix.mean(self.column) - self.loss * (
            apart - self._caking_lost(mix.mean(self.caking))
        )

    def _caking_lost(self, caking: Array) -> Array:
        return np.maximum(self.below - caking, 0.0) / self.width


@dataclass(frozen=True)
class Stiffened(MixingRule):
    """Additive, less a loss for every percent of inerts in the blend above a limit.

    For plants that measured it. The fluidity of an inert-rich coal alone is then not its own.
    """

    column: str  # of the coals; the feature's own name
    loss: float  # per percent of inerts above `above`
    inerts: str = "inerts"  # the column of inerts, percent
    above: float = 30.0  # percent from which they count

    def __str__(self) -> str:
        return f"additive, less {self.loss:g} per % of {self.inerts} above {self.above:g}"

    def __call__(self, mix: Mix, /) -> Array:
        rich = np.maximum(mix.mean(self.inerts) - self.above, 0.0)
        return mix.mean(self.column) - self.loss * rich


@dataclass(frozen=True)
class Basicity(MixingRule):
    """The modified basicity index 100 A BR / (100 - V) from ash oxides, each weighed by ash.

    BR = (Fe2O3 + CaO + MgO + Na2O + K2O) / (SiO2 + Al2O3), V on the dry coal (Price et al. 1988).
    """

    ash: str = "Ad"  # the column of ash, percent dry
    volatile: str = "Vdaf"  # the column of volatile matter

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ash, self.volatile, *BASICITY, *ACID)

    def __str__(self) -> str:
        return "from ash oxides, weighted by ash"

    def __call__(self, mix: Mix, /) -> Array:
        p = mix.properties
        basic, acid = (np.sum([p[name] for name in names], axis=0) for names in (BASICITY, ACID))
        return _index(mix, p[self.ash], p[self.volatile], basic, acid)


@dataclass(frozen=True)
class BasicityOfIndices(MixingRule):
    """The same where only each coal's own index is known: basic and acid oxides make up the same
    part of every ash."""

    column: str = "MBI"  # of the coals; the feature's own name
    ash: str = "Ad"  # the column of ash, percent dry
    volatile: str = "Vdaf"  # the column of volatile matter

    def __str__(self) -> str:
        return "from indices, weighted by ash"

    def __call__(self, mix: Mix, /) -> Array:
        ash, volatile, index = (mix.properties[n] for n in (self.ash, self.volatile, self.column))
        dry = volatile * (1.0 - ash / 100.0)
        ratio = index * (100.0 - dry) / (100.0 * ash)  # BR of each coal
        return _index(mix, ash, volatile, ratio / (1.0 + ratio), 1.0 / (1.0 + ratio))


@dataclass(frozen=True)
class Fixed(MixingRule):
    """What no coal brings along: the oven's temperature, the coking time."""

    value: float

    def __str__(self) -> str:
        return f"fixed at {self.value:g}"

    def __call__(self, mix: Mix, /) -> Array:
        return np.full(len(mix.charged), self.value)


@dataclass(frozen=True)
class Unmeasured(MixingRule):
    """A feature that the site does not measure, and that no coal brings: empty in every blend."""

    def __str__(self) -> str:
        return "not measured at this site"

    def __call__(self, mix: Mix, /) -> Array:
        return np.full(len(mix.charged), np.nan)


UNMEASURED = Unmeasured()


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


#: Rules by their names in a file.
MIXING_RULES: dict[str, Callable[..., MixingRule]] = {
    "additive": Additive,
    "as-charged": AsCharged,
    "weighted": Weighted,
    "ash-free": AshFree,
    "spread": Spread,
    "log": Log,
    "thinned": Thinned,
    "stiffened": Stiffened,
    "basicity": Basicity,
    "basicity-of-indices": BasicityOfIndices,
}

#: The rule of a feature by its name; any other that the coals have is additive by dry mass.
BY_NAME: dict[str, tuple[MixingRule, ...]] = {  # the first whose properties are all there
    "Mt": (AsCharged("Mt"),),
    "Vdaf": (AshFree("Vdaf"), Additive("Vdaf")),
    "Ro_sd": (Spread("Ro_sd"),),
    "V9_V13": (Weighted("V9_V13", "inerts", rest=True), Additive("V9_V13")),
    "MF": (Log("MF"),),
    "G": (Thinned("G", 8.0),),
    "Y": (Thinned("Y", 2.0), Additive("Y")),
    "b": (Thinned("b", 40.0), Additive("b")),
    "MBI": (Basicity(), BasicityOfIndices()),
    **{
        oxide: (Weighted(oxide, "Ad"), Additive(oxide))
        for oxide in ("SiO2", "Al2O3", "Fe2O3", "CaO", "MgO", "Na2O", "K2O", "TiO2", "P2O5")
    },
}


@dataclass(frozen=True)
class Override:
    """A mixing file: rules for features by name, and values of what is no property of a coal."""

    rules: dict[str, Any] = field(default_factory=dict)  # how a feature mixes, by feature
    fixed: dict[str, Any] = field(default_factory=dict)  # values that no coal brings, by feature


@dataclass(frozen=True, eq=False)
class MixingRecipe:
    """The features of a schema, worked out from shares of coals."""

    schema: Schema
    properties: Mapping[str, Array]  # name -> (c,)
    rules: tuple[MixingRule, ...]  # one for each feature, in the schema's order

    def features(self, shares: Array) -> Array:
        """(n, c) -> (n, d), in the units of the schema."""
        mix = Mix.of(shares, self.properties)
        return np.stack([rule(mix) for rule in self.rules], 1)

    def name_values(self, values: Array) -> dict[str, float]:
        """Features (d,) by name, without those that are empty."""
        pairs = zip(self.schema.names, values.tolist(), strict=True)
        return {name: value for name, value in pairs if name not in self.without}

    @property
    def without(self) -> tuple[str, ...]:
        """The features that are empty in every blend."""
        pairs = zip(self.schema.names, self.rules, strict=True)
        return tuple(name for name, rule in pairs if rule is UNMEASURED)

    @property
    def table(self) -> dict[str, str]:
        """Feature -> its rule, in words, with the numbers that it depends on."""
        return {n: str(rule) for n, rule in zip(self.schema.names, self.rules, strict=True)}


def rows_of(features: Array) -> Tensor:
    """Features as a model takes them, (n, d) float32."""
    return torch.from_numpy(features.astype(np.float32))


def recipe_for(
    schema: Schema,
    coals: Coals,
    *,
    fixed: Mapping[str, float | str] | None = None,
    rules: Mapping[str, MixingRule] | None = None,
) -> MixingRecipe:
    """A rule for every feature: a fixed value, the given rule, or the one its name stands for."""
    fixed, rules = dict(fixed or {}), dict(rules or {})
    for name in (*fixed, *rules):
        schema.column(name)
    for name in fixed:
        if name in rules:
            raise FedloreError(f"feature '{name}' has both a fixed value and a rule")
    made: list[MixingRule] = []
    for feature in schema.features:
        if feature.name in fixed:
            made.append(Fixed(_value(feature, fixed[feature.name])))
        elif feature.levels and feature.have:
            raise FedloreError(
                f"feature '{feature.name}' is a choice of {', '.join(feature.levels)}, which no "
                f"rule can blend: fix it, as in --fix {feature.name}={feature.levels[0]}"
            )
        else:
            made.append(_rule(feature, rules, coals))
    return MixingRecipe(schema, coals.properties, tuple(made))


def read_mixing(path: str | Path) -> tuple[dict[str, MixingRule], dict[str, float | str]]:
    """A TOML file with [rules.FEATURE] (rule = "additive", ...) and [fixed] values."""
    document = build(Override, read_toml(path))
    rules = {name: _from_table(name, values) for name, values in document.rules.items()}
    return rules, document.fixed


def _rule(feature: Feature, rules: Mapping[str, MixingRule], coals: Coals) -> MixingRule:
    name = feature.name
    options = (rules[name],) if name in rules else BY_NAME.get(name, (Additive(name),))
    for rule in options:
        if all(need in coals.properties for need in rule.needs):
            return rule
    if not feature.have and name not in rules:
        return UNMEASURED
    lacking = [need for need in options[0].needs if need not in coals.properties]
    raise FedloreError(
        f"feature '{name}' of the model cannot be blended: the coals have no column "
        f"'{lacking[0]}'; add it, give a rule, or fix the value, as in --fix {name}=..."
    )


def _value(feature: Feature, given: float | str) -> float:
    if feature.levels:
        if given not in feature.levels:
            raise FedloreError(unknown(f"level of {feature.name}", str(given), feature.levels))
        return float(feature.levels.index(str(given)))
    try:
        value = float(given)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise FedloreError(f"{feature.name} must be fixed at a finite number, got '{given}'")
    return value


def _from_table(name: str, values: Any) -> MixingRule:
    if not isinstance(values, dict) or "rule" not in values:
        raise ConfigError(f'[rules.{name}] needs a key "rule": one of {", ".join(MIXING_RULES)}')
    options = dict(values)
    kind = options.pop("rule")
    if kind not in MIXING_RULES:
        raise ConfigError(f"[rules.{name}] {unknown('rule', str(kind), MIXING_RULES)}")
    make: Any = MIXING_RULES[kind]
    if any(f.name == "column" for f in fields(make)):
        options.setdefault("column", name)
    made: MixingRule = build(make, options, f"rules.{name}")
    return made
