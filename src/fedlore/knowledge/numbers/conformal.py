"""Intervals for sites with data and no rule: split-conformal, statistical and marked so.

Lei, G'Sell, Rinaldo, Tibshirani, Wasserman (2018), *Distribution-Free Predictive Inference for
Regression*: the absolute residuals of a model on rows it did not learn from, and their
finite-sample quantile. On rows exchangeable with the calibration part an interval holds the label
with probability at least 1 - α, on average over calibrations: a promise about many rows, not about
each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...answers import Sets
from ...core.still import without_gradient
from ...errors import KnowledgeError
from ..conformal import quantile
from ..kinds import RangeKind
from ..missing import list_columns
from ..protocols import Number
from .measured import Measured
from .ranges import Band

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ConformalInterval:
    """An R-KM: all numbers no farther from the model's than most calibration labels were.

    Where the model is silent, or there were too few calibration rows, every number is possible.
    """

    kind: ClassVar[RangeKind] = "statistical"

    point: Number
    radius: float  # may be infinite
    alpha: float  # α: how often the interval may miss the label
    rows: int = 0  # how many calibration rows were used

    @staticmethod
    @without_gradient
    def calibrate(point: Number, data: Measured, *, alpha: float = 0.05) -> ConformalInterval:
        """Measure residuals on rows that `point` was not fitted on; silent rows do not count."""
        if not 0.0 < alpha < 1.0:
            raise KnowledgeError(f"alpha must lie between 0 and 1, got {alpha:g}")
        y = data.numbers()
        if not y.isfinite().all():
            row = int((~y.isfinite()).nonzero()[0])
            raise KnowledgeError(
                f"calibration labels must be finite: row {row} has {float(y[row])}"
            )
        said = point(data.x).double()
        heard = said.isfinite()
        radius = quantile((y - said).abs()[heard], alpha)
        return ConformalInterval(point, radius, alpha, int(heard.sum()))

    def __call__(self, x: Tensor, /) -> Sets:
        return Band(self.point, self.radius, self.radius)(x)

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that the model looks at."""
        return list_columns(self.point, width)
