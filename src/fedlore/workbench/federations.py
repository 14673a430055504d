"""A federation.toml with the sites of a run in one process."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from ..core.scaler import Scaler
from ..data import stratify
from ..engine import Client
from ..errors import ConfigError, FedloreError, unknown
from ..federation.settings import Federation, read_federation
from ..knowledge.scope import scaler_of_scope
from .approaches import APPROACHES, LORE, LORE_1, Approach
from .sites import find_sites, read_sites


@dataclass(frozen=True, eq=False)
class Gathering:
    """A federation with its sites read."""

    setting: Federation
    clients: list[Client]
    digest: str  # of every file of every site

    @property
    def approaches(self) -> list[Approach]:
        """What is run, in the usual order."""
        return approaches_of(self.setting)

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


def approaches_of(setting: Federation) -> list[Approach]:
    """What [run] compares, in the usual order; a name that there is not is an error."""
    known = [a.name for a in APPROACHES]
    named = known if setting.run.approaches is None else setting.run.approaches
    for name in named:
        if name not in known:
            raise ConfigError(f"[run] {unknown('approach', name, known)}")
    if setting.privacy.dp is not None and setting.run.recipe == "chosen" and "lore" in named:
        raise ConfigError(
            "[privacy] dp: every trial of lore would spend a budget of its own; use recipe "
            '= "fixed" or leave lore out of the approaches'
        )
    # under the name that its folders of results have had since 0.1.0
    ours = replace(LORE_1, name="lore") if setting.run.recipe == "fixed" else LORE
    return [ours if a is LORE else a for a in APPROACHES if a.name in named]


def gather(path: str | Path) -> Gathering:
    """The federation of a federation.toml, or of a plain folder of sites with default settings."""
    path = Path(path)
    setting = Federation(name=path.resolve().name) if path.is_dir() else read_federation(path)
    approaches_of(setting)  # refused before any row is read
    where = site_folders(path)
    clients = [_keep_test_rows(client, setting) for client in read_sites(where)]
    return Gathering(setting, clients, _digest(where))


def site_folders(path: str | Path) -> list[Path]:
    """The folders of the sites of a federation.toml, or of a plain folder of sites."""
    path = Path(path)
    if path.is_dir():
        return find_sites(path)
    named, home = read_federation(path).run.sites, path.parent
    return find_sites(home / named if isinstance(named, str) else [home / s for s in named])


def _keep_test_rows(client: Client, setting: Federation) -> Client:
    """A site without a test file keeps a part of its rows for it."""
    if client.test is not None:
        return client
    assert client.data.y is not None  # read with its label
    rows, rest = stratify(client.data.y, setting.run.test, seed=setting.seed, of=client.id)
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
