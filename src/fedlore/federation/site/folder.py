"""A site's folder: its own file, rows and knowledge, and what it must not forget."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...answers import Bins
from ...config import build, read_toml
from ...core.store import clear_parts
from ...core.tree import Payload
from ...core.wire import Reply, Task, digest
from ...data.rows import FileForm, read_measured, read_table
from ...engine import Client, NumberClient
from ...errors import ConfigError, FedloreError, unknown
from ...kernel.schema import Schema
from ...knowledge import Knowledge
from ...knowledge.signing import check_signed
from ...knowledge.sources.catalog import forbidden_in
from ...privacy.filters import Placement
from ...privacy.settings import FILTERS
from ..journal import Damaged, read_state, write_state
from ..remote import Refusal
from ..terms import Terms, fedlore_version, read_terms, version_of_terms
from .policy import Policy


@dataclass(frozen=True)
class SiteFile:
    """site.toml. Paths are relative to it; nothing in them leaves the site."""

    name: str  # of this site in the federation
    address: str = ""  # of the coordinator, host:port; on another grid nobody asks for it
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

    def authority(self) -> bytes | None:
        """What signs for the coordinator; None where there is no TLS."""
        return None if self.file.insecure else self.path("ca.crt").read_bytes()

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

    def knowledge(self, asked: Schema, bins: Bins | None = None) -> Knowledge:
        """What this site's expert knows; nothing without a file.

        Features of the federation that the file leaves out are absent at this site. Of a number
        its bounds and bins must be the federation's.
        """
        if self.file.knowledge is None:
            return Knowledge() if bins is None else Knowledge().of_number(bins)
        self.check_sources()
        self.check_signature()
        path = self.path(self.file.knowledge)
        known = Knowledge.read(path, asked.features)
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
        schema = schema.shared  # what else is said of columns is the site's own
        known = self.knowledge(schema, bins)
        if known.schema is not None:
            check_same(known.schema, schema)
            own = agree_schema(known.schema, schema)
            known, schema = replace(known, schema=own), _title(schema, own)
        else:
            known = replace(known, schema=schema)
        read: Callable[..., Any] = read_table if bins is None else read_measured

        def rows(name: str, **more: Any) -> Any:
            return read(self.path(name), schema, label=schema.label, form=self.file.rows, **more)

        behind = {"measured": known.measured, "edges": known.edges} if known.measured else {}
        data = rows(self.file.data, **behind)
        test = None if self.file.test is None else rows(self.file.test)
        kind = Client if bins is None else NumberClient
        return kind(self.file.name, data, known, test=test)


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
    titled = (
        replace(
            f,
            column=mine.column or f.column,
            date=mine.date or f.date,
            have=mine.have,
            own=mine.own,
        )
        for f, mine in pairs
    )
    return replace(asked, features=tuple(titled))


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
        if not mine.have and not theirs.may_miss:
            raise ConfigError(
                f"feature '{mine.name}' is absent here, and the federation refuses rows without "
                'it: its coordinator must say missing = "mean" of it in [schema], "level" where '
                "it has levels"
            )
        features.append(replace(mine, missing=theirs.missing, other=theirs.other))
    return replace(own, features=tuple(features))


def check_same(own: Schema, asked: Schema) -> None:
    """Refuse a federation whose columns or classes are not those the expert wrote for."""
    difference = find_other_names(own, asked, "here", "in the federation")
    if difference is not None:
        raise ConfigError(f"this site's knowledge and the federation differ in {difference}")


def find_other_names(own: Schema, other: Schema, first: str, second: str) -> str | None:
    """In which features or classes two schemas differ, said by where each is; None in none."""
    for what, mine, theirs in (
        ("features", own.names, other.names),
        ("classes", own.classes, other.classes),
    ):
        alone = [name for name in mine if name not in theirs]
        others = [name for name in theirs if name not in mine]
        if alone or others:
            parts = [f"'{name}' is {first} only" for name in alone[:1]]
            parts += [f"'{name}' {second} only" for name in others[:1]]
            return f"{what}: {', '.join(parts)}"
        if mine != theirs:
            return f"the order of their {what}: {', '.join(mine)}; {', '.join(theirs)}"
    return None


KEEP = 5  # settled versions, for a coordinator whose last journal entries were damaged


class Store:
    """Memory and the last reply of one training; another starts from nothing.

    A task names the last round of this site that the coordinator used, and the version after that
    round is the one that counts. So void rounds, late replies and resumed runs change nothing.
    """

    def __init__(self, folder: Path, run: str, trial: str = "") -> None:
        self._folder = folder
        self._run = hashlib.sha256(run.encode()).hexdigest()[:16]
        # a trial that was not agreed to is refused before its name gets here
        self._name = self._run + (f".{trial.replace('/', '_')}" if trial else "")

    def settle(self, accepted: int) -> Payload:
        """The memory that the coordinator knows of."""
        if accepted == 0:
            return {}
        try:
            return read_state(self._path(accepted))[1]
        except Damaged:
            raise Refusal(
                f"this site's memory of round {accepted} is lost: start a new run (train without "
                "--resume), or leave this site out"
            ) from None

    def keep(self, memory: Payload) -> None:
        """Write down what a training left at this site that is needed after it."""
        write_state(self._folder / f"final-{self._name}", {}, memory)

    def kept(self) -> Payload | None:
        """What a training left at this site, None where it was not there at its end."""
        try:
            return read_state(self._folder / f"final-{self._name}")[1]
        except Damaged:
            return None

    def commit(self, task: Task, accepted: int, memory: Payload, reply: Reply) -> None:
        """Write down what was answered before it is sent."""
        write_state(self._path(task.round), {"round": task.round}, memory)
        about = {"key": digest(task), "round": reply.round, "rows": reply.rows}
        about["metrics"] = {k: float(v) for k, v in reply.metrics.items()}
        write_state(self._folder / f"reply-{self._name}", about, reply.upload)
        clear_parts(self._folder, "*-*")
        versions = sorted(self._folder.glob(f"memory-{self._name}-*"))
        settled = [p for p in versions if int(p.name.rpartition("-")[2]) <= accepted]
        for path in settled[:-KEEP]:
            path.unlink(missing_ok=True)
        for path in self._folder.glob("*-*"):
            what, _, of = path.name.partition("-")
            other_run = of.partition(".")[0].partition("-")[0] != self._run
            other_trial = of.partition("-")[0] != self._name
            # other trainings are over; of this run what they left may still be needed
            over = other_run if what == "final" else other_trial
            if what in ("memory", "reply", "final") and over:
                path.unlink(missing_ok=True)

    def again(self, site: str, task: Task) -> Reply | None:
        """The reply to the very same task, if it was answered last: nothing is drawn twice."""
        try:
            about, upload = read_state(self._folder / f"reply-{self._name}")
        except Damaged:
            return None
        if about["key"] != digest(task):
            return None
        return Reply(site, about["round"], upload, about["rows"], about["metrics"])

    def _path(self, round: int) -> Path:
        return self._folder / f"memory-{self._name}-{round:06d}"
