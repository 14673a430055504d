"""[privacy] of a federation: the filters by name, what is asked for, and what is spent."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..core.aggregate import refuse_individuals
from ..core.plugins import make_named
from ..errors import ConfigError, FedloreError
from .ckks.filter import Encryption
from .dp.budget import Dp, Ledger, Level, read_marks
from .dp.filter import Noise
from .dp.records import Records
from .filters import (
    ChecksFolder,
    Defence,
    Filter,
    FilterContext,
    NeedsQuorum,
    Placement,
    SharesSecret,
)
from .secagg.filter import THRESHOLD, Masks

_GROUP = "fedlore.filters"
FACES = ("name", "hides", "kinds", "make")

#: A new filter of fedlore's own is its file and one line here.
FILTERS: dict[str, type[Any]] = {"dp": Noise, "secagg": Masks, "ckks": Encryption}

#: Tasks that these add to those of `core.wire`, and what the replies hold.
ADDED: dict[str, str] = {
    kind: holds for filter in FILTERS.values() for kind, holds in filter.kinds.items()
}


def defence_of(name: str, table: Mapping[str, Any]) -> Defence:
    """The defence of this name with its settings; a package's own is loaded here and not before."""
    found: Defence = make_named("filter", name, table, FILTERS, _GROUP)
    missing = [face for face in FACES if not hasattr(found, face)]
    if missing:
        raise ConfigError(f"filter '{name}' lacks {', '.join(missing)} (see Defence)")
    return found


#: Filters that have words of their own in [privacy], on which policies rely.
SPELLED = {"dp": "dp = {...}", "secagg": "secure_aggregation", "ckks": 'encryption = "ckks"'}


@dataclass(frozen=True)
class Privacy:
    """What stands between the sites and the coordinator; by default nothing does."""

    secure_aggregation: bool = False  # the coordinator sees sums alone
    threshold: float | None = None  # more than this share of a cohort must last; None: two thirds
    dp: Dp | None = None  # noise within a budget
    encryption: Literal["ckks"] | None = None  # the coordinator adds numbers that it cannot read
    filters: dict[str, dict[str, Any]] = field(default_factory=dict)  # tables of others, by name

    def __post_init__(self) -> None:
        if self.threshold is not None and not self.secure_aggregation:
            raise ConfigError("threshold belongs to secure_aggregation = true")
        if self.encryption is not None and self.encryption != "ckks":
            raise ConfigError(f"encryption must be ckks, got '{self.encryption}'")
        for name in self.filters:
            if name in SPELLED:
                raise ConfigError(f"[filters.{name}] is asked for by {SPELLED[name]} in [privacy]")
        check_together(self._spelled())

    def defences(self) -> list[Defence]:
        """All that is asked for, in the order of a site. Packages named in `filters` are loaded.

        Noise comes after what others change and before what hides single uploads: a sum cannot be
        clipped.
        """
        others = [defence_of(name, table) for name, table in self.filters.items()]
        found = [*(one for one in others if not one.hides), *self._spelled()]
        found += [one for one in others if one.hides]
        check_together(found)
        return found

    def _spelled(self) -> list[Defence]:
        found: list[Defence] = [] if self.dp is None else [Noise(self.dp)]
        if self.secure_aggregation:
            found.append(Masks(THRESHOLD if self.threshold is None else self.threshold))
        if self.encryption is not None:
            found.append(Encryption())
        return found

    @property
    def plugged(self) -> tuple[str, ...]:
        """Filters of other packages; a site loads those alone that its policy names."""
        return tuple(name for name in self.filters if name not in FILTERS)

    @property
    def epsilon(self) -> float | None:
        """The budget, where there is one."""
        return None if self.dp is None else self.dp.epsilon

    @property
    def sums_alone(self) -> bool:
        """Whether a filter of our own hides single uploads: no other package is loaded to ask."""
        return self.secure_aggregation or self.encryption is not None

    @property
    def delta(self) -> float:
        """δ of the budget, 0 where there is none."""
        return 0.0 if self.dp is None else self.dp.delta

    @property
    def noise_at(self) -> str | None:
        """Who adds the noise, None where nobody does."""
        return None if self.dp is None else self.dp.where

    @property
    def scores(self) -> bool:
        """Whether sites report scores on their test rows, which no budget covers."""
        return self.dp is None or self.dp.scores

    @property
    def spends(self) -> bool:
        """Whether a budget is in force, which every training spends and no exact sum may evade."""
        return self.dp is not None

    def records(self, rounds: int) -> Records | None:
        """What is asked of the local training, None where that is as usual."""
        if self.dp is None or self.dp.level != "record":
            return None
        return Records(self.dp, rounds)

    def needs(self, cohort: int) -> int:
        """How many of a cohort the filters need until the end; 0 where they do not mind."""
        lasting = [one for one in self.defences() if isinstance(one, NeedsQuorum)]
        return max((one.least(cohort) for one in lasting), default=0)


def check_together(defences: Sequence[Defence]) -> None:
    """Refuse what cannot be asked for at once."""
    hiding = [one.name for one in defences if one.hides]
    if len(hiding) > 1:
        raise ConfigError(
            f"{' and '.join(hiding)} both hide single uploads, and what one has hidden the other "
            "cannot add up: choose one"
        )
    central = any(isinstance(one, Noise) and one.dp.where == "central" for one in defences)
    if hiding and central:
        raise ConfigError(
            f"dp with where = 'central' lets the coordinator check single uploads, which "
            f"{hiding[0]} hides: use where = 'distributed'"
        )


def filters_of(
    privacy: Privacy | None, around: FilterContext, place: Placement | None = None
) -> list[Filter]:
    """The filters in the order in which a site applies them, or why there cannot be any."""
    if privacy is None:
        return []
    defences = privacy.defences()
    for one in defences:
        if one.hides:
            refuse_individuals(around.aggregate, hidden_by=one.name)
    least = around.least or privacy.needs(around.cohort) or around.cohort
    around = replace(around, least=least, hidden=any(one.hides for one in defences))
    return [one.make(around, place or Placement()) for one in defences]


def privacy_lines(filters: Sequence[Filter], *, rounds: int, sample: float = 1.0) -> list[str]:
    """What a report says about privacy."""
    bare = not any(one.hides for one in filters)
    return [x for f in filters for x in f.lines(rounds=rounds, sample=sample, bare=bare)]


def remarks_on(privacy: Privacy, place: Placement) -> list[str]:
    """What the filters say of a site's folder before it joins."""
    found = [one.remark(place) for one in privacy.defences() if isinstance(one, ChecksFolder)]
    return [line for line in found if line]


def share_secret(name: str, place: Placement) -> tuple[Path, str]:
    """Make what all sites share under a filter, at one of them: its file and its fingerprint."""
    found = defence_of(name, {})
    if not isinstance(found, SharesSecret):
        raise FedloreError(f"filter '{name}' has no secret that sites share")
    return found.share(place)


def privacy_table(secure: bool) -> str:
    """The table of a new federation.toml."""
    asked = str(secure).lower()
    return f"""\
[privacy]
secure_aggregation = {asked}  # true: the coordinator sees sums alone; needs 3 sites or more
# threshold = 0.67           # more than this share of the asked sites must last through a round
# dp = {{epsilon = 4, delta = 1e-5, level = "site"}}  # noise; scales by the schema's low and high
# encryption = "ckks"        # in place of secure_aggregation; sites: fedlore federation key
# filters.NAME = {{}}          # a filter of an installed package, with its settings
"""


__all__ = ["Spending", "read_marks", "read_spending"]


@dataclass(frozen=True)
class Spending:
    """What is spent of what is allowed, at one level."""

    level: Level
    spent: float  # ε
    allowed: float  # ε of the terms, or less if the policy has less
    delta: float
    answers: int
    trouble: str = ""  # why it cannot be told
    bare: str = ""  # when an answer last left without noise: before that nothing is bounded


def read_spending(
    path: Path, privacy: Privacy | None, *, most: float | None, delta: float
) -> Spending | None:
    """The ledger in ε under the terms, or under a policy's own limits where no noise is agreed.

    None where there is neither a budget nor a ledger; one that cannot be read counts as spent.
    """
    dp = None if privacy is None else privacy.dp
    if dp is None and not path.exists():
        return None
    level: Level = "site" if dp is None else dp.level
    delta = delta if dp is None else dp.delta
    allowed = min(math.inf if dp is None else dp.epsilon, math.inf if most is None else most)
    try:
        ledger = Ledger(path)
        return Spending(level, ledger.spent(level, delta), allowed, delta, len(ledger.entries()))
    except FedloreError as error:
        return Spending(level, math.inf, allowed, delta, 0, str(error).partition("\n")[0])
