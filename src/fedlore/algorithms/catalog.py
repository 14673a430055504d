"""The algorithms by name, for configs and the command line."""

from dataclasses import dataclass, field, fields
from typing import Any

from ..config import build
from ..errors import ConfigError, unknown
from .alone import Alone
from .apfl import Apfl
from .base import Algorithm
from .ditto import Ditto
from .fedavg import FedAvg
from .fedopt import FedOpt
from .fedper import FedPer
from .scaffnew import Scaffnew
from .scaffold import Scaffold

ALGORITHMS: dict[str, type[Algorithm]] = {
    "fedavg": FedAvg,
    "fedopt": FedOpt,
    "scaffold": Scaffold,
    "scaffnew": Scaffnew,
    "ditto": Ditto,
    "apfl": Apfl,
    "fedper": FedPer,
    "alone": Alone,
}


@dataclass(frozen=True)
class Setting:
    """One setting of an algorithm, for people."""

    name: str
    symbol: str
    default: Any
    meaning: str


def settings_of(kind: type[Algorithm]) -> list[Setting]:
    """The settings of an algorithm with the paper's symbols and our defaults."""
    return [
        Setting(f.name, f.metadata["symbol"], f.default, f.metadata["meaning"])
        for f in fields(kind)  # type: ignore[arg-type]  # every algorithm is a dataclass
    ]


def make(name: str, **settings: Any) -> Algorithm:
    """An algorithm by its name in any case, with its settings.

    >>> make("FedAvg", prox=1)
    FedAvg(prox=1.0)
    >>> make("scafold")
    Traceback (most recent call last):
    fedlore.errors.ConfigError: unknown algorithm 'scafold'; did you mean 'scaffold'?
    """
    kind = ALGORITHMS.get(name.lower())
    if kind is None:
        raise ConfigError(unknown("algorithm", name.lower(), ALGORITHMS))
    return build(kind, settings, name.lower())


@dataclass(frozen=True)
class Method:
    """[algorithm] of a federation.toml: a name and its own settings."""

    name: str = "fedavg"
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.make()

    def make(self) -> Algorithm:
        return make(self.name, **self.settings)
