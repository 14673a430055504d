"""Ranges for sites with data and no rule: split-conformal sets, statistical and marked so.

Vovk, Gammerman, Shafer (2005), *Algorithmic Learning in a Random World*, chapters 2 and 4; the
scores are those of Sadinle, Lei, Wasserman (2019), *Least Ambiguous Set-Valued Classifiers With
Bounded Error Levels* (LAC), and Romano, Sesia, Candès (2020), *Classification with Valid and
Adaptive Coverage* (APS, without the random tie). On rows exchangeable with the calibration part a
set holds the label with probability at least 1 - α, on average over calibrations. That is a promise
about many rows; an expert's range is one about each. Calibrate on rows the scorer did not learn
from, or the promise is void. For numbers: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman (2018),
*Distribution-Free Predictive Inference for Regression*: residuals in place of scores.

Why not MAPIE (1.6) or crepes (0.9)? Their statistics are the same, and the tests compare sets with
MAPIE's where it is installed. But MAPIE wants a scikit-learn estimator where we have any P-KM, both
compute in numpy on the CPU where annotation stays on the rows' device, crepes brings pandas and
draws random numbers unless told not to, and either may give an empty set, which an R-KM must never
be. What is left is one quantile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from ..answers import Measured, Sets
from ..core.examples import Examples
from ..core.tensors import torch, without_gradient
from ..errors import KnowledgeError
from ..words import Reason
from .intervals import Band
from .missing import hear, list_columns
from .protocols import Number, PredictionModel, RangeKind

if TYPE_CHECKING:
    from torch import Tensor

ConformalScore = Literal["lac", "aps"]


@dataclass(frozen=True)
class ConformalRange:
    """An R-KM: the classes that are not stranger than most calibration labels were.

    A class whose threshold is infinite (too few calibration rows) is always allowed, the scorer's
    local best class is too, and where the scorer abstains everything is.
    """

    kind: ClassVar[RangeKind] = "statistical"

    scorer: PredictionModel  # soft: probabilities of the classes
    thresholds: tuple[float, ...]  # the strangest score that is still allowed, for each class
    alpha: float  # α: how often the set may miss the label
    score: ConformalScore = "lac"
    rows: int = 0  # how many calibration rows were used

    def __post_init__(self) -> None:
        _check(self.alpha, self.score)

    @staticmethod
    @without_gradient
    def calibrate(
        scorer: PredictionModel,
        examples: Examples,
        *,
        alpha: float = 0.05,
        per_class: bool = False,
        score: ConformalScore = "lac",
    ) -> ConformalRange:
        """Measure on labelled rows how strange labels are, for all classes or for each by itself.

        Rows on which the scorer abstains do not count: their sets hold every class anyway.
        """
        _check(alpha, score)
        if examples.y is None:
            raise KnowledgeError("calibration needs labels, these examples have none")
        probabilities = hear(scorer, examples.x)
        if probabilities.ndim != 2:
            raise KnowledgeError(
                f"a scorer must return shape (n, k), got {tuple(probabilities.shape)}"
            )
        k = probabilities.shape[1]
        examples.check(
            k, holes=range(examples.x.flatten(1).shape[1])
        )  # he may be asked all the same
        heard = (probabilities > 0).any(1)
        y = examples.y[heard]  # (n,)
        found = strangeness(probabilities[heard], score).gather(1, y.unsqueeze(1)).squeeze(1)
        if per_class:
            thresholds = tuple(quantile(found[y == grade], alpha) for grade in range(k))
        else:
            thresholds = (quantile(found, alpha),) * k
        return ConformalRange(scorer, thresholds, alpha, score, len(y))

    @without_gradient
    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k) bool."""
        probabilities = hear(self.scorer, x)
        limits = torch.tensor(self.thresholds, dtype=torch.float64, device=probabilities.device)
        if probabilities.ndim != 2 or probabilities.shape[1] != len(limits):
            raise KnowledgeError(
                f"the scorer must know {len(limits)} classes, got shape "
                f"{tuple(probabilities.shape)}"
            )
        allowed = strangeness(probabilities, self.score) <= limits
        allowed.scatter_(1, probabilities.argmax(1, keepdim=True), True)
        return allowed | ~(probabilities > 0).any(1, keepdim=True)

    def entry(self) -> dict[str, Any]:
        said = {"alpha": self.alpha, "score": self.score, "rows": self.rows}
        return said | {"thresholds": list(self.thresholds)}

    def reasons(self, x: Tensor) -> list[list[Reason]]:
        args = {"level": 1 - self.alpha, "classes": len(self.thresholds)}
        counts = self(x).sum(1).tolist()
        return [[Reason("conformal-classes", {**args, "allowed": int(n)})] for n in counts]

    def looks_at(self, width: int) -> tuple[int, ...]:
        return list_columns(self.scorer, width)


@dataclass(frozen=True)
class ConformalInterval:
    """An R-KM: all numbers no farther from the model's than most calibration labels were.

    Where the model is silent, or there were too few calibration rows, every number is possible.
    """

    kind: ClassVar[RangeKind] = "statistical"

    scorer: Number
    radius: float  # may be infinite
    alpha: float  # α: how often the interval may miss the label
    rows: int = 0  # how many calibration rows were used

    @staticmethod
    @without_gradient
    def calibrate(scorer: Number, data: Measured, *, alpha: float = 0.05) -> ConformalInterval:
        """Measure residuals on rows that `scorer` was not fitted on; silent rows do not count."""
        _check(alpha)
        y = data.numbers()
        if not y.isfinite().all():
            row = int((~y.isfinite()).nonzero()[0])
            raise KnowledgeError(
                f"calibration labels must be finite: row {row} has {float(y[row])}"
            )
        said = hear(scorer, data.x).double()
        heard = said.isfinite()
        radius = quantile((y - said).abs()[heard], alpha)
        return ConformalInterval(scorer, radius, alpha, int(heard.sum()))

    def __call__(self, x: Tensor, /) -> Sets:
        return Band(self.scorer, self.radius, self.radius)(x)

    def entry(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "rows": self.rows, "thresholds": [self.radius]}

    def reasons(self, x: Tensor) -> list[list[Reason]]:
        said = Reason("conformal-number", {"level": 1 - self.alpha, "radius": self.radius})
        return [[said] for _ in range(len(x))]

    def looks_at(self, width: int) -> tuple[int, ...]:
        return list_columns(self.scorer, width)


def strangeness(probabilities: Tensor, score: ConformalScore = "lac") -> Tensor:
    """How little each class was expected, (n, k) -> (n, k), the smaller the likelier.

    `lac`: one minus its probability. `aps`: the probability of all classes at least as likely,
    its own included; of equal ones the first is taken to be likelier.
    """
    p = probabilities.double()
    if score == "lac":
        return 1 - p
    ordered, order = p.sort(dim=1, descending=True, stable=True)
    return torch.empty_like(p).scatter_(1, order, ordered.cumsum(1))


def quantile(scores: Tensor, alpha: float) -> float:
    """The ⌈(n + 1)(1 - α)⌉-th smallest of n scores, (n,); infinite where there are too few."""
    # α as written: (149 + 1)(1 - 0.18) is 123, not the 123.00000000000001 of floating point
    rank = math.ceil((len(scores) + 1) * (1 - Fraction(str(alpha))))
    if rank > len(scores):
        return math.inf
    return float(scores.kthvalue(max(rank, 1)).values)


def _check(alpha: float, score: str = "lac") -> None:
    if not 0.0 < alpha < 1.0:
        raise KnowledgeError(f"alpha must lie between 0 and 1, got {alpha:g}")
    if score not in get_args(ConformalScore):
        raise KnowledgeError(f"score must be lac or aps, got '{score}'")
