"""What a study of numbers runs, and what its parts share."""

from dataclasses import dataclass, field, replace

from ....algorithms import Plan
from ....engine import NumberClient
from ....errors import ConfigError, unknown
from ....knowledge.numbers.bins import Bins
from .lore import NumberSetting
from .sets import SOURCES, NumberSite

RANGES = ("oracle", "honest")
NO_BINS = 0  # k in the rows of approaches without bins
RATES = (0.2, 0.05)  # of the networks without bins, chosen by validation


@dataclass(frozen=True)
class NumberStudy:
    """What is run; the same settings for all data sets."""

    dataset: str
    bins: tuple[int, ...] = (10, 20, 50, 100)  # k
    seeds: int = 5
    first_seed: int = 0
    rounds: int = 40
    hidden: tuple[int, ...] = (64, 64)
    trust: float = 0.3  # λ of MLwKM and FLwKM, as in the paper
    parts: tuple[int, ...] = (50,)  # k for which what lore is made of is shown by itself
    old: bool = False  # whether lore 1, the recipe of 0.1.0, is run beside
    plan: Plan = field(default_factory=lambda: Plan(steps=25, batch=32, lr=0.1, schedule="cosine"))

    def __post_init__(self) -> None:
        if self.dataset not in SOURCES:
            raise ConfigError(unknown("data set", self.dataset, SOURCES))
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, got {self.seeds}")
        for k in self.bins:
            Bins(0.0, 1.0, k)


def number_setting(study: NumberStudy, k: int, seed: int) -> NumberSetting:
    """What all trainings with one number of bins share."""
    source = SOURCES[study.dataset]
    bins = Bins(source.lower, source.upper, k)
    return NumberSetting(bins, study.plan, study.rounds, study.hidden, seed)


def bounds_of(study: NumberStudy) -> Bins:
    """Bins of an approach that has none: the bounds are all that matters."""
    source = SOURCES[study.dataset]
    return Bins(source.lower, source.upper, 2)


def clients_of(own: list[NumberSite], kind: str, trust: float) -> list[NumberClient]:
    """The sites with one kind of range."""
    return [
        NumberClient(s.id, s.train, replace(s.knowledge[kind], trust=trust), s.test) for s in own
    ]
