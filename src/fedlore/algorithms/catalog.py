"""The algorithms by name, for configs and the command line."""

from dataclasses import dataclass, field, fields
from typing import Any

from ..core.plugins import load_all, make_named
from ..errors import ConfigError
from .base import Algorithm
from .ditto import Apfl, Ditto
from .fedavg import Alone, FedAvg
from .fedopt import FedOpt
from .fedper import FedPer
from .scaffnew import Scaffnew
from .scaffold import Scaffold

_GROUP = "fedlore.algorithms"  # where other packages offer theirs

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
class AlgorithmSetting:
    """One setting of an algorithm, for people."""

    name: str
    symbol: str
    default: Any
    meaning: str


def settings_of(kind: type[Algorithm]) -> list[AlgorithmSetting]:
    """The settings of an algorithm with the paper's symbols and our defaults."""
    return [
        AlgorithmSetting(
            f.name, f.metadata.get("symbol", ""), f.default, f.metadata.get("meaning", "")
        )
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
    if name.lower() == "fedprox":
        raise ConfigError("fedprox is fedavg with settings = { prox = 0.1 }")
    return make_named("algorithm", name.lower(), settings, ALGORITHMS, _GROUP)


def installed_algorithms() -> dict[str, type[Algorithm]]:
    """Fedlore's algorithms and those of other packages, which are loaded for it."""
    return load_all("algorithm", ALGORITHMS, _GROUP)


@dataclass(frozen=True)
class Method:
    """[algorithm] of a federation.toml: a name and its own settings."""

    name: str = "fedavg"  # as `fedlore algorithms` lists it
    settings: dict[str, Any] = field(default_factory=dict)  # its own keys, such as prox

    def __post_init__(self) -> None:
        if self.name.lower() in ALGORITHMS:  # others are looked for once a site's policy has agreed
            self.make()

    def make(self) -> Algorithm:
        return make(self.name, **self.settings)
