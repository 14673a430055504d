"""What a study of numbers runs, and what its parts share."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fedlore import HEARD, Bins, PersonalRegressor
from fedlore.algorithms import Algorithm, Plan
from fedlore.core.nets import mlp
from fedlore.engine import Fitted, NumberClient, fit
from fedlore.errors import ConfigError, unknown

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
    plan: Plan = field(default_factory=lambda: Plan(steps=25, batch=32, lr=0.1, schedule="cosine"))

    def __post_init__(self) -> None:
        if self.dataset not in SOURCES:
            raise ConfigError(unknown("data set", self.dataset, SOURCES))
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, got {self.seeds}")
        for k in self.bins:
            Bins(0.0, 1.0, k)


def widths(k: int) -> tuple[float, float]:
    """A narrow ordinal loss, 3/4 of a bin, and a wide one, a twentieth of the bounds; in bins."""
    return 0.75, max(1.0, 0.05 * k)


@dataclass(frozen=True)
class NumberSetting:
    """What all trainings of one comparison share."""

    bins: Bins
    plan: Plan
    rounds: int
    hidden: tuple[int, ...]
    seed: int

    def train(
        self,
        clients: Sequence[NumberClient],
        algorithm: Algorithm,
        *,
        hears: bool = False,
        ordinal: float = 0.0,
        plain: float = 0.0,
    ) -> Fitted[PersonalRegressor]:
        """Train with the same start and the same local steps as everything else."""
        inputs = clients[0].data.x.shape[1] + HEARD * hears
        return fit(
            clients,
            mlp(inputs, self.bins.k, hidden=self.hidden, seed=self.seed),
            task="regression",
            bins=self.bins,
            ordinal=ordinal,
            hears=hears,
            algorithm=algorithm,
            plan=replace(self.plan, plain=plain),
            rounds=self.rounds,
            seed=self.seed,
            workers=1,
        )


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
