"""A site's folder, and its own file in it."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from ...answers import Bins, Measured
from ...config import build, read_toml
from ...core.examples import Examples
from ...data.rows import FileForm, read_measured, read_table
from ...engine import Client, NumberClient
from ...errors import ConfigError, FedloreError, unknown
from ...kernel.schema import Schema
from ...knowledge import Knowledge
from ...knowledge.signing import check_signed
from ...knowledge.sources.catalog import forbidden_in
from ...privacy.filters import Placement
from ...privacy.settings import FILTERS
from ..terms import Terms, fedlore_version, read_terms, version_of_terms
from .policy import Policy


@dataclass(frozen=True)
class SiteFile:
    """site.toml. Paths are relative to it; nothing in them leaves the site."""

    name: str  # of this site in the federation
    address: str  # of the coordinator, host:port
    data: str = "data/train.csv"  # rows to train on
    test: str | None = None  # rows to score on
    knowledge: str | None = None  # a knowledge.toml
    trust: float | None = None  # λ in place of the one in knowledge.toml
    agreed: str | None = None  # the hash of the terms that its owner agreed to
    insecure: bool = False  # without TLS, on one machine only
    signed: bool = False  # whether knowledge that nobody signed is refused
    signers: tuple[str, ...] = ()  # public keys that may sign it; none: any
    secrets: dict[str, str] = field(default_factory=dict)  # files of filters, by filter
    rows: FileForm = field(default_factory=FileForm)  # how its tables are written
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        known = [*FILTERS, *self.policy.filters]
        for name in self.secrets:
            if name not in known:
                raise ConfigError(f"secrets: {unknown('filter', name, known)}")


@dataclass(frozen=True)
class Kit:
    """A site's folder."""

    folder: Path
    file: SiteFile

    @property
    def state(self) -> Path:
        """Where the site keeps what it must not forget."""
        return self.folder / "state"

    def path(self, name: str) -> Path:
        return self.folder / name

    def terms(self) -> Terms:
        """The terms as they were when the kit was made; those of a training come with its tasks."""
        text = (self.folder / "terms.json").read_text(encoding="utf-8")
        try:
            return read_terms(text)
        except FedloreError as error:
            made = version_of_terms(text) or "an unknown version"
            raise ConfigError(
                f"terms.json was written by fedlore {made} and does not fit {fedlore_version()} "
                f"({error}): install the coordinator's version, or let it make a new kit (fedlore "
                f"federation renew {self.file.name})"
            ) from None

    def place(self, run: str = "") -> Placement:
        """Where the filters of this site keep what is theirs."""
        return Placement("site", self.folder, self.file.name, self.file.secrets, run)

    def check_sources(self) -> None:
        """Refuse knowledge of a kind that the policy does not name; nothing is loaded."""
        if self.file.knowledge is None:
            return
        barred = forbidden_in(self.path(self.file.knowledge), self.file.policy.sources)
        if barred:
            raise ConfigError(
                f"policy: source '{barred[0]}' in {self.file.knowledge} is of another package and "
                "not named in sources"
            )

    def check_signature(self) -> None:
        """Refuse a draft where site.toml wants signed knowledge."""
        if self.file.signed and self.file.knowledge is not None:
            check_signed(self.path(self.file.knowledge), self.file.signers)

    def knowledge(self, bins: Bins | None = None) -> Knowledge:
        """What this site's expert knows; nothing without a file.

        Of a number its bounds and bins must be the federation's.
        """
        if self.file.knowledge is None:
            return Knowledge() if bins is None else Knowledge().of_number(bins)
        self.check_sources()
        self.check_signature()
        path = self.path(self.file.knowledge)
        known = Knowledge.read(path)
        if (known.bins is None) != (bins is None):
            kinds = ("classes", "a number") if known.bins is None else ("a number", "classes")
            raise ConfigError(f"{path.name} is about {kinds[0]}, the federation learns {kinds[1]}")
        if known.bins != bins:
            raise ConfigError(
                f"{path.name}: the bounds or bins of its [target] are not the federation's"
            )
        return known if self.file.trust is None else replace(known, trust=self.file.trust)

    def client(self, schema: Schema, bins: Bins | None = None) -> Client | NumberClient:
        """This site's rows and knowledge under the federation's schema."""
        known = self.knowledge(bins)
        if known.schema is not None:
            check_same(known.schema, schema)
            schema = _title(schema, known.schema)
        known = replace(known, schema=agree_schema(known.schema, schema))
        if bins is not None:
            return self._measured(schema, known)

        def rows(name: str) -> Examples:
            return read_table(self.path(name), schema, label=schema.label, form=self.file.rows)

        data = rows(self.file.data)
        test = None if self.file.test is None else rows(self.file.test)
        return Client(self.file.name, data, known, test=test)

    def _measured(self, schema: Schema, known: Knowledge) -> NumberClient:
        def rows(name: str) -> Measured:
            path = self.path(name)
            return read_measured(path, schema, label=schema.label, form=self.file.rows)

        test = None if self.file.test is None else rows(self.file.test)
        return NumberClient(self.file.name, rows(self.file.data), known, test)


def read_kit(folder: Path) -> Kit:
    """The kit in a folder."""
    path = folder / "site.toml"
    if not path.exists():
        raise ConfigError(f"'{folder}' is no site's kit: it holds no site.toml")
    try:
        return Kit(folder, build(SiteFile, read_toml(path)))
    except FedloreError as error:
        raise ConfigError(f"site.toml: {error}") from None


def _title(asked: Schema, own: Schema) -> Schema:
    """The federation's schema, with the titles that this site's files have."""
    pairs = zip(asked.features, own.features, strict=True)
    return replace(
        asked, features=tuple(replace(f, column=mine.column or f.column) for f, mine in pairs)
    )


def agree_schema(own: Schema | None, asked: Schema) -> Schema:
    """The expert's own names and scope, with the federation's word on levels and missing values."""
    if own is None:
        return asked
    features = []
    for mine, theirs in zip(own.features, asked.features, strict=True):
        if mine.levels != theirs.levels:
            raise ConfigError(
                f"feature '{mine.name}' has the levels {', '.join(mine.levels) or 'of no kind'} "
                f"here, in the federation {', '.join(theirs.levels) or 'none'}"
            )
        features.append(replace(mine, missing=theirs.missing, other=theirs.other))
    return replace(own, features=tuple(features))


def check_same(own: Schema, asked: Schema) -> None:
    """Refuse a federation whose columns or classes are not those the expert wrote for."""
    for what, mine, theirs in (
        ("features", own.names, asked.names),
        ("classes", own.classes, asked.classes),
    ):
        if mine != theirs:
            place = next(
                (i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b),
                min(len(mine), len(theirs)),
            )
            raise ConfigError(
                f"the federation's {what} are not those of this site's knowledge: they differ from "
                f"number {place + 1} on (here {len(mine)}, there {len(theirs)})"
            )
