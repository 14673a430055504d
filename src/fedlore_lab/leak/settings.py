"""The settings that the leak audit compares: how a federation trains, and what its server sees."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fedlore.algorithms import FedPer
from fedlore.errors import ConfigError, unknown
from fedlore.experiments import FL_MASK, FLWKM, LORE, LORE_1, Approach

#: What the coordinator sees in a round: every upload, their sum, or the sum less that of one site
#: that shares its own upload with the coordinator.
View = Literal["single", "sum", "collusion"]


@dataclass(frozen=True)
class LeakSetting:
    """One way to train, and one way to look at it."""

    name: str
    about: str
    approach: Approach = field(default_factory=lambda: FLWKM)
    view: View = "single"
    floor: float = 0.0  # ε in training
    pairs: bool = False  # federations of two sites in place of one of all
    epsilon: float | None = None  # of site-level differential privacy
    clip: float = 1.0  # largest norm of an upload under it
    masked: bool = False  # trained under secure aggregation itself, not only looked at as a sum

    @property
    def training(self) -> tuple[object, ...]:
        """What the weights depend on: settings that differ in the view alone share theirs."""
        approach = replace(self.approach, name="")
        made = (self.floor, self.pairs, self.epsilon, self.clip, self.masked)
        return (approach, *made)

    @property
    def uses_trust(self) -> bool:
        """Whether λ enters training at all."""
        approach = self.approach
        return approach.trained and approach.trust != 0.0 and not approach.chosen


_HYBRID = replace(FLWKM, plain=0.5)
#: The layers that take the expert's word in and give classes out never leave.
_ENDS = replace(LORE_1, algorithm=FedPer(private=("first", "last")))
#: The recipe as `fedlore federation init` writes it: candidates without a part of their own at home
#: keep those layers there.
_WRITTEN = replace(LORE, algorithm=FedPer(private=("first", "last")))
_HIDDEN = "sums only (secure aggregation, or CKKS with the key at the sites)"

SETTINGS = (
    LeakSetting("plain", "FLwKM by FedAvg, every upload seen: the paper"),
    LeakSetting("hybrid", "half of the loss is ordinary cross-entropy", _HYBRID),
    LeakSetting("floor", "classes outside the range weigh 0.1 in the training loss", floor=0.1),
    LeakSetting("hears", "FLwKM whose network hears the expert", replace(FLWKM, hears=True)),
    LeakSetting(
        "private head", "FedPer: the last layer never leaves", replace(FLWKM, algorithm=FedPer())
    ),
    LeakSetting("mask", "no knowledge in training, the range at prediction (FL+mask)", FL_MASK),
    LeakSetting("lore 1", "hears, hybrid loss, λ = 0 in training", LORE_1),
    LeakSetting("lore", "the recipe: sums of one round, trials, votes, a mixture at home", LORE),
    LeakSetting("private ends", "lore 1 by FedPer: first and last layer never leave", _ENDS),
    LeakSetting("sum", f"plain, {_HIDDEN}", view="sum"),
    LeakSetting(
        "sum, collusion", "the same, and one site tells the server its upload", view="collusion"
    ),
    LeakSetting("sum of 2", "the same in federations of two sites", view="sum", pairs=True),
    LeakSetting("hybrid, sum", f"hybrid, {_HIDDEN}", _HYBRID, view="sum"),
    LeakSetting("floor, sum", f"floor, {_HIDDEN}", view="sum", floor=0.1),
    LeakSetting("hears, sum", f"hears, {_HIDDEN}", replace(FLWKM, hears=True), view="sum"),
    LeakSetting(
        "private head, sum",
        f"private head, {_HIDDEN}",
        replace(FLWKM, algorithm=FedPer()),
        view="sum",
    ),
    LeakSetting("mask, sum", f"mask, {_HIDDEN}", FL_MASK, view="sum"),
    LeakSetting("lore 1, sum", f"lore 1, {_HIDDEN}", LORE_1, view="sum"),
    LeakSetting(
        "lore, sum",
        "lore as `fedlore federation init` writes it: secure aggregation, private ends",
        _WRITTEN,
        view="sum",
        masked=True,
    ),
    LeakSetting(
        "lore, collusion", "the same sums, and one site tells its answers", _WRITTEN, "collusion"
    ),
    LeakSetting("private ends, sum", f"private ends, {_HIDDEN}", _ENDS, view="sum"),
    LeakSetting("private ends, collusion", "the same, and one site tells", _ENDS, view="collusion"),
    LeakSetting(
        "DP 8, sum", "site-level DP, ε = 8 at δ = 1e-5, sums only", view="sum", epsilon=8.0
    ),
    LeakSetting("DP 100, sum", "the same with ε = 100", view="sum", epsilon=100.0),
    LeakSetting("DP 10000, sum", "the same with ε = 10,000", view="sum", epsilon=10_000.0),
)


DEFAULT = "lore, sum"  # what `fedlore federation init` writes


def settings_named(names: Sequence[str]) -> list[LeakSetting]:
    """Settings by name, in the usual order; all of them where none is named."""
    known = [s.name for s in SETTINGS]
    for name in names:
        if name not in known:
            raise ConfigError(unknown("setting", name, known))
    return [s for s in SETTINGS if not names or s.name in names]
