"""How an experiment is run, as data: one TOML file per protocol."""

from dataclasses import dataclass
from pathlib import Path

from fedlore.algorithms import Plan
from fedlore.config import build, read_toml
from fedlore.errors import ConfigError

SHIPPED = Path(__file__).parent


@dataclass(frozen=True)
class Teaching:
    """How the P-KM of every client is made: a small model that sees less, trained at home."""

    plan: Plan
    sees: int  # tables: how many columns, drawn for each client; images: the side of the pool
    held_back: float = 0.2  # share of the training part kept for the calibration of honest ranges

    def __post_init__(self) -> None:
        if self.sees < 1:
            raise ConfigError(f"sees must be at least 1, got {self.sees}")
        if not 0.0 < self.held_back < 1.0:
            raise ConfigError(f"held_back must lie between 0 and 1, got {self.held_back}")


@dataclass(frozen=True)
class Setup:
    """One data set under one protocol."""

    plan: Plan  # local training in a round, the same for every approach
    expert: Teaching
    rounds: dict[str, int]  # share of the training part in percent -> rounds
    ranges: tuple[str, ...]  # what `all` stands for: oracle, conformal95, ...
    clients: int = 5  # M in the paper
    classes_each: int = 5
    train: float = (
        0.1  # training part of a client's rows, where the data have no split of their own
    )
    test_rows: int = 0  # at most so many test rows per client; 0 takes all
    trust: float = 0.3  # λ in the paper
    stray: int = 1  # random classes of the client in an oracle range
    alone: int = 0  # rounds for ML and MLwKM; 0 gives them as many as the others
    tuned: bool = False  # score clients after one more local round, as the paper's authors did

    def __post_init__(self) -> None:
        for name in ("train", "trust"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ConfigError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")
        for name in ("test_rows", "stray", "alone"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be at least 0, got {getattr(self, name)}")
        for percent, rounds in self.rounds.items():
            if not percent.isdigit() or not 1 <= int(percent) <= 100 or rounds < 1:
                raise ConfigError(f"rounds must map percents to rounds, got '{percent}' = {rounds}")
        for kind in self.ranges:
            level(kind)

    def rounds_at(self, share: float) -> int:
        """Rounds at a share of the training part."""
        name = f"{100 * share:g}"
        if name not in self.rounds:
            known = ", ".join(self.rounds)
            raise ConfigError(f"the protocol has no rounds for {name} % (it has {known} %)")
        return self.rounds[name]

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(int(percent) / 100 for percent in self.rounds)


@dataclass(frozen=True)
class Protocol:
    """All data sets under one protocol."""

    about: str
    covtype: Setup
    fmnist: Setup


def read_protocol(name: str | Path) -> Protocol:
    """A protocol that ships with fedlore by its name, or any other by the path of its TOML."""
    path = Path(name)
    if path.suffix != ".toml":
        path = SHIPPED / f"{name}.toml"
        if not path.is_file():
            known = ", ".join(sorted(p.stem for p in SHIPPED.glob("*.toml")))
            raise ConfigError(f"unknown protocol '{name}'; known: {known}, or the path of a .toml")
    return build(Protocol, read_toml(path))


def level(kind: str) -> float | None:
    """How often a kind of range promises to hold the label; None for the oracle, which always does.

    >>> level("conformal95"), level("oracle")
    (0.95, None)
    """
    if kind == "oracle":
        return None
    digits = kind.removeprefix("conformal")
    if digits == kind or not digits.isdigit() or not 0 < int(digits) < 100:
        raise ConfigError(f"a range must be oracle or conformal with a percent, got '{kind}'")
    return int(digits) / 100
