"""What all sites agree on: federation.toml, and the terms that go with every task."""

import dataclasses
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from ..algorithms import Plan, facts_of
from ..algorithms.catalog import Method
from ..config import build, read_toml
from ..core.nets import logistic, mlp
from ..core.scaler import Scaler
from ..engine import Recipe
from ..engine.defences import records_of
from ..engine.loop import Weights
from ..errors import ConfigError
from ..knowledge.schema import Schema
from ..knowledge.scope import scaler_of_scope
from ..privacy import Privacy
from ..version import __version__


def fedlore_version() -> str:
    """What is compared between a coordinator and its sites."""
    return __version__


def describe_difference(*, site: str, coordinator: str) -> str:
    """Why two versions do not work together, and what to do about it."""
    return (
        f"this site runs fedlore {site}, the coordinator {coordinator}: install the same version "
        "on both sides"
    )


def name_both_versions(reason: str) -> str:
    """A site's refusal, with the coordinator's version where the site could not read it.

    0.1.0 compares versions once it has read all of the terms, so that a key it does not know
    hides the reason.

    >>> name_both_versions("the terms do not fit fedlore 0.1.0 at this site: unknown key 'x'")
    'this site runs fedlore 0.1.0, the coordinator ...: install the same version on both sides'
    """
    found = re.match(r"the terms do not fit fedlore (\S+) at this site", reason)
    if found is None or found[1] == fedlore_version():
        return reason
    return describe_difference(site=found[1], coordinator=fedlore_version())


@dataclass(frozen=True)
class Model:
    """[model]: the network whose weights travel."""

    kind: Literal["mlp", "logistic"] = "mlp"
    hidden: tuple[int, ...] = (64, 64)
    hears: bool = False  # whether it gets what the expert says as input

    def make(self, schema: Schema, seed: int) -> nn.Module:
        features, classes = len(schema.features), len(schema.classes)
        if self.kind == "logistic":
            return logistic(features, classes, seed=seed)
        return mlp(features, classes, hidden=self.hidden, hears=self.hears, seed=seed)


@dataclass(frozen=True)
class Agreement:
    """federation.toml."""

    name: str
    address: str  # host:port where sites reach the coordinator
    schema: Schema
    task: Literal["classification"] = "classification"
    model: Model = field(default_factory=Model)
    algorithm: Method = field(default_factory=Method)
    plan: Plan = field(default_factory=Plan)
    privacy: Privacy = field(default_factory=Privacy)
    rounds: int = 10
    sample: float = 1.0  # share of the sites asked in each round
    seed: int = 0
    weights: Weights = "equal"
    scale: bool = True  # standardise features by sums that the sites add up first
    evaluate: int = 0  # score every so many rounds; the last is always scored
    quorum: float = 0.5  # share of the asked sites without whose answer a round does not count
    deadline: float = 120.0  # seconds that a round waits for slow sites
    largest: float = 1000.0  # the largest norm of an upload

    def __post_init__(self) -> None:
        host, colon, port = self.address.rpartition(":")
        if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(f"address must be host:port, got '{self.address}'")
        for name, low, high in (("sample", 0, 1), ("quorum", 0, 1)):
            if not low < getattr(self, name) <= high:
                raise ConfigError(f"{name} must lie in (0, 1], got {getattr(self, name)}")
        for name in ("deadline", "largest"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}")
        if self.rounds < 1:
            raise ConfigError(f"rounds must be at least 1, got {self.rounds}")
        if self.privacy.dp is not None and self.scale:
            scaler_of_scope(self.schema)  # refused now, not when sites have joined

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
        return max(quorum, self.privacy.least(asked)) if self.privacy.secure_aggregation else quorum


def read_agreement(folder: Path) -> Agreement:
    """The federation.toml of a coordinator's folder."""
    path = folder / "federation.toml"
    if not path.exists():
        raise ConfigError(
            f"'{folder}' holds no federation.toml: fedlore federation init '{folder}'"
        )
    try:
        # [run] says what `fedlore run` compares in one process: the same file serves both
        return build(Agreement, {k: v for k, v in read_toml(path).items() if k != "run"})
    except ConfigError as error:
        raise ConfigError(f"federation.toml: {error}") from None


@dataclass(frozen=True)
class Terms:
    """What a site is told with every task, and all that it trains by."""

    run: str  # a name for one training, also across restarts
    federation: str
    version: str
    participants: int
    rounds: int
    seed: int
    weights: Weights
    schema: Schema
    model: Model
    algorithm: Method
    plan: Plan
    privacy: Privacy = field(default_factory=Privacy)
    sample: float = 1.0  # share of the sites asked in each round
    least: int = 0  # a round with fewer answers does not count
    largest: float = 1000.0  # the largest norm of an upload: sites check it where it is hidden
    shift: tuple[float, ...] | None = None  # the common scaling, once it is known
    spread: tuple[float, ...] | None = None

    def text(self) -> str:
        """JSON; Python writes floats so that reading gives the same bits."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    def scaled(self, scaler: Scaler) -> "Terms":
        shift, spread = tuple(scaler.shift.tolist()), tuple(scaler.spread.tolist())
        return dataclasses.replace(self, shift=shift, spread=spread)

    def recipe(self) -> Recipe:
        """The same recipe on either side: even the initial weights follow from the seed."""
        scaler = None
        if self.shift is not None and self.spread is not None:
            shift, spread = (
                torch.tensor(v, dtype=torch.float64) for v in (self.shift, self.spread)
            )
            scaler = Scaler(shift, spread)
        return Recipe(
            self.model.make(self.schema, self.seed),
            self.algorithm.make(),
            self.plan,
            self.seed,
            scaler,
            self.weights,
            records=records_of(self.privacy, self.rounds),
        )


def read_terms(text: str) -> Terms:
    """Terms as they arrive; what does not fit is an error."""
    try:
        return build(Terms, json.loads(text))
    except (json.JSONDecodeError, AttributeError):
        raise ConfigError("the terms are not readable") from None


def version_of_terms(text: str) -> str | None:
    """The version that wrote terms, also where nothing else of them can be read."""
    try:
        found = json.loads(text)["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    plain = isinstance(found, str) and re.fullmatch(r"[0-9A-Za-z.+-]{1,40}", found)
    return found if plain else None


def terms_of(agreement: Agreement, *, run: str, participants: int) -> Terms:
    a = agreement
    return Terms(
        run,
        a.name,
        fedlore_version(),
        participants,
        a.rounds,
        a.seed,
        a.weights,
        a.schema,
        a.model,
        a.algorithm,
        a.plan,
        a.privacy,
        a.sample,
        a.least(participants) if participants else 0,
        a.largest,
    )
