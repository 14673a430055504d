"""A defence: what a federation asks for, and all that is known of a filter before it is made.

A new one is a frozen dataclass whose fields are its table in [privacy.filters.NAME]. Packages offer
theirs under the entry point `fedlore.filters`; fedlore's own stand in `catalog.FILTERS`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

from ..algorithms import Algorithm, facts_of
from ..core.aggregate import Aggregate, Mean
from .filters import Filter


@dataclass(frozen=True)
class Around:
    """The federation that privacy is wanted in, as far as it matters."""

    sites: int
    rounds: int = 1
    sample: float = 1.0  # share of the sites asked in each round
    weights: str = "equal"
    aggregate: Aggregate = field(default_factory=Mean)
    algorithm: str = "FedAvg"
    exact: bool = False  # the algorithm lives on exact means of uploads
    least: int | None = None  # a round with fewer answers is void anyway
    sums: bool = False  # sums of rows are asked for before the first round
    hidden: bool = False  # whether a filter hides single uploads

    @property
    def cohort(self) -> int:
        return math.ceil(self.sample * self.sites - 1e-9)


def around_of(
    algorithm: Algorithm,
    *,
    sites: int,
    rounds: int,
    weights: str,
    aggregate: Aggregate,
    sample: float = 1.0,
    least: int | None = None,
    sums: bool = False,
) -> Around:
    """What filters need to know of a federation with this algorithm."""
    name, exact = type(algorithm).__name__, facts_of(algorithm).mean
    return Around(sites, rounds, sample, weights, aggregate, name, exact, least, sums)


@dataclass(frozen=True)
class Standing:
    """Where filters are made: in one process for all sites, at one site, or at the coordinator."""

    role: Literal["process", "site", "coordinator"] = "process"
    folder: Path | None = None  # what must not be forgotten lies here; None: it is forgotten
    site: str = ""  # whose folder it is
    files: Mapping[str, str] = field(default_factory=dict)  # names that the owner gave, by filter
    run: str = ""  # a name for one training

    def path(self, filter: str, usual: str) -> Path:
        """The file in which a site keeps a filter's secret."""
        return (self.folder or Path()) / self.files.get(filter, usual)


class Defence(Protocol):
    """Settings of one filter. Making it refuses what cannot be."""

    name: ClassVar[str]  # as refusals call it
    hides: ClassVar[bool]  # the server no longer sees single uploads
    kinds: ClassVar[Mapping[str, str]]  # tasks that it adds, and what the replies to them hold

    def make(self, around: Around, place: Standing) -> Filter: ...


@runtime_checkable
class Lasting(Protocol):
    """A defence that loses a round if too many drop out of it."""

    def least(self, cohort: int) -> int:
        """How many of a cohort must last until the end."""
        ...


@runtime_checkable
class Sharing(Protocol):
    """A defence whose sites share a secret that the coordinator never has."""

    def share(self, place: Standing) -> tuple[Path, str]:
        """Make the secret at one site; its file, and a name by which to compare it."""
        ...


@runtime_checkable
class Remarking(Protocol):
    """A defence that has something to say of a site's folder before the site joins."""

    def remark(self, place: Standing) -> str: ...
