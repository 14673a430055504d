"""Sites as folders, and a federation.toml with all of them: what `fedlore run` compares on.

`check_sites` says what `fedlore lint --data` would warn of at each, before the first round.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from ..answers import HEARD, Bins, Measured
from ..core.examples import Examples
from ..core.scaler import Scaler
from ..data import stratify
from ..data.rows import find_rows, read_measured, read_scorable, read_table
from ..engine import Client, Fitted, NumberClient
from ..engine.lore import SearchSpace
from ..errors import ConfigError, FedloreError, KnowledgeError, unknown
from ..federation.settings import Federation, read_federation
from ..federation.site.folder import find_other_names
from ..kernel.findings import Finding, Place, errors
from ..kernel.schema import Schema
from ..knowledge.files import read_document
from ..knowledge.findings.checkup import Checkup, check_data
from ..knowledge.models import Knowledge
from ..knowledge.scope import count_inputs, scaler_of_scope
from ..knowledge.signing import Signature, check_signed, find_signature
from ..privacy.settings import Privacy
from .approaches import APPROACHES, Approach
from .runner import POINTS, Drawing, train_approach

_PARTS = 10  # of a site's numbers, by rank, that its test rows are taken from alike


def read_site(folder: str | Path, like: Knowledge | None = None) -> Client | NumberClient:
    """One site, named as its folder. The knowledge file says what the columns are called.

    A site without one has the columns of the knowledge `like`, and knows nothing. Of these
    columns a site does not have those that its own file leaves out.
    """
    folder = Path(folder)
    held = like
    if held is None or knows(folder):
        asked = () if like is None else like.require_schema().features
        held = Knowledge.read(folder / "knowledge.toml", asked)
    known, schema = held, held.require_schema()
    if not knows(folder):
        known = Knowledge(schema=schema, line=held.line)
    train, test = (find_rows(folder, part) for part in ("train", "test"))
    if train is None:
        raise FedloreError(f"site '{folder.name}' has no train.csv (or .xlsx, .parquet, ...)")
    label = schema.label
    if known.line is not None:
        data = read_measured(train, schema, label=label)
        kept = None if test is None else _read_test(test, schema, number=True)
        with _by_line(known, data, train):
            return NumberClient(folder.name, data, known, kept)
    rows = read_table(train, schema, label=label, measured=known.measured, edges=known.edges)
    exam = None if test is None else _read_test(test, schema, number=False)
    with _by_line(known, rows, train):
        return Client(folder.name, rows, known, test=exam)


@contextmanager
def _by_line(known: Knowledge, rows: Examples | Measured, file: Path) -> Iterator[None]:
    """What knowledge refuses of rows, said by the lines of their file where lint finds it."""
    try:
        yield
    except KnowledgeError:
        for one in errors(check_data(Checkup([], known), rows, str(file)).findings):
            raise KnowledgeError(str(one).removeprefix(f"{one.severity}: ")) from None
        raise


def _read_test(path: Path, schema: Schema, *, number: bool) -> Any:
    """Test rows; those that cannot be scored are left out, `check_sites` counts them."""
    found, wrong = read_scorable(path, schema, schema.label, number=number)
    if not len(found):
        first = min(wrong)
        raise FedloreError(f"'{path}': no row can be scored; row {first}: {wrong[first]}")
    return found


def knows(folder: Path) -> bool:
    """Whether a site has knowledge; one that has none takes part as in plain federated learning."""
    return (folder / "knowledge.toml").exists()


def read_all_sites(folders: Sequence[Path]) -> list[Client | NumberClient]:
    """All sites, which must agree on features and classes; one at least says what those are."""
    first = next((folder for folder in folders if knows(folder)), None)
    if first is None:
        raise FedloreError(
            "no site has a knowledge.toml, which says what columns and classes are called: one of "
            f"them must, such as '{folders[0].name}'"
        )
    like = Knowledge.read(first / "knowledge.toml")
    files = [folder / "knowledge.toml" for folder in folders if knows(folder)]
    # one site names all there are, so that a misspelt name is none that the others do not have
    most = max((read_document(file, unchecked=True).features for file in files), key=len)
    schema = replace(like.require_schema(), features=most).shared
    like = Knowledge(schema=schema, line=like.line)
    sites = [read_site(folder, like) for folder in folders]
    check_agree(sites)
    return sites


def read_sites(where: str | Path | Sequence[str | Path]) -> list[Client]:
    """All sites with classes of a folder, or those of a list."""
    return [client for client in read_all_sites(find_sites(where)) if isinstance(client, Client)]


def find_sites(where: str | Path | Sequence[str | Path]) -> list[Path]:
    """The folders of the sites."""
    if not isinstance(where, str | Path):
        if not where:
            raise FedloreError("there must be at least one site, the list is empty")
        return [Path(site) for site in where]
    folders = sorted(path for path in Path(where).glob("*") if path.is_dir())
    found = [folder for folder in folders if knows(folder) or find_rows(folder, "train")]
    if not found:
        settings = Path(where) / "federation.toml"
        meant = f"; did you mean '{settings}'?" if settings.is_file() else ""
        if knows(Path(where)):  # a site itself
            meant = f"; did you mean '{Path(where).parent}'?"
        raise FedloreError(
            f"no site in '{where}': a site is a folder with a train.csv and a knowledge.toml{meant}"
        )
    return found


def check_agree(sites: Sequence[Client | NumberClient]) -> None:
    """Refuse sites that do not learn the same thing from the same columns."""
    first = sites[0]
    bins = first.knowledge.bins
    for site in sites[1:]:
        names = f"sites '{first.id}' and '{site.id}'"
        if (site.knowledge.bins is None) != (bins is None):
            raise FedloreError(f"{names}: one has classes to learn, the other a number")
        if site.knowledge.bins != bins:
            raise FedloreError(f"{names} differ in the bounds or bins of their target")
        own, other = (s.knowledge.require_schema() for s in (first, site))
        difference = find_difference(own, other)
        if difference is not None:
            raise FedloreError(f"{names} differ in {difference}")


def find_difference(own: Schema, other: Schema) -> str | None:
    """In what two sites' columns or classes differ, so that no network can be common; or None."""
    difference = find_other_names(own, other, "at the first", "at the second")
    if difference is not None:
        return difference
    for one, two in zip(own.features, other.features, strict=True):
        for key in ("levels", "other", "missing"):
            if getattr(one, key) != getattr(two, key):
                said = [getattr(side, key) for side in (one, two)]
                said = [", ".join(v) if key == "levels" else v for v in said]
                found = f"{key} of '{one.name}': {said[0]}; {said[1]}"
                hint = " (one of them does not have it: let all say the same of its missing values)"
                return found + (hint if key == "missing" and one.have != two.have else "")
    return None


@dataclass(frozen=True, eq=False)
class Gathering:
    """A federation with its sites read."""

    setting: Federation
    clients: Sequence[Client | NumberClient]
    digest: str  # of every file of every site
    bins: Bins | None = None  # of a number
    quiet: tuple[str, ...] = ()  # sites without knowledge
    signatures: Mapping[str, Signature] = field(default_factory=dict)  # of those that have one
    sites: Sequence[Client | NumberClient] = ()  # with the rows of their files, before any is kept

    @property
    def approaches(self) -> list[Approach]:
        """What is run, in the usual order."""
        return approaches_of(self.setting)

    def with_run(self, **keys: Any) -> "Gathering":
        """The same with other keys of [run]."""
        setting = replace(self.setting, run=replace(self.setting.run, **keys))
        return replace(self, setting=setting)

    def at_seed(self, seed: int) -> "Gathering":
        """The same sites under another seed: another drawing of weights, and of test rows."""
        if seed == self.setting.seed:
            return self
        setting = replace(self.setting, seed=seed)
        clients = [_keep_test_rows(site, setting) for site in self.sites]
        return replace(self, setting=setting, clients=clients)

    @property
    def size(self) -> tuple[int, int]:
        """Features and classes, or bins."""
        return len(self.schema.features), len(self.schema.classes)

    @property
    def schema(self) -> Schema:
        """The columns and classes that all sites agree on."""
        return self.clients[0].knowledge.require_schema().shared

    @property
    def unit(self) -> str:
        """Of a number; empty where there is none."""
        return self.schema.unit

    @property
    def target_words(self) -> str:
        """What is learned, in words."""
        if self.bins is None:
            return f"{self.size[1]} {'ordered ' if self.schema.ordered else ''}classes"
        unit = f" {self.unit}" if self.unit else ""
        return f"'{self.schema.label}' from {self.bins.lower:g} to {self.bins.upper:g}{unit}"

    @property
    def scaling(self) -> bool | Scaler:
        """How features are scaled: under a privacy budget by what the schema declares."""
        if self.setting.privacy.dp is None or not self.setting.scale:
            return self.setting.scale
        schemas = [c.knowledge.require_schema().shared for c in self.clients]
        if any(one.features != self.schema.features for one in schemas):
            raise ConfigError(
                "[privacy] dp scales features by declared bounds, which must be the same at all "
                "sites (low and high in each knowledge.toml), or scale must be false: bounds of "
                "one's own rows would tell about them"
            )
        return scaler_of_scope(self.schema)

    def make_model(self, hears: bool) -> nn.Module:
        """A fresh network; of a number the expert's word comes as columns of the rows."""
        features, outputs = count_inputs(self.schema), len(self.schema.classes)
        lipschitz = self.setting.model.lipschitz
        if lipschitz and self.bins is None and not self.schema.ordered:
            raise ConfigError(
                "[model] lipschitz = true is for ordered classes and numbers: these classes have "
                "no order (ordered = true in each knowledge.toml says that they rise)"
            )
        widened = self.bins is not None and hears and not lipschitz
        return self.setting.model.make(
            features + HEARD * widened, outputs, hears=hears and not widened, seed=self.setting.seed
        )

    @property
    def search_space(self) -> SearchSpace | None:
        """What lore chooses from, where the file says it."""
        if self.setting.search_space is None:
            return None
        return self.setting.offered(self.schema, number=self.bins is not None)

    def drawing(self) -> Drawing:
        """What the runner of experiments takes."""
        setting = self.setting
        return Drawing(
            self.clients,
            self.make_model,
            setting.plan,
            setting.rounds,
            setting.seed,
            scale=self.scaling,
            bins=self.bins,
            every=math.ceil(setting.rounds / POINTS),
            sample=setting.sample,
            weights=setting.weights,
            privacy=setting.privacy,
            search_space=self.search_space,
            metric=setting.metric,
            hidden=setting.model.hidden,
            shaped=setting.model.lipschitz,
        )

    def train(self, members: Sequence[Any], privacy: Privacy | None = None) -> Fitted[Any]:
        """The network and algorithm of the file over these sites, as all of them would be."""
        algorithm, hears = self.setting.algorithm.make(), self.setting.model.hears
        drawn = replace(self.drawing(), clients=members, every=0, privacy=privacy)
        return train_approach(Approach("", "", algorithm, trained=True, hears=hears), drawn)


def approaches_of(setting: Federation) -> list[Approach]:
    """What [run] compares, in the usual order; a name that there is not is an error."""
    known = [a.name for a in APPROACHES]
    named = known if setting.run.approaches is None else setting.run.approaches
    for name in named:
        if name not in known:
            raise ConfigError(f"[run] {unknown('approach', name, known)}")
    if setting.recipe == "lore" and "lore" not in named:
        raise ConfigError(
            'recipe = "lore" asks for lore, and [run] approaches leaves it out: name it there, or '
            'say recipe = "none"'
        )
    trials = setting.search_space is None or len(setting.search_space.candidates) > 1
    if setting.privacy.dp is not None and trials and "lore" in named:
        raise ConfigError(
            "[privacy] dp: every trial of lore would spend the budget again; leave lore out of "
            '[run] approaches, or say recipe = "lore" and one candidate in [search_space]'
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
    bins = sites[0].knowledge.bins
    if setting.target is not None and (bins is None or setting.target.cut() != bins):
        raise ConfigError("the sites' targets are not the [target] of the federation")
    clients = [_keep_test_rows(site, setting) for site in sites]
    quiet = tuple(folder.name for folder in where if not knows(folder))
    found = {folder.name: find_signature(folder / "knowledge.toml") for folder in where}
    signatures = {name: one for name, one in found.items() if one is not None}
    return Gathering(setting, clients, _digest(where), bins, quiet, signatures, sites)


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
    if y.is_floating_point():
        y = y.argsort().argsort() * _PARTS // max(len(y), 1)  # as many from low as from high
    rows, rest = stratify(y, setting.run.test, seed=setting.seed, of=client.id)
    if not len(rows) or not len(rest):
        raise FedloreError(
            f"site '{client.id}' has no test file and too few rows to keep some: {len(client.data)}"
        )
    return client.select(rest, rows)


def _digest(folders: Iterable[Path]) -> str:
    """A hash of all files of the sites: any change makes another run."""
    found = hashlib.sha256()
    for folder in folders:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            if file.relative_to(folder).parts[0] == "studio":
                continue  # its drafts and versions change nothing that is trained
            found.update(str(file.relative_to(folder.parent)).encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


# first what spoils every answer, then what spoils a column; all else comes behind
_ORDER = ("label-beyond", "label-outside", "unscored", "one-class", "label-column", "out-of-scope")
_RANK = {kind: place for place, kind in enumerate(_ORDER)}


def check_sites(
    gathering: Gathering, folders: Sequence[Path], checked: Mapping[str, Checkup]
) -> dict[str, list[Finding]]:
    """Errors and warnings of each site that has some, the gravest first.

    `checked` is what the files of knowledge say without data, by the site.
    """
    found = {}
    for folder, site in zip(folders, gathering.sites, strict=True):
        bare = Checkup([], site.knowledge)
        some = list(checked[site.id].findings) if site.id in checked else []
        for part, rows in (("train", site.data), ("test", site.test)):
            file = find_rows(folder, part)
            if rows is not None and file is not None:
                gone = _unscored(site.knowledge, file) if part == "test" else []
                some += gone or check_data(bare, rows, file.name).findings
        grave = [one for one in some if one.severity != "info"]
        if grave:
            found[site.id] = sorted(grave, key=lambda one: _RANK.get(one.kind, len(_RANK)))
    return found


def _unscored(known: Knowledge, file: Path) -> list[Finding]:
    """How many test rows cannot be scored."""
    schema = known.require_schema()
    _, wrong = read_scorable(file, schema, schema.label, number=known.line is not None)
    if not wrong:
        return []
    args = {"rows": sorted(wrong), "why": wrong[min(wrong)]}
    return [Finding("warning", "unscored", Place(file.name, row=min(wrong)), args)]


def checkup_lines(found: Mapping[str, Sequence[Finding]], folders: Sequence[Path]) -> list[str]:
    """At most two lines a site, and how to see the rest."""
    lines = []
    for folder in folders:
        some = found.get(folder.name, ())
        shown = [f"{folder.name}: {one.place}: {one.message}" for one in some[:2]]
        if len(some) > 2:
            rows = find_rows(folder, "train")
            shown[1] += f"; {len(some) - 2} more: fedlore lint {folder / 'knowledge.toml'}"
            shown[1] += f" --data {rows}"
        lines += shown
    return lines
