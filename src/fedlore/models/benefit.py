"""What taking part brings one site, on rows of its own that no member had seen."""

from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.metrics import ReliabilityBin


@dataclass(frozen=True)
class BenefitLine:
    """One way to predict, and how it did: accuracy, or RMSE, with a 95 % interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Benefit:
    """The private table of a site. Nothing of it is ever sent."""

    measure: str  # "accuracy" or "rmse"
    rows: int
    lines: tuple[BenefitLine, ...]
    weights: dict[str, float]  # of the mixture, by member
    costs: dict[str, float]  # what removing a member would cost; above 0 it is missed
    gain: BenefitLine  # the mixture over local best, paired; above 0 it is better
    sentence: str
    diagram: tuple[ReliabilityBin, ...] = ()  # of the mixture: how sure, and how often right
    probabilities: dict[str, float] = field(default_factory=dict)  # scores of probabilities
    left_out: str = ""  # which members are not in the mixture for the sake of shapes, and why

    def value(self, name: str) -> float:
        """One line by name."""
        return next(line.value for line in self.lines if line.name == name)

    def plain(self) -> dict[str, Any]:
        """As JSON would have it."""
        values = asdict(self)
        left_out = values.pop("left_out")
        return values | ({"left out": left_out} if left_out else {})
