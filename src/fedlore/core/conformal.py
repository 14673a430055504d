"""Answers that hold: how wide they must be so that a chosen share of new rows lies in them.

Split conformal prediction (Vovk, Gammerman, Shafer 2005; Lei et al. 2018): of n rows that no model
learned from, the ⌈(n+1)·level⌉-th smallest score is the cut. A new row like them lies within it
with a chance of at least the level, whatever the model. A label outside the range is in no set, so
its score is infinite: where too many are, no cut holds the level, and what the whole range holds is
said in its place.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..errors import ConfigError, FedloreError
from ..words import say
from .statistics import at_most, exact_share, find_share

SURE = 0.99  # of the band in which the share of rows that are held lies
_LEAST = 1e-9  # half the width of an interval that a model is wholly sure of


def check_level(level: float) -> float:
    """A share of rows that can be promised of."""
    if not 0.0 < level < 1.0:
        raise ConfigError(f"the level of sets and intervals must lie in (0, 1), got {level:g}")
    return level


def least_rows(level: float) -> int:
    """How many rows it takes to promise a level.

    >>> least_rows(0.9), least_rows(0.99)
    (9, 99)
    """
    return math.ceil(check_level(level) / (1.0 - level) - 1e-9)


def find_cut(scores: Tensor, level: float) -> float:
    """The ⌈(n+1)·level⌉-th smallest of n scores; refused where so few rows cannot promise it.

    At most 1, the whole range.
    """
    rank = _rank(len(scores), level)
    return min(float(scores.double().sort().values[rank - 1]), 1.0)


def held_band(rows: int, level: float, sure: float = SURE) -> tuple[float, float]:
    """Where the share of new rows that are held lies for one set of calibration rows.

    Over sets of such rows it has the distribution Beta(r, n + 1 - r) with r = ⌈(n+1)·level⌉.

    >>> [round(end, 2) for end in held_band(1000, 0.9)]
    [0.87, 0.92]
    """
    rank = _rank(rows, level)

    # of Beta(r, n + 1 - r) P(X <= p) is that of at least r successes in n, each with a chance of p
    def end(below: float) -> float:
        return find_share(lambda p: at_most(rank - 1, rows, p) > 1.0 - below)

    return end((1.0 - sure) / 2.0), end((1.0 + sure) / 2.0)


#: Whose rows a cut stands on: rows that nothing learned from, or a site's training rows, each seen
#: by models that had not learned from it.
CutRows = Literal["kept", "unseen"]
HELD_LEVELS = (0.8, 0.9, 0.95)  # that a bundle holds cuts for, where its rows allow them


@dataclass(frozen=True)
class CoveragePromise:
    """What rows allow to be promised of sets and intervals."""

    level: float
    cut: float  # of the scores
    rows: int
    whose: CutRows = "kept"
    outside: int = 0  # rows whose label lies outside the range, where no set reaches

    @staticmethod
    def of(scores: Tensor, level: float, whose: CutRows = "kept") -> "CoveragePromise":
        """What rows with these scores allow at a level; of a label outside the range infinite."""
        outside = int(scores.isinf().sum())
        return CoveragePromise(level, find_cut(scores, level), len(scores), whose, outside)

    @property
    def holds(self) -> bool:
        """Whether so many labels lie inside the range that the level can be held."""
        return _rank(self.rows, self.level) <= self.rows - self.outside

    def sentence(self) -> str:
        """What is promised, and to whom."""
        beyond = say(
            "{outside} of these {rows} labels lie outside the range",
            outside=self.outside,
            rows=self.rows,
        )
        about = {"level": f"{self.level:g}", "rows": self.rows, "beyond": beyond, "sure": SURE}
        if not self.holds:
            inside = self.rows - self.outside
            low, high = exact_share(inside, self.rows, miss=1.0 - SURE)
            return say(
                "Cannot reach {level}: {beyond}, and no answer leaves the range; the whole range "
                "is given and contains {share} of them, and between {low} and {high} of new rows "
                "like them (confidence {sure})",
                **about,
                share=f"{inside / self.rows:.3f}",
                low=f"{low:.3f}",
                high=f"{high:.3f}",
            )
        about["known"] = f" ({beyond})" if self.outside else ""
        if self.whose == "unseen":
            return say(
                "Holds for about {level} of new rows like the {rows} of this site: measured with "
                "models not trained on those rows, while the final model is trained on all of "
                "them, so this is no guarantee{known}",
                **about,
            )
        low, high = held_band(self.rows, self.level)
        return say(
            "Holds with {level} for new rows like the {rows} it was calibrated on, if no model was "
            "trained on them; given these {rows}, the share covered lies between {low} and {high} "
            "(confidence {sure}){known}",
            **about,
            low=f"{low:.3f}",
            high=f"{high:.3f}",
        )


def list_promises(scores: Tensor, whose: CutRows) -> tuple[CoveragePromise, ...]:
    """The cuts at every level that a bundle stores and that so many rows allow."""
    levels = [level for level in HELD_LEVELS if len(scores) >= least_rows(level)]
    return tuple(CoveragePromise.of(scores, level, whose) for level in levels)


def class_misses(probabilities: Tensor, y: Tensor) -> Tensor:
    """How far each label lies from its answer, (n,): the probability that it lacks, in [0, 1).

    Infinite where it has none: it lies outside the range.
    """
    said = probabilities.double().gather(1, y.unsqueeze(1)).squeeze(1)
    return torch.where(said > 0.0, (1.0 - said).clamp(0.0, 1.0), torch.inf)


def number_misses(
    predicted: Tensor, interval: Tensor, y: Tensor, *, low: Tensor, high: Tensor
) -> Tensor:
    """The same of a number: d / (1 + d), its distance d in halves of the model's own interval.

    Infinite outside `low` to `high`, the ends of the range.
    """
    far = (y.double() - predicted).abs() / half_width(interval)
    return torch.where((low <= y) & (y <= high), far / (1.0 + far), torch.inf)


def half_width(interval: Tensor) -> Tensor:
    """Half the width of each interval, (n, 2) -> (n,), never 0."""
    low, high = interval.unbind(1)
    return ((high - low) / 2.0).clamp(min=_LEAST)


def _rank(rows: int, level: float) -> int:
    rank = math.ceil((rows + 1) * check_level(level) - 1e-9)
    if rank > rows:
        most = rows / (rows + 1)
        raise FedloreError(
            f"{rows} rows cannot promise a level of {level:g}: {least_rows(level)} are needed, "
            f"and {rows} allow at most {math.floor(1000 * most) / 1000:g}"
        )
    return rank
