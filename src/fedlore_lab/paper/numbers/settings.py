"""What a study of numbers runs, and what its parts share."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import nn

from fedlore import HEARD, Bins
from fedlore.algorithms import Plan
from fedlore.core.nets import mlp
from fedlore.engine import NumberClient
from fedlore.errors import ConfigError, unknown
from fedlore.experiments import Drawing

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
    plan: Plan = field(default_factory=lambda: Plan(steps=25, batch=32, lr=0.1, schedule="cosine"))

    def __post_init__(self) -> None:
        if self.dataset not in SOURCES:
            raise ConfigError(unknown("data set", self.dataset, SOURCES))
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, got {self.seeds}")
        for k in self.bins:
            Bins(0.0, 1.0, k)


def draw_numbers(
    study: NumberStudy, own: Sequence[NumberSite], k: int, seed: int, kind: str
) -> Drawing:
    """The sites with one kind of range, and what all approaches share; `k` = 0 has no bins."""
    source = SOURCES[study.dataset]
    bins = Bins(source.lower, source.upper, k) if k != NO_BINS else bounds_of(study)
    clients = clients_of(own, kind, study.trust)
    features = clients[0].data.x.shape[1]

    def make_model(hears: bool) -> nn.Module:
        return mlp(features + HEARD * hears, bins.k, hidden=study.hidden, seed=seed)

    return Drawing(
        clients,
        make_model,
        study.plan,
        study.rounds,
        seed,
        bins=bins,
        hidden=study.hidden,
        name=kind,
    )


def bounds_of(study: NumberStudy) -> Bins:
    """Bins of an approach that has none: the bounds are all that matters."""
    source = SOURCES[study.dataset]
    return Bins(source.lower, source.upper, 2)


def clients_of(own: Sequence[NumberSite], kind: str, trust: float) -> list[NumberClient]:
    """The sites with one kind of range."""
    return [
        NumberClient(s.id, s.train, replace(s.knowledge[kind], trust=trust), s.test) for s in own
    ]
