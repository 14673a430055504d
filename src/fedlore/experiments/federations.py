"""A federation.toml with the sites of a run in one process."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import nn

from ..answers import Bins
from ..core.scaler import Scaler
from ..data import stratify
from ..engine import Client, Fitted, NumberClient, fit
from ..errors import ConfigError, FedloreError, unknown
from ..federation.settings import Federation, read_federation
from ..kernel.schema import Schema
from ..knowledge.numbers import HEARD
from ..knowledge.scope import count_inputs, scaler_of_scope
from ..knowledge.signing import Signature, check_signed, find_signature
from ..personal.client import Member, P
from ..privacy.settings import Privacy
from .approaches import APPROACHES, Approach
from .sites import find_sites, knows, read_all_sites

_PARTS = 10  # of a site's numbers, by rank, that its test rows are taken from alike


@dataclass(frozen=True, eq=False)
class Gathering:
    """A federation with its sites read."""

    setting: Federation
    clients: list[Client] | list[NumberClient]
    digest: str  # of every file of every site
    bins: Bins | None = None  # of a number
    quiet: tuple[str, ...] = ()  # sites without knowledge
    signatures: Mapping[str, Signature] = field(default_factory=dict)  # of those that have one

    @property
    def approaches(self) -> list[Approach]:
        """What is run, in the usual order."""
        return approaches_of(self.setting)

    @property
    def size(self) -> tuple[int, int]:
        """Features and classes, or bins."""
        return len(self.schema.features), len(self.schema.classes)

    @property
    def schema(self) -> Schema:
        """The columns and classes that all sites agree on."""
        found = self.clients[0].knowledge.schema
        assert found is not None  # a knowledge file always has one
        return found

    @property
    def unit(self) -> str:
        """Of a number; empty where there is none."""
        schema = self.clients[0].knowledge.schema
        return "" if schema is None else schema.unit

    @property
    def learned(self) -> str:
        """What is learned, in words."""
        if self.bins is None:
            return f"{self.size[1]} classes"
        schema, unit = self.clients[0].knowledge.schema, f" {self.unit}" if self.unit else ""
        assert schema is not None
        return f"'{schema.label}' from {self.bins.lower:g} to {self.bins.upper:g}{unit}"

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
        """A fresh network; of a number the expert's word comes as columns of the rows."""
        features, outputs = count_inputs(self.schema), len(self.schema.classes)
        lipschitz = self.setting.model.lipschitz
        if lipschitz and self.bins is None and not self.schema.ordered:
            raise ConfigError(
                "[model] lipschitz = true is for ordered classes and numbers: these classes have "
                "no order (ordered = true in each knowledge.toml says that they rise)"
            )
        told = self.bins is not None and hears and not lipschitz
        return self.setting.model.make(
            features + HEARD * told, outputs, hears=hears and not told, seed=self.setting.seed
        )

    def train(self, members: Sequence[Member[P]], privacy: Privacy | None = None) -> Fitted[P]:
        """The network and algorithm of the file over these sites, as all of them would be."""
        setting = self.setting
        return fit(
            members,
            self.make_model(setting.model.hears),
            bins=self.bins,
            hears=self.bins is not None and setting.model.widens,
            algorithm=setting.algorithm.make(),
            plan=setting.plan,
            rounds=setting.rounds,
            scale=self.scaling,
            seed=setting.seed,
            sample=setting.sample,
            weights=setting.weights,
            privacy=privacy,
        )


def approaches_of(setting: Federation) -> list[Approach]:
    """What [run] compares, in the usual order; a name that there is not is an error."""
    known = [a.name for a in APPROACHES]
    named = known if setting.run.approaches is None else setting.run.approaches
    for name in named:
        if name not in known:
            raise ConfigError(f"[run] {unknown('approach', name, known)}")
    if setting.privacy.dp is not None and "lore" in named:
        raise ConfigError(
            "[privacy] dp: every trial of lore would spend a budget of its own; leave lore out of "
            "the approaches"
        )
    return [a for a in APPROACHES if a.name in named]


def gather(path: str | Path) -> Gathering:
    """The federation of a federation.toml, or of a plain folder of sites with default settings."""
    path = Path(path)
    setting = Federation(name=path.resolve().name) if path.is_dir() else read_federation(path)
    approaches_of(setting)  # refused before any row is read
    where = site_folders(path)
    for folder in where if setting.run.signed else ():
        if knows(folder):
            check_signed(folder / "knowledge.toml")
    sites = read_all_sites(where)
    bins = sites[0].bins
    if setting.target is not None and (bins is None or setting.target.cut() != bins):
        raise ConfigError("the sites' targets are not the [target] of the federation")
    clients = [_keep_test_rows(site.client, setting) for site in sites]
    numbers = [c for c in clients if isinstance(c, NumberClient)]
    classes = [c for c in clients if isinstance(c, Client)]
    quiet = tuple(folder.name for folder in where if not knows(folder))
    found = {folder.name: find_signature(folder / "knowledge.toml") for folder in where}
    signatures = {name: one for name, one in found.items() if one is not None}
    return Gathering(setting, numbers or classes, _digest(where), bins, quiet, signatures)


def site_folders(path: str | Path) -> list[Path]:
    """The folders of the sites of a federation.toml, or of a plain folder of sites."""
    path = Path(path)
    if path.is_dir():
        return find_sites(path)
    named, home = read_federation(path).run.sites, path.parent
    return find_sites(home / named if isinstance(named, str) else [home / s for s in named])


def _keep_test_rows(client: Client | NumberClient, setting: Federation) -> Client | NumberClient:
    """A site without a test file keeps a part of its rows for it."""
    if client.test is not None:
        return client
    y = client.data.y
    assert y is not None  # read with its label
    if isinstance(client, NumberClient):
        y = y.argsort().argsort() * _PARTS // max(len(y), 1)  # as many from low as from high
    rows, rest = stratify(y, setting.run.test, seed=setting.seed, of=client.id)
    if not len(rows) or not len(rest):
        raise FedloreError(
            f"site '{client.id}' has no test file and too few rows to keep some: {len(client.data)}"
        )
    if isinstance(client, NumberClient):
        return replace(client, data=client.data[rest], test=client.data[rows])
    return replace(client, data=client.data[rest], test=client.data[rows])


def _digest(folders: Iterable[Path]) -> str:
    """A hash of all files of the sites: any change makes another run."""
    found = hashlib.sha256()
    for folder in folders:
        kept = (p for p in folder.rglob("*") if p.is_file() and not _is_drafted(p, folder))
        for file in sorted(kept):
            found.update(str(file.relative_to(folder.parent)).encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def _is_drafted(file: Path, folder: Path) -> bool:
    """Whether a file is the studio's own: drafts and versions change nothing that is trained."""
    return file.relative_to(folder).parts[0] == "studio"
