"""What is ordered and what comes back: the order, blends, plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedlore import Personal, PersonalRegressor
from fedlore.errors import FedloreError
from fedlore.knowledge import Schema

from .coals import Coals
from .graders import BlendTarget, Forecast, Grader, Promise, Risk, grader_for
from .judge import Goal, Judge
from .limits import BlendLimits, limits_of
from .mixing import Fixed, MixingRecipe, MixingRule, recipe_for
from .sides import SideLimit, SideVerdict


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
    def limits(self) -> BlendLimits:
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


@dataclass(frozen=True, eq=False)
class Blend:
    """One blend, mixed and predicted."""

    shares: dict[str, float]  # of the coals in it, largest first
    cost: float  # per tonne
    chance: float  # P(target) as promised
    features: dict[str, float]
    forecast: Forecast
    risk: Risk
    sides: tuple[SideVerdict, ...] = ()  # how it stands to the other limits


@dataclass(frozen=True)
class Relaxation:
    """A limit that costs money: what it is, what it could be, and the price per tonne then."""

    limit: str
    relaxed: str
    cost: float
    saving: float


@dataclass(frozen=True)
class Point:
    """One point of a front: the cheapest blend for a target and a confidence."""

    target: str
    confidence: float
    cost: float
    shares: dict[str, float]


@dataclass(frozen=True)
class PossibleResult:
    """One result that a test may have."""

    answer: str
    chance: float
    cost: float  # of the next plan, per tonne


@dataclass(frozen=True, eq=False)
class TestBlend:
    """A blend that is worth a test."""

    __test__ = False  # no test of pytest's

    shares: dict[str, float]  # largest first
    cost: float  # per tonne
    now: float  # of the plan without the test
    then: float  # of the plan after it, over all results
    outcomes: tuple[PossibleResult, ...]


@dataclass(frozen=True, eq=False)
class BlendPlan:
    """The answer to an order."""

    order: Order
    blend: Blend | None  # none: there is no plan, and `reasons` says why
    reasons: tuple[str, ...] = ()
    nearest: Blend | None = None  # where there is no plan, the blend that comes nearest
    floor: Blend | None = None  # the cheapest blend of any quality
    runner_up: Blend | None = None
    without: tuple[tuple[str, float | None], ...] = ()  # the price if a coal does not arrive
    binding: tuple[Relaxation, ...] = ()
    confidences: tuple[Point, ...] = ()
    targets: tuple[Point, ...] = ()
    proved: bool = False  # no cheaper blend in lots exists
    looked: int = 0  # blends in the wide look
    refused: int = 0  # of them, those for which the expert has no answer
    tests: int = 0  # measured results that the model has taken in
    test: TestBlend | None = None  # the one that is worth most, where that was asked for
    costs: Mapping[str, float] = field(default_factory=dict)  # of the plan, by scenario of prices
    choice: str = ""  # what was as low as can be over the scenarios: mean or worst
