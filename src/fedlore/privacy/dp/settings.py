"""Differential privacy for whole sites or for single records.

Site level: each site clips its whole upload and Gaussian noise goes onto the sum (McMahan et al.
2018, Learning Differentially Private Recurrent Language Models), added in shares at the sites or as
a whole at the server. Record level: the sites train by DP-SGD (Abadi et al. 2016), which is the
engine's to do; here their spending is written down.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ...core import tree
from ...core.aggregate import Aggregate
from ...core.tree import Payload
from ...errors import ConfigError, FedloreError
from .accounting import Release, check_delta, check_epsilon, epsilon_of, noise_for
from .ledger import Ledger, Level

_Where = Literal["distributed", "central"]

ROUNDING = 1e-6  # clipped uploads stay this much below the bound: casting to float32 rounds up too


@dataclass(frozen=True)
class Dp:
    """dp = {epsilon = 4, delta = 1e-5, level = "site"}: a budget, and how it is spent.

    Neighbours differ in one site's whole upload, or in one training row: there, or not there.
    """

    epsilon: float  # the budget of one site over all its rounds and runs; never exceeded
    delta: float  # the chance that epsilon does not hold
    level: Level = "site"  # what is hidden: a site's part, or one row's
    clip: float = 1.0  # largest norm of an upload, or of one record's gradient
    sums: float = 1000.0  # and of a site's sums of rows, for the model of one round
    noise: float | None = None  # σ, the multiplier of `clip`; None: what the budget asks for
    where: _Where = "distributed"  # site level: noise in shares at the sites, or at the server
    scores: bool = True  # sites report scores on their test rows, which the budget does not cover

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if self.level not in get_args(Level):
            raise ConfigError(f"level must be site or record, got '{self.level}'")
        if self.where not in get_args(_Where):
            raise ConfigError(f"where must be distributed or central, got '{self.where}'")
        for name in ("clip", "sums"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be positive and finite, got {getattr(self, name)}")
        if self.noise is not None and not 0.0 <= self.noise < math.inf:
            raise ConfigError(f"noise must not be negative, got {self.noise}")
        if self.noise == 0.0 and self.epsilon < math.inf:
            raise ConfigError(f"noise 0 keeps no finite epsilon, got {self.epsilon:g}")

    def bound(self, kind: str) -> float:
        """The largest norm of a site's upload in answer to such a task."""
        return self.sums if kind == "gram" else self.clip

    def multiplier(self, steps: int, sample: float = 1.0) -> float:
        """σ: the one given, or the smallest with which so many steps stay within the budget."""
        return (
            noise_for(self.epsilon, self.delta, steps, sample) if self.noise is None else self.noise
        )


def check_dp(
    dp: Dp, *, algorithm: str, exact: bool, weights: str, aggregate: Aggregate | None = None
) -> None:
    """Refuse a federation in which the guarantee, or the algorithm, would be wrong.

    `exact` says that the algorithm lives on exact means of uploads. At record level the noise is
    in the gradients, before anything is remembered or uploaded, so that any algorithm bears it.
    """
    if weights != "equal":
        raise ConfigError(
            f"differential privacy hides how many rows a site has, and bounds its weight: weights "
            f"must be equal, got '{weights}'"
        )
    if dp.level == "record":
        return
    if exact:
        raise ConfigError(
            f"{algorithm} keeps sums over sites that clipped and noised uploads would break, and "
            "its error has not been analysed: use level = record, or another algorithm"
        )
    if aggregate is not None and aggregate.needs_individuals:
        raise ConfigError(
            f"noise is calibrated to a sum of uploads: aggregate must be mean, got "
            f"'{aggregate.name}'"
        )


def clip_upload(upload: Payload, bound: float) -> Payload:
    """The whole upload, all bundles together, no longer than the bound."""
    if not tree.finite(upload):
        raise FedloreError("an upload that is not finite cannot be clipped: did training diverge?")
    length = math.hypot(*(tree.norm(bundle) for bundle in upload.values()))
    if length <= bound:
        return upload
    factor = bound / (length * (1 + ROUNDING))
    return {key: tree.scale(bundle, factor) for key, bundle in upload.items()}


def spent_line(dp: Dp, ledgers: Sequence[Ledger], *, sample: float = 1.0) -> str:
    """What the run's report says: ε = 3.1 at δ = 1e-05, site level, 40 rounds, sampling 1.0.

    The site that has spent most counts. `sample` is the share of sites asked in a round; at record
    level it is the chance of a row to be in a batch, from the ledger.
    """
    worst = max(ledgers, key=lambda ledger: ledger.spent(dp.level, dp.delta))
    entries = [e for e in worst.entries() if e.level == dp.level]
    if dp.level == "record":
        sample = max((e.sample for e in entries), default=sample)
    spent = worst.spent(dp.level, dp.delta)
    return _line(dp, spent, len(entries), sample)


def planned_line(dp: Dp, noise: float, rounds: int, *, sample: float = 1.0) -> str:
    """The same for rounds to come, where the sites' ledgers cannot be seen.

    At record level each site has noise of its own, and the budget itself is all that is known.
    """
    if dp.level == "record":
        return f"at most {_line(dp, dp.epsilon, rounds)}"
    spent = epsilon_of([Release(noise, rounds)], dp.delta)
    return f"at most {_line(dp, spent, rounds, sample)}"


def bare_line(dp: Dp, noise: float, least: int, rounds: int) -> str:
    """What a coordinator learns who sees single uploads, each with its own share of the noise."""
    if dp.level == "record":
        return ""
    if dp.where == "central":
        return "the coordinator sees single uploads without noise, and is trusted to add it"
    alone = epsilon_of([Release(noise / math.sqrt(least), rounds)], dp.delta)
    return (
        f"the coordinator sees single uploads, for which its own share of the noise gives ε = "
        f"{alone:.3g}: secure_aggregation or encryption would hide them"
    )


def _line(dp: Dp, epsilon: float, rounds: int, sample: float | None = None) -> str:
    drawn = "" if sample is None else f", sampling {round(sample, 4)}"
    return f"ε = {epsilon:.2g} at δ = {dp.delta:g}, {dp.level} level, {rounds} rounds{drawn}"
