"""What a bundle is: one site's personal model with everything needed to use it, and its bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from ..core.conformal import Holding
from ..data.rows.cells import Extra
from ..errors import ConfigError
from ..kernel.schema import Schema
from ..personal.classifier import Personal
from ..personal.regressor import PersonalRegressor
from ..personal.tasks import TaskName


@dataclass(frozen=True)
class Policies:
    """What to do about rows that are not as they should be."""

    extra: Extra = "ignore"  # a column that is no feature: pass over, or refuse
    signed: bool = False  # whether it is used only with the signature of its knowledge

    def __post_init__(self) -> None:
        if self.extra not in get_args(Extra):
            raise ConfigError(f"extra must be {' or '.join(get_args(Extra))}, got '{self.extra}'")


@dataclass(frozen=True, eq=False)
class Bundle:
    """A personal model, the names of its columns and classes, and the bytes it is stored as."""

    personal: Personal | PersonalRegressor
    schema: Schema
    client: str
    task: TaskName
    metrics: Mapping[str, float]
    card: str  # Markdown
    versions: Mapping[str, str]
    created: str
    fingerprint: str  # SHA-256 over everything
    policies: Policies = field(default_factory=Policies)
    shape: tuple[int, ...] = ()  # of one row as the network takes it
    members: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    holdings: tuple[Holding, ...] = ()  # what its sets and intervals promise, and to whom

    @property
    def knowledge_text(self) -> str:
        """The knowledge.toml inside."""
        return self.members["knowledge.toml"].decode()

    @property
    def tables(self) -> dict[str, bytes]:
        """The decision tables and models beside it, by the name of their file."""
        from .known import knowledge_members

        return {n: b for n, b in knowledge_members(self.members).items() if n != "knowledge.toml"}
