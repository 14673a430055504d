"""[privacy] of a federation: what is asked for, what it excludes, and the filters that do it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from ..core.aggregate import Aggregate, Mean, refuse_individuals
from ..errors import ConfigError
from .ckks.filter import Ckks
from .dp.filter import Noising
from .dp.ledger import Ledger
from .dp.settings import Dp, check_dp
from .filters import Filter
from .secagg.filter import Identity, SecureAggregation
from .secagg.pact import LEAST, least

THRESHOLD = 2 / 3  # see pact.least


@dataclass(frozen=True)
class Privacy:
    """What stands between the sites and the coordinator; by default nothing does."""

    secure_aggregation: bool = False  # the coordinator sees sums alone
    threshold: float | None = None  # more than this share of a cohort must last; None: two thirds
    dp: Dp | None = None  # noise within a budget
    encryption: Literal["ckks"] | None = None  # the coordinator adds numbers that it cannot read

    def __post_init__(self) -> None:
        if self.threshold is not None:
            if not self.secure_aggregation:
                raise ConfigError("threshold belongs to secure_aggregation = true")
            SecureAggregation(threshold=self.threshold)
        if self.encryption is not None and self.encryption != "ckks":
            raise ConfigError(f"encryption must be ckks, got '{self.encryption}'")
        if self.encryption is not None and self.secure_aggregation:
            raise ConfigError(
                "encryption = 'ckks' and secure_aggregation both hide single uploads, and masked "
                "words cannot be encrypted as numbers: choose one"
            )
        if self.hides and self.dp is not None and self.dp.where == "central":
            raise ConfigError(
                f"dp with where = 'central' lets the coordinator check single uploads, which "
                f"{self.hidden_by} hides: use where = 'distributed'"
            )

    @property
    def hides(self) -> bool:
        """Whether the coordinator sees no single upload."""
        return self.secure_aggregation or self.encryption is not None

    @property
    def hidden_by(self) -> str:
        return "secure aggregation" if self.secure_aggregation else "encryption"

    @property
    def epsilon(self) -> float | None:
        """The budget, where there is one."""
        return None if self.dp is None else self.dp.epsilon

    def least(self, cohort: int) -> int:
        """How many sites of a cohort must last until the end; without masks nobody drops out."""
        if not self.secure_aggregation:
            return cohort
        return least(cohort, THRESHOLD if self.threshold is None else self.threshold)


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

    @property
    def cohort(self) -> int:
        return math.ceil(self.sample * self.sites - 1e-9)


def filters_of(
    privacy: Privacy,
    around: Around,
    *,
    ledger: Callable[[str], Ledger] = lambda site: Ledger(),
    run: str = "",
    identity: Identity | None = None,
    key: bytes | None = None,
) -> list[Filter]:
    """The filters in the order in which a site applies them; impossible pairs are refused.

    Noise comes before what hides single uploads: a sum cannot be clipped. Of encryption only the
    sites have the `key`.
    """
    found: list[Filter] = []
    if privacy.hides:
        refuse_individuals(around.aggregate, hidden_by=privacy.hidden_by)
    if privacy.dp is not None:
        dp = privacy.dp
        check_dp(
            dp,
            algorithm=around.algorithm,
            exact=around.exact,
            weights=around.weights,
            aggregate=around.aggregate,
        )
        # who is asked follows from the run's public seed, so sampling does not make it cheaper
        noise = dp.multiplier(around.rounds) if dp.level == "site" else 0.0
        smallest = around.least or privacy.least(around.cohort)
        found.append(Noising(dp, noise, smallest, ledger, run))
    if privacy.secure_aggregation:
        if around.cohort < LEAST:
            raise ConfigError(
                f"secure_aggregation needs at least {LEAST} sites in a round, got {around.cohort} "
                f"of {around.sites}: the sum of fewer tells what each one sent"
            )
        share = THRESHOLD if privacy.threshold is None else privacy.threshold
        found.append(SecureAggregation(share, around.weights, identity))
    if privacy.encryption is not None:
        found.append(Ckks(around.cohort, around.weights, key))
    return found
