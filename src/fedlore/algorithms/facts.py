"""What an algorithm costs, what it asks of the federation around it, and its settings."""

from dataclasses import dataclass, field, fields
from typing import Any

from ..core.aggregate import Aggregate
from ..errors import ConfigError
from .plan import Plan


@dataclass(frozen=True)
class Facts:
    """What is known about an algorithm before it runs."""

    paper: str = ""
    down: float = 1.0  # what a client gets each round, in multiples of the model
    up: float = 1.0  # what it returns
    note: str = ""  # what the two numbers cannot say
    memory: bool = False  # clients keep something between rounds
    everyone: bool = False  # every client in every round; otherwise the round is void
    mean: bool = False  # its invariants live on exact means: no medians, no clipped uploads
    momentum: bool = True  # bears momentum in the local steps

    @property
    def needs(self) -> list[str]:
        """What it asks of the federation, in words."""
        asked = {
            "memory at the clients": self.memory,
            "every client in every round": self.everyone,
            "the exact mean of uploads": self.mean,
            "local steps without momentum": not self.momentum,
        }
        return [what for what, wanted in asked.items() if wanted]


def facts_of(algorithm: object) -> Facts:
    """An algorithm's facts; one that states none asks for nothing."""
    found = getattr(algorithm, "facts", None)
    return found if isinstance(found, Facts) else Facts()


def setting(default: float, symbol: str, meaning: str, within: str = "[0, inf)") -> Any:
    """A number of an algorithm: the paper's symbol, what it means, and where it must lie."""
    about = {"symbol": symbol, "meaning": meaning, "within": within}
    return field(default=default, metadata=about)


def choice(default: Any, meaning: str) -> Any:
    """A setting of an algorithm that is no number."""
    return field(default=default, metadata={"symbol": "", "meaning": meaning})


def check_settings(algorithm: Any) -> None:
    """Refuse settings that are no numbers or lie outside their interval; for __post_init__."""
    for entry in fields(algorithm):
        if "within" not in entry.metadata:
            continue
        value, within = getattr(algorithm, entry.name), entry.metadata["within"]
        who = f"{type(algorithm).__name__}: {entry.name}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{who} must be a number, got {value!r}")
        low, high = map(float, within[1:-1].split(","))
        above = value >= low if within[0] == "[" else value > low  # NaN is never inside
        below = value <= high if within[-1] == "]" else value < high
        if not (above and below):
            raise ConfigError(f"{who} must lie in {within}, got {value}")


def check_fit(
    algorithm: object,
    plan: Plan,
    *,
    weights: str = "equal",
    aggregate: Aggregate | None = None,
    sample: float = 1.0,
) -> None:
    """Refuse a federation in which the algorithm would be wrong, with the reason."""
    facts, name = facts_of(algorithm), type(algorithm).__name__
    if facts.everyone and sample < 1.0:
        raise ConfigError(
            f"{name} needs every client in every round: sample must be 1, got {sample:g}"
        )
    if not facts.momentum and plan.momentum > 0.0:
        raise ConfigError(
            f"{name} is proven for plain gradient steps: momentum must be 0, got {plan.momentum:g}"
        )
    if facts.mean and aggregate is not None and aggregate.needs_individuals:
        raise ConfigError(
            f"{name} keeps sums over clients that only a mean preserves: "
            f"aggregate must be mean, got {aggregate.name}"
        )
    if facts.mean and weights == "size" and sample < 1.0:
        # the mean over a sample then estimates neither the weighted nor the plain sum
        raise ConfigError(
            f"{name} with weights by size needs every client in every round: "
            f"sample must be 1, got {sample:g}"
        )
