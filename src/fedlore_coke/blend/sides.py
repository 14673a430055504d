"""Limits beside the target that a blend must keep too: of a model of its own, or of a feature."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedlore import Personal, PersonalRegressor
from fedlore.errors import FedloreError, unknown
from fedlore.knowledge import Schema

from .coals import Array, Coals
from .graders import BlendTarget, Grader, Promise, grader_for, number_target
from .judge import SAFE, Judge, equal, logit
from .mixing import MixingRecipe, MixingRule, recipe_for, rows_of

_NEVER = -10.0  # the margin of a blend for which an expert has no answer
_LIMIT = re.compile(r"\s*(.+?)\s+by\s+(.+?)(?:\s+at\s+(\S+))?\s*")


@dataclass(frozen=True)
class SideVerdict:
    """What is known of one blend and one limit."""

    limit: str
    wanted: str
    found: str
    kept: bool


@dataclass(frozen=True, eq=False)
class ModelLimit:
    """A target of another model: its own features, its own expert, its own promise."""

    recipe: MixingRecipe
    grader: Grader
    target: BlendTarget
    confidence: float = 0.9

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence <= 1.0:
            raise FedloreError(f"confidence must lie in (0, 1], got {self.confidence:g}")

    @property
    def text(self) -> str:
        return f"{self.target.text} with P >= {self.confidence:g}"

    def margins(self, shares: Array) -> tuple[Array, Array]:
        seen = Judge(self.recipe, self.grader, (self.target,))(shares)
        wanted = logit(np.array(min(self.confidence + SAFE, 1.0)))
        margin = (logit(seen.chance[:, 0]) - wanted) / 4.0
        return np.where(seen.refused, _NEVER, margin), seen.outside

    def tell(self, shares: Array) -> SideVerdict:
        x = rows_of(self.recipe.features(shares[None]))
        chance = float(self.grader.look(x, (self.target,))[0][0, 0])
        said = f"P {equal(chance)}, predicted {self.grader.tell(x).answer}"
        wanted = f"P >= {self.confidence:g}"
        return SideVerdict(self.target.text, wanted, said, chance >= self.confidence)


@dataclass(frozen=True, eq=False)
class FeatureLimit:
    """A blended feature between two ends: mixing rules alone say what it is, without any doubt."""

    recipe: MixingRecipe
    name: str
    target: BlendTarget

    @property
    def text(self) -> str:
        return self.target.text

    def margins(self, shares: Array) -> tuple[Array, Array]:
        value = self._value(shares)
        feature = self.recipe.schema.features[self.recipe.schema.column(self.name)]
        width = feature.high - feature.low
        room = np.minimum(value - self.target.low, self.target.high - value)
        return room / (width if math.isfinite(width) else 1.0), np.zeros(len(shares))

    def tell(self, shares: Array) -> SideVerdict:
        value = float(self._value(shares[None])[0])
        kept = self.target.low <= value <= self.target.high
        return SideVerdict(self.target.text, "of the blend", f"{value:.4g}", kept)

    def _value(self, shares: Array) -> Array:
        found: Array = self.recipe.features(shares)[:, self.recipe.schema.column(self.name)]
        return found


SideLimit = ModelLimit | FeatureLimit


@dataclass(frozen=True)
class AskedLimit:
    """A limit as it was written: a target, whose model, and how sure."""

    target: str
    model: str | None = None
    confidence: float | None = None


def parse_limit(text: str) -> AskedLimit:
    """A limit such as 'cri<=30 by cri.lore at 0.8', or 'Ad<=11' of a blended feature.

    >>> parse_limit("cri<=30 by cri.lore at 0.8")
    AskedLimit(target='cri<=30', model='cri.lore', confidence=0.8)
    """
    match = _LIMIT.fullmatch(text)
    if match is None:
        return AskedLimit(text.strip())
    target, model, level = match.groups()
    try:
        return AskedLimit(target, model, None if level is None else float(level))
    except ValueError:
        raise FedloreError(f"limit '{text}': '{level}' behind 'at' is not a probability") from None


def model_limit(
    model: Personal | PersonalRegressor,
    schema: Schema,
    coals: Coals,
    target: str,
    *,
    confidence: float = 0.9,
    promise: Promise = "safe",
    fixed: Mapping[str, float | str] | None = None,
    rules: Mapping[str, MixingRule] | None = None,
) -> ModelLimit:
    """A limit by a model of its own; of fixed values and rules it takes those that it knows."""
    grader = grader_for(model, schema, promise=promise)
    own = {n: v for n, v in (fixed or {}).items() if n in schema.names}
    some = {n: r for n, r in (rules or {}).items() if n in schema.names}
    recipe = recipe_for(schema, coals, fixed=own, rules=some)
    return ModelLimit(recipe, grader, grader.target(target), confidence)


def feature_limit(recipe: MixingRecipe, target: str) -> FeatureLimit:
    """A limit on one blended feature, such as 'Ad<=11'."""
    name = re.split(r"[<>=]", target, maxsplit=1)[0].strip()
    features = {f.name: f for f in recipe.schema.features}
    if name not in features:
        reason = unknown("feature", name, recipe.schema.names)
        raise FedloreError(
            f"limit '{target}': {reason}; a limit of another model reads '{target} by FILE.lore'"
        )
    if features[name].levels:
        raise FedloreError(f"limit '{target}': '{name}' is a choice, not a number")
    if name in recipe.without:
        raise FedloreError(
            f"limit '{target}': this site does not measure '{name}', so no blend can be held to "
            f"it: drop the limit, or add a column '{name}' to the coals"
        )
    return FeatureLimit(recipe, name, number_target(target, name, lower=-math.inf, upper=math.inf))
