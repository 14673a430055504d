"""federation.toml for a run in one process: the tables of a deployed federation, and [run]."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from torch import nn

from ..algorithms import Plan
from ..algorithms.catalog import Method
from ..config import build, read_toml
from ..core.nets import logistic, mlp
from ..core.scaler import Scaler
from ..data import stratified
from ..engine import Client
from ..errors import ConfigError, FedloreError, unknown
from ..knowledge.scope import scaler_of_scope
from ..privacy import Privacy
from .approaches import APPROACHES, Approach
from .sites import find_sites, read_sites

#: What a deployed federation needs and one process does not.
ELSEWHERE = {"address", "schema", "task", "quorum", "deadline", "largest", "evaluate"}


@dataclass(frozen=True)
class Network:
    """[model]: the network whose weights travel."""

    kind: Literal["mlp", "logistic"] = "mlp"
    hidden: tuple[int, ...] = (64, 64)
    hears: bool = False  # for every approach; lore decides for itself

    def make(self, features: int, classes: int, *, hears: bool, seed: int) -> nn.Module:
        hidden = () if self.kind == "logistic" else self.hidden
        if not hidden and not hears:
            return logistic(features, classes, seed=seed)
        return mlp(features, classes, hidden=hidden, hears=hears, seed=seed)


@dataclass(frozen=True)
class Trial:
    """[run]: what is compared, and where the sites are."""

    sites: str | tuple[str, ...] = "sites"  # a folder of site folders, or a list of them
    approaches: tuple[str, ...] = tuple(a.name for a in APPROACHES)
    recipe: Literal["chosen", "fixed"] = "chosen"  # lore by trials, or one fixed combination
    test: float = 0.25  # share of the rows to test on at a site that has no test file

    def __post_init__(self) -> None:
        known = [a.name for a in APPROACHES]
        for name in self.approaches:
            if name not in known:
                raise ConfigError(unknown("approach", name, known))
        if not self.approaches:
            raise ConfigError("approaches must name at least one")
        if not 0.0 < self.test < 1.0:
            raise ConfigError(f"test must lie between 0 and 1, got {self.test}")


@dataclass(frozen=True)
class Federation:
    """All that a run in one process reads from a federation.toml."""

    name: str = "my federation"
    model: Network = field(default_factory=Network)
    algorithm: Method = field(default_factory=Method)
    plan: Plan = field(default_factory=Plan)
    run: Trial = field(default_factory=Trial)
    privacy: Privacy = field(default_factory=Privacy)
    rounds: int = 20
    sample: float = 1.0  # share of the sites in each round
    weights: Literal["equal", "size"] = "equal"
    seed: int = 0
    scale: bool = True  # standardise features by sums that the sites add up first

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ConfigError(f"rounds must be at least 1, got {self.rounds}")
        if not 0.0 < self.sample <= 1.0:
            raise ConfigError(f"sample must lie in (0, 1], got {self.sample}")
        if self.privacy.dp is not None and self.run.recipe == "chosen":
            if "lore" in self.run.approaches:
                raise ConfigError(
                    "[privacy] dp: every trial of lore would spend a budget of its own; use recipe "
                    '= "fixed" or leave lore out of the approaches'
                )

    @property
    def approaches(self) -> list[Approach]:
        """What is run, in the usual order."""
        return [a for a in APPROACHES if a.name in self.run.approaches]


@dataclass(frozen=True, eq=False)
class Gathering:
    """A federation with its sites read."""

    setting: Federation
    clients: list[Client]
    digest: str  # of every file of every site

    @property
    def size(self) -> tuple[int, int]:
        """Features and classes."""
        schema = self.clients[0].knowledge.schema
        assert schema is not None  # a knowledge file always has one
        return len(schema.features), len(schema.classes)

    @property
    def scaling(self) -> bool | Scaler:
        """How features are scaled: under a privacy budget by what the schema declares."""
        if self.setting.privacy.dp is None or not self.setting.scale:
            return self.setting.scale
        schemas = [c.knowledge.schema for c in self.clients]
        first = schemas[0]
        assert first is not None  # a knowledge file always has one
        if any(one is None or one.features != first.features for one in schemas):
            raise ConfigError(
                "[privacy] dp scales features by declared bounds, which must be the same at all "
                "sites (low and high in each knowledge.toml), or scale must be false: bounds of "
                "one's own rows would tell about them"
            )
        return scaler_of_scope(first)

    def make_model(self, hears: bool) -> nn.Module:
        setting = self.setting
        return setting.model.make(*self.size, hears=hears, seed=setting.seed)


def read_federation(path: str | Path) -> Federation:
    """The settings of a federation.toml; what only a deployed federation needs is passed over."""
    path = Path(path)
    values = {k: v for k, v in read_toml(path).items() if k not in ELSEWHERE}
    try:
        return build(Federation, values)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None


def gather(path: str | Path) -> Gathering:
    """The federation of a federation.toml, or of a plain folder of sites with default settings."""
    path = Path(path)
    setting = Federation(name=path.resolve().name) if path.is_dir() else read_federation(path)
    where = site_folders(path)
    clients = [_tested(client, setting) for client in read_sites(where)]
    return Gathering(setting, clients, _digest(where))


def site_folders(path: str | Path) -> list[Path]:
    """The folders of the sites of a federation.toml, or of a plain folder of sites."""
    path = Path(path)
    if path.is_dir():
        return find_sites(path)
    named, home = read_federation(path).run.sites, path.parent
    return find_sites(home / named if isinstance(named, str) else [home / s for s in named])


def _tested(client: Client, setting: Federation) -> Client:
    """A site without a test file keeps a part of its rows for it."""
    if client.test is not None:
        return client
    assert client.data.y is not None  # read with its label
    rows, rest = stratified(client.data.y, setting.run.test, seed=setting.seed, of=client.id)
    if not len(rows) or not len(rest):
        raise FedloreError(
            f"site '{client.id}' has no test file and too few rows to keep some: {len(client.data)}"
        )
    return replace(client, data=client.data[rest], test=client.data[rows])


def _digest(folders: Iterable[Path]) -> str:
    """A hash of all files of the sites: any change makes another run."""
    found = hashlib.sha256()
    for folder in folders:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            found.update(str(file.relative_to(folder.parent)).encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()
