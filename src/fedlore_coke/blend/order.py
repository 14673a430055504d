"""What a shift orders: coals, a target, how sure, and what may be charged."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedlore import Personal, PersonalRegressor
from fedlore.errors import FedloreError
from fedlore.knowledge import Schema

from .coals import Coals
from .graders import Grader, grader_for
from .judge import Goal, Judge
from .limits import Limits, limits_of
from .mixing import Fixed, MixingRule
from .promise import Promise
from .recipe import MixingRecipe, recipe_for
from .sides import SideLimit
from .target import BlendTarget


@dataclass(frozen=True, eq=False)
class Order:
    """The whole question that a plan answers."""

    coals: Coals
    recipe: MixingRecipe
    grader: Grader
    target: BlendTarget
    confidence: float = 0.9  # P(target), as the grader promises it, is at least this
    worst_case: bool = False  # the target also holds at the worst that the range allows
    scope: bool = True  # keep every feature where the model is declared to hold
    tonnes: float | None = None
    most_coals: int | None = None
    lots: float | None = None  # %, shares are multiples of it
    also: tuple[SideLimit, ...] = ()  # other limits, of other models or of features

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence <= 1.0:
            raise FedloreError(f"confidence must lie in (0, 1], got {self.confidence:g}")
        _ = self.limits  # refused here rather than after minutes of work
        if self.scope:
            for feature, rule in zip(self.recipe.schema.features, self.recipe.rules, strict=True):
                if isinstance(rule, Fixed) and not feature.low <= rule.value <= feature.high:
                    if not feature.levels:
                        raise FedloreError(
                            f"{feature.name} is fixed at {rule.value:g}, outside the scope of the "
                            f"model, {feature.low:g} to {feature.high:g}"
                        )

    @property
    def limits(self) -> Limits:
        return limits_of(self.coals, tonnes=self.tonnes, most_coals=self.most_coals, lots=self.lots)

    @property
    def judge(self) -> Judge:
        """The verdicts on the target and on easier and harder ones."""
        return Judge(self.recipe, self.grader, self.grader.ladder(self.target), self.also)

    @property
    def goal(self) -> Goal:
        place = self.judge.targets.index(self.target)
        return Goal(place, self.confidence, self.worst_case, self.scope)


def order_for(
    model: Personal | PersonalRegressor,
    schema: Schema,
    coals: Coals,
    target: str,
    *,
    confidence: float = 0.9,
    promise: Promise = "safe",
    worst_case: bool = False,
    scope: bool = True,
    tonnes: float | None = None,
    most_coals: int | None = None,
    lots: float | None = None,
    fixed: Mapping[str, float | str] | None = None,
    rules: Mapping[str, MixingRule] | None = None,
) -> Order:
    """An order in one call: a personal model, its schema, coals, and a target such as 'grade>=12'.

    With the promise `expected` plans are right on average; with `safe` hardly any falls far below.
    Rules and fixed values are those of `recipe_for`.
    """
    grader = grader_for(model, schema, promise=promise)
    return Order(
        coals,
        recipe_for(schema, coals, fixed=fixed, rules=rules),
        grader,
        grader.target(target),
        confidence,
        worst_case,
        scope,
        tonnes,
        most_coals,
        lots,
    )


def held_places(values: np.ndarray) -> list[int]:
    """The coals that a blend holds."""
    return [int(i) for i in np.flatnonzero(values > 1e-9)]
