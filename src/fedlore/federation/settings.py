"""federation.toml: one file for a run in one process and for a deployed federation."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from torch import nn

from ..algorithms import Plan, facts_of
from ..algorithms.catalog import Method
from ..config import build, read_toml
from ..core.models import MODELS, ModelKind, ShapedNet, make_kind, make_network
from ..engine.loop import Weights
from ..engine.lore import UNORDERED, SearchSpace, default_space
from ..errors import ConfigError, unknown
from ..kernel.schema import Feature, Schema
from ..knowledge.files import Target
from ..knowledge.scope import count_inputs, inputs_of, scaler_of_scope
from ..models.classifier import TaskName
from ..privacy import Privacy

_FAULT = "federation-file"  # the code of errors raised here

ROUNDS = 20  # where nobody says otherwise, here and in what `init` writes
TRACKERS = ("mlflow", "tensorboard")
NEEDED = ("name", "address", "schema")  # what a deployed federation cannot do without


@dataclass(frozen=True)
class Model:
    """[model]: the network whose weights travel."""

    kind: str = "mlp"  # mlp, logistic, or a kind from another package
    hidden: tuple[int, ...] = (64, 64)  # of an mlp
    hears: bool = False  # whether it gets what the expert says as input
    lipschitz: bool = False  # whether it keeps the sites' shapes: an mlp for ordered answers
    settings: dict[str, Any] = field(default_factory=dict)  # of a kind from another package

    def __post_init__(self) -> None:
        if self.kind in MODELS:  # others are looked for once a site's policy has agreed
            if self.settings:
                raise ConfigError(
                    f"settings are for kinds of other packages: '{self.kind}' has its keys beside "
                    f"kind, got '{min(self.settings)}'"
                )
            self.load()

        if self.lipschitz and self.kind != "mlp":
            raise ConfigError(
                "lipschitz = true is for kind = mlp, whose slopes are bounded whatever its weights "
                f"are: one of kind '{self.kind}' could turn any shape round"
            )

    @property
    def widens(self) -> bool:
        """Whether what is said of a number comes as columns of its rows, beside the features."""
        return self.hears and not self.lipschitz

    def load(self) -> ModelKind:
        """The kind with its settings; one of another package is imported for it."""
        if self.lipschitz:
            return ShapedNet(self.hidden)
        own = {"hidden": self.hidden} if self.kind == "mlp" else {}
        return make_kind(self.kind, own | self.settings)

    def make(
        self, features: int, classes: int, *, seed: int, hears: bool | None = None
    ) -> nn.Module:
        """A fresh network; an approach may ask for one that hears whatever the table says."""
        wanted = self.hears if hears is None else hears
        return make_network(self.kind, self.load(), features, classes, hears=wanted, seed=seed)


@dataclass(frozen=True)
class RunTable:
    """[run]: what a run in one process compares, and where its sites are."""

    sites: str | tuple[str, ...] = "sites"  # a folder of site folders, or a list of them
    approaches: tuple[str, ...] | None = None  # None: all there are
    signed: bool = False  # whether knowledge that nobody signed is refused
    test: float = 0.25  # share of the rows to test on at a site that has no test file
    metric: str = ""  # what decides lore's choices, local best and the order of its table
    seeds: int = 1  # how often all is drawn, from `seed` on: two or more give intervals
    time_limit: str = ""  # such as "90s", "10m", "2h": what does not fit is left out, and named
    track: str = ""  # mlflow or tensorboard: told of the run, in a store below the results

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, got {self.seeds}")
        read_duration(self.time_limit)
        if self.track and self.track not in TRACKERS:
            raise ConfigError(unknown("tracker", self.track, TRACKERS))
        if self.approaches is not None and not self.approaches:
            raise ConfigError("approaches must name at least one")
        if not 0.0 < self.test < 1.0:
            raise ConfigError(f"test must lie between 0 and 1, got {self.test}")


def read_duration(text: str) -> float:
    """Seconds of a length of time; endless where none is said.

    >>> read_duration("90s"), read_duration("10m"), read_duration("1.5h"), read_duration("")
    (90.0, 600.0, 5400.0, inf)
    """
    if not text:
        return math.inf
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([smh])", text.strip())
    if found is None or float(found[1]) == 0:
        raise ConfigError(f"time_limit must be such as 90s, 10m or 2h, got {text!r}")
    return float(found[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[found[2]]


def _default_deployed(default: Any) -> Any:
    """A setting that only a deployed federation has a use for."""
    return field(default=default, metadata={"deployed": True})


@dataclass(frozen=True)
class Federation:
    """All that a federation.toml says."""

    name: str = "my federation"  # for people
    address: str = _default_deployed("")  # host:port where sites reach the coordinator
    schema: Schema | None = _default_deployed(None)
    task: TaskName = _default_deployed("classification")  # a [target] makes it regression
    recipe: Literal["lore", "none"] = _default_deployed("none")  # how a deployed one is trained
    target: Target | None = None  # of a number: its bounds and bins, the same at all sites
    search_space: SearchSpace | None = (
        None  # what lore chooses from; None: the usual for the schema
    )
    model: Model = field(default_factory=Model)
    algorithm: Method = field(default_factory=Method)
    plan: Plan = field(default_factory=Plan)
    privacy: Privacy = field(default_factory=Privacy)
    run: RunTable = field(default_factory=RunTable)
    rounds: int = ROUNDS  # T in the paper
    sample: float = 1.0  # share of the sites asked in each round
    seed: int = 0  # of weights, batches and cohorts
    weights: Weights = "equal"  # how sites count in a mean: alike, or by rows
    scale: bool = True  # standardise features by sums that the sites add up first
    evaluate: int = _default_deployed(0)  # score every so many rounds; the last is always scored
    quorum: float = _default_deployed(
        0.5
    )  # a round does not count with fewer of the asked sites' answers
    deadline: float = _default_deployed(120.0)  # seconds that a round waits for slow sites
    largest: float = _default_deployed(1000.0)  # the largest norm of an upload
    excess: float = _default_deployed(8.0)  # and how many times the usual norm it may be
    largest_answer: int = _default_deployed(64)  # megabytes of one, before any of it is looked at

    def __post_init__(self) -> None:
        host, colon, port = self.address.rpartition(":")
        if self.address and not (host and colon and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(f"address must be host:port, got '{self.address}'")
        for name in ("sample", "quorum"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ConfigError(f"{name} must lie in (0, 1], got {getattr(self, name)}")
        if not self.excess > 1.0:
            raise ConfigError(f"excess must be above 1, got {self.excess}")
        for name in ("deadline", "largest", "largest_answer"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}")
        if self.rounds < 1:
            raise ConfigError(f"rounds must be at least 1, got {self.rounds}")
        if self.task == "regression" and self.target is None:
            raise ConfigError('task = "regression" needs a [target], the bounds of the number')
        self.model.load()  # whoever reads this file chose what it names
        self.algorithm.make()
        self._check_schema()
        self._check_recipe()
        self._check_shapes()
        own = "" if self.search_space is None else self.search_space.metric
        if own and self.run.metric and own != self.run.metric:
            raise ConfigError(
                f"[run] metric is '{self.run.metric}' and [search_space] metric '{own}': say one"
            )

    @property
    def metric(self) -> str:
        """What decides, said in [run] or [search_space]; "": the usual."""
        own = "" if self.search_space is None else self.search_space.metric
        return self.run.metric or own

    def _check_schema(self) -> None:
        if self.schema is None:
            return
        if self.schema.absent:
            raise ConfigError(
                f"[schema]: have = false of '{self.schema.absent[0]}' belongs in the knowledge.toml"
                ' of a site that does not measure it; here say missing = "mean" of it ("level" '
                "where it has levels)"
            )
        for feature in self.schema.features:
            if feature.equals or feature.own is not None:
                raise ConfigError(
                    f"[schema]: another measure, as '{feature.name}', belongs in the "
                    "knowledge.toml of the site that has it"
                )

    def _check_recipe(self) -> None:
        if self.recipe == "none":
            return
        if self.privacy.records(self.rounds) is not None:
            raise ConfigError(
                'recipe = "lore" and dp with level = "record" do not go together: use level = '
                '"site", or recipe = "none"'
            )
        if self.privacy.spends and not self.single:
            count = "none" if self.search_space is None else len(self.search_space.candidates)
            raise ConfigError(
                'with [privacy] dp recipe = "lore" takes one fixed candidate, since every trial '
                "would spend the budget again: write it as [search_space] candidates = [{...}], "
                f"got {count}"
            )

    @property
    def single(self) -> bool:
        """Whether lore has one candidate, which needs no trials."""
        return self.search_space is not None and len(self.search_space.candidates) == 1

    def _check_shapes(self) -> None:
        named = () if self.search_space is None else self.search_space.candidates
        heads = {one.head for one in named} if named != UNORDERED else set()
        if not self.model.lipschitz:
            if "shaped" in heads:
                raise ConfigError(
                    "[search_space] head = shaped belongs to [model] lipschitz = true"
                )
            return
        if heads - {"shaped"}:
            raise ConfigError(
                "with [model] lipschitz = true candidates of [search_space] have head = shaped, got"
                f" '{min(heads - {'shaped'})}'"
            )
        if self.schema is not None and self.target is None and not self.schema.ordered:
            raise ConfigError(
                "[model] lipschitz = true is for ordered classes and numbers: say ordered = true "
                "in [schema] where the classes rise"
            )

    def offered(
        self, schema: Schema | None = None, *, number: bool | None = None
    ) -> SearchSpace | None:
        """What lore chooses from under a schema, the same in one process and deployed.

        A [search_space] that names no candidates has the usual ones for what is learned, and one
        that says metric alone all else that is usual.
        """
        schema = schema or self.schema
        if schema is None:
            return None
        number = self.target is not None if number is None else number
        ordered, shaped = schema.ordered and not number, self.model.lipschitz
        inputs = inputs_of(schema)
        flags = () if inputs is None else inputs.flags
        found = default_space(
            count_inputs(schema), ordered=ordered, numbers=number, shaped=shaped, flags=flags
        )
        said = self.search_space
        if said is not None and SearchSpace(metric=said.metric) != said:
            named = said.candidates != UNORDERED
            found = said if named else replace(said, candidates=found.candidates)
        return replace(found, metric=self.metric).with_flags(flags)

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def least(self, sites: int) -> int:
        """How many answers a round needs."""
        if facts_of(self.algorithm.make()).everyone:
            return sites
        asked = math.ceil(self.sample * sites - 1e-9)
        quorum = max(1, math.ceil(self.quorum * asked - 1e-9))
        return max(quorum, self.privacy.needs(asked))

    def without_deployment(self) -> "Federation":
        """The same in one process: what only a deployed federation needs is left open."""
        blank: dict[str, Any] = {
            f.name: f.default for f in fields(self) if "deployed" in f.metadata
        }
        return replace(self, **blank)


def read_federation(path: str | Path) -> Federation:
    """The settings of a federation.toml."""
    path = Path(path)
    return _build(read_toml(path), path.name)


def read_deployed(folder: Path, *, address: bool = True) -> Federation:
    """The federation.toml of a coordinator's folder, which needs more than one process does.

    On a grid that somebody else runs it needs no address.
    """
    path = folder / "federation.toml"
    if not path.exists():
        raise ConfigError(
            f"'{folder}' holds no federation.toml: fedlore federation init '{folder}'"
        )
    values = read_toml(path)
    for name in NEEDED:
        if name not in values and (address or name != "address"):
            raise ConfigError(f"federation.toml: missing key '{name}', which sites must know")
    found = _build(values, path.name)
    if address and not found.address:
        raise ConfigError("federation.toml: address must be host:port, got ''")
    if found.recipe == "none" and found.search_space is not None:
        raise ConfigError(
            'federation.toml: [search_space] belongs to recipe = "lore", got recipe = "none"'
        )
    if found.scale and found.privacy.spends and found.schema is not None:
        try:
            scaler_of_scope(found.schema)  # refused now, not when sites have joined
        except ConfigError as error:
            raise ConfigError(f"federation.toml: {error}") from None
    return found


def _build(values: Mapping[str, Any], where: str) -> Federation:
    try:
        return build(Federation, _with_bins(values))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _with_bins(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same where a [target] says what is learned: its bins stand for classes."""
    if "target" not in values:
        return values
    if values.get("task", "regression") != "regression":
        raise ConfigError("a [target] is a number to learn: task must be regression")
    told = {**values, "task": "regression"}
    schema = values.get("schema")
    if not isinstance(schema, Mapping):
        return told
    if "classes" in schema:
        raise ConfigError("[schema] has classes and there is a [target]: one of them is learned")
    target = build(Target, values["target"], "target")
    features = build(FeatureList, {"features": schema.get("features", [])}, "schema").features
    made = target.schema(features)
    return told | {"schema": {**schema, "classes": list(made.classes), "label": made.label}}


@dataclass(frozen=True)
class FeatureList:
    """The columns of a schema whose classes are bins."""

    features: tuple[Feature, ...]
