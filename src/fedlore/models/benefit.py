"""What taking part brings one site, on rows of its own that no member had seen."""

from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.metrics import ReliabilityBin
from ..words import say


@dataclass(frozen=True)
class BenefitLine:
    """One way to predict, and how it did: accuracy, or RMSE, with a 95 % interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Benefit:
    """The private table of a site; of it others hear only what columns are worth, if it says so."""

    measure: str  # "accuracy" or "rmse"
    rows: int
    lines: tuple[BenefitLine, ...]
    weights: dict[str, float]  # of the mixture, by member
    costs: dict[str, float]  # what removing a member would cost; above 0 it is missed
    gain: BenefitLine  # the mixture over local best, paired; above 0 it is better
    sentence: str
    diagram: tuple[ReliabilityBin, ...] = ()  # of the mixture: how sure, and how often right
    probabilities: dict[str, float] = field(default_factory=dict)  # scores of probabilities
    left_out: str = ""  # columns that it does not measure, members it lacks for its shapes' sake
    columns: tuple[BenefitLine, ...] = ()  # what its own models would lose without one of these

    def value(self, name: str) -> float:
        """One line by name."""
        return next(line.value for line in self.lines if line.name == name)

    def plain(self) -> dict[str, Any]:
        """As JSON would have it."""
        values = asdict(self)
        some = {"left out": values.pop("left_out"), "columns": values.pop("columns")}
        return values | {name: value for name, value in some.items() if value}


def say_gain(gain: BenefitLine, against: str, rows: int, measure: str) -> str:
    """Whether taking part pays, with its interval, or that the rows cannot prove it."""
    if measure == "accuracy":
        low, high = (f"{100 * end:+.1f}" for end in (gain.low, gain.high))
        text = "{gain} points of accuracy over {against} ({low} to {high}, {rows} rows)"
        value = f"{100 * gain.value:+.1f}"
    else:  # a gain is less error
        text = "RMSE {gain} higher than that of {against} ({low} to {high}, {rows} rows)"
        if gain.value >= 0:
            text = "RMSE {gain} lower than that of {against} ({low} to {high}, {rows} rows)"
        low, high = f"{-gain.high:+.3g}", f"{-gain.low:+.3g}"
        value = f"{abs(gain.value):.3g}"
    said = say(text, gain=value, against=say(against), low=low, high=high, rows=rows)
    if gain.low > 0:
        return say("Taking part pays for this site: {said}.", said=said)
    if gain.high < 0:
        return say("Taking part does not pay for this site: {said}.", said=said)
    if gain.low == gain.high:
        return say("Taking part changes nothing for this site: {said}.", said=said)
    if gain.value > 0:
        text = "Taking part probably pays for this site, but with too few rows to be sure: {said}."
    else:
        text = "Taking part may not pay for this site, but with too few rows to be sure: {said}."
    return say(text, said=said)
