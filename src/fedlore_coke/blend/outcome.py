"""What a plan holds: blends with their risks, what holds them back, and fronts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .graders import Forecast
from .order import Order
from .promise import Risk
from .sides import SideVerdict


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
