"""lore, our own recipe: what must be common is chosen by the sites' votes, the rest in private.

Common are whether the network hears the expert, the share α of ordinary cross-entropy in the
loss, and whether the expert's word is read through his confusion. Short trials of a few
candidates decide: each site reports one validation loss per candidate, on rows of its own that
the trial did not train on, and the least mean wins. λ at prediction and the last local steps
stay private: each site takes what its own held-out rows favour and says nothing about it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from ...errors import ConfigError
from .curves import GRID, Cached, hits, most_hits
from .folds import check_folds


@dataclass(frozen=True)
class ClassCandidate:
    """What all sites would have in common. λ in training is 0: the range alone is in the loss."""

    hears: bool = False  # the network gets the expert's rows as inputs
    plain: float = 0.0  # α: share of ordinary cross-entropy in the loss; 1 is FL+mask
    reread: bool = False  # the expert's word through his confusion, a distribution in the range

    def __str__(self) -> str:
        hearing = "hearing" if self.hears else "deaf"
        return f"{hearing}, α = {self.plain:g}{', confusion' if self.reread else ''}"


#: From simple to rich: at a tie the first wins.
CANDIDATES = (
    *(ClassCandidate(False, plain) for plain in (0.0, 0.2, 0.5, 1.0)),
    *(ClassCandidate(True, plain) for plain in (0.0, 0.2, 0.5, 1.0)),
    *(ClassCandidate(True, plain, reread=True) for plain in (0.2, 0.5, 1.0)),
    ClassCandidate(False, 0.2, reread=True),
)


@dataclass(frozen=True)
class Trials:
    """How candidates are compared.

    All are tried on one fold, the better ones (`shortlist`) on the others too, and the winner at
    full length on every fold, for the private choices. Cost in trainings of full length:
    (1 - 1/folds)·(length·(candidates + (folds - 1)·shortlist) + folds), then the main one; with
    the defaults that is 2/3·(1/2·(12 + 2·3) + 3) = 8 and 1.
    """

    candidates: tuple[ClassCandidate, ...] = CANDIDATES
    folds: int = 3
    length: float = 0.5  # rounds of a trial, as a share of the main training's
    shortlist: int = 3
    finishes: tuple[int, ...] = (0, 80)  # last local steps to choose from
    finish_rate: float = 0.1  # their learning rate, as a share of the plan's
    grid: tuple[float, ...] = GRID  # λ at prediction to choose from

    def __post_init__(self) -> None:
        check_folds(self.folds)
        if not self.candidates or not self.finishes or not self.grid:
            raise ConfigError("candidates, finishes and grid must hold at least one value")
        if not 0.0 < self.length <= 1.0:
            raise ConfigError(f"length must lie in (0, 1], got {self.length}")
        if self.shortlist < 1:
            raise ConfigError(f"shortlist must be at least 1, got {self.shortlist}")

    def limited(self, hears: bool) -> "Trials":
        """Only candidates whose network hears, or only those whose network does not."""
        return replace(self, candidates=tuple(c for c in self.candidates if c.hears == hears))


@dataclass(frozen=True)
class PrivateTrust:
    """What one site chose for itself, and the one number per candidate that it reports."""

    reliance: float  # λ at prediction
    finish: int  # last local steps
    loss: float  # share of its held-out rows that were predicted wrong


def choose(reports: Mapping[ClassCandidate, Sequence[float]]) -> ClassCandidate:
    """The candidate with the least mean of the sites' losses; the first of equals.

    >>> deaf, hearing = ClassCandidate(), ClassCandidate(hears=True)
    >>> str(choose({deaf: [0.2, 0.4], hearing: [0.3, 0.1]}))
    'hearing, α = 0'
    """
    return rank_candidates(reports)[0]


def rank_candidates(reports: Mapping[ClassCandidate, Sequence[float]]) -> list[ClassCandidate]:
    """Candidates by the mean of the sites' losses, equals as they came."""
    return sorted(reports, key=lambda candidate: mean_loss(reports[candidate]))


def mean_loss(losses: Sequence[float]) -> float:
    """The plain mean: every site counts the same."""
    if not losses:
        raise ConfigError("no site has rows to hold out: the recipe cannot be chosen")
    return sum(losses) / len(losses)


def settle_trust(cached: Mapping[int, Cached], grid: Sequence[float] = GRID) -> PrivateTrust:
    """One site's λ and last steps, from its held-out logits after each number of steps.

    More steps must be worth it: their gain has to exceed its own standard error.
    """
    best: tuple[PrivateTrust, torch.Tensor] | None = None
    for steps in sorted(cached):
        reliance = most_hits(cached[steps], grid)
        right = hits(cached[steps], [reliance])[0].double()  # (n,)
        found = PrivateTrust(reliance, steps, 1.0 - float(right.mean()))
        if best is None:
            best = (found, right)
            continue
        gain = right - best[1]
        error = float(gain.std(correction=0)) / len(gain) ** 0.5
        if float(gain.mean()) > error:
            best = (found, right)
    assert best is not None  # there is at least one number of steps
    return best[0]
