"""From shares of coals to rows of features: the table of rules, and what overrides it."""

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
from .mixing import (
    Additive,
    AsCharged,
    AshFree,
    Basicity,
    BasicityOfIndices,
    Fixed,
    Log,
    Mix,
    MixingRule,
    Spread,
    Stiffened,
    Thinned,
    Weighted,
)

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

    @property
    def table(self) -> dict[str, str]:
        """Feature -> its rule, in words."""
        return {n: say_rule(r) for n, r in zip(self.schema.names, self.rules, strict=True)}


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
        elif feature.levels:
            raise FedloreError(
                f"feature '{feature.name}' is a choice of {', '.join(feature.levels)}, which no "
                f"rule can blend: fix it, as in --fix {feature.name}={feature.levels[0]}"
            )
        else:
            made.append(_rule(feature.name, rules, coals))
    return MixingRecipe(schema, coals.properties, tuple(made))


def read_mixing(path: str | Path) -> tuple[dict[str, MixingRule], dict[str, float | str]]:
    """A TOML file with [rules.FEATURE] (rule = "additive", ...) and [fixed] values."""
    document = build(Override, read_toml(path))
    rules = {name: _from_table(name, values) for name, values in document.rules.items()}
    return rules, document.fixed


def say_rule(rule: MixingRule) -> str:
    """A rule in words, with the numbers that it depends on.

    >>> say_rule(Weighted("V9_V13", "inerts", rest=True))
    'weighted by 100 - inerts'
    """
    match rule:
        case Fixed(value):
            return f"fixed at {value:g}"
        case Additive():
            return "additive by dry mass"
        case AsCharged():
            return "additive by mass as charged"
        case Weighted(_, by, rest):
            return f"weighted by {'100 - ' if rest else ''}{by}"
        case AshFree():
            return "additive on the dry coal"
        case Spread(_, mean):
            return f"mixture of {mean}"
        case Log():
            return "additive in the logarithm"
        case Thinned(_, loss, caking, below):
            return f"additive, thinned by up to {loss:g} where {caking} < {below:g} meets more"
        case Stiffened(_, loss, inerts, above):
            return f"additive, less {loss:g} per % of {inerts} above {above:g}"
        case Basicity():
            return "from ash oxides, weighted by ash"
        case BasicityOfIndices():
            return "from indices, weighted by ash"
    return type(rule).__name__


def _rule(name: str, rules: Mapping[str, MixingRule], coals: Coals) -> MixingRule:
    options = (rules[name],) if name in rules else BY_NAME.get(name, (Additive(name),))
    for rule in options:
        if all(need in coals.properties for need in rule.needs):
            return rule
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
