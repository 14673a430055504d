"""Multinomial logistic regression by hand, for classes without order.

Boehning (1992), Multinomial Logistic Regression Algorithm: the curvature of the loss is at most
half of the rows' second moments. Rotated to the rows' own axes that bound is a number per axis, so
a step costs two products; Nesterov's acceleration with restarts does the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .linear import Linear, standardise

_STEPS = 200  # for each penalty, which starts where the one before it ended
_NEAR = 1e-5  # the step at which it stops
HOLD = 1e-3  # a small charge on the constants: those of absent classes stay finite


@dataclass(frozen=True)
class LogisticLearner:
    """Cross-entropy with a penalty on the weights, per row; the largest penalty comes first."""

    name: str
    classes: int  # k
    penalties: tuple[float, ...] = tuple(10.0 ** (i / 2) for i in range(0, -7, -1))  # times n

    @property
    def settings(self) -> tuple[float, ...]:
        return self.penalties

    def path(self, inputs: Tensor, target: Tensor, settings: Sequence[float]) -> list[Linear]:
        """One model per penalty; `target` is (n,) int64."""
        z, mean, scale = standardise(inputs)
        u, s, v = torch.linalg.svd(z, full_matrices=False)
        kept = s > 1e-9 * s.max().clamp(min=1e-300)
        rows, back = u[:, kept] * s[kept], v[kept]  # (n, r), (r, i)
        moments = torch.cat([s[kept].square() / len(z), s.new_ones(1)])  # (r + 1,)
        rows = torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
        wanted = torch.nn.functional.one_hot(target, self.classes).double()
        weight = rows.new_zeros(rows.shape[1], self.classes)
        # smoothed: a class that no row has must not start at minus infinity
        weight[-1] = ((wanted.sum(0) + 1.0) / (len(z) + self.classes)).log()
        level = weight[-1].clone()
        made = []
        for penalty in settings:
            weight = _descend(rows, wanted, moments, penalty, weight, level)
            made.append(Linear(mean, scale, back.T @ weight[:-1], weight[-1]))
        return made

    def trace(
        self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[float]
    ) -> Tensor:
        """Outputs at other rows, (s, m, o)."""
        return torch.stack([model(at) for model in self.path(inputs, target, settings)])

    def near(self, setting: float) -> tuple[float, ...]:
        return self.penalties  # all of them cost little more than one

    def fit(self, inputs: Tensor, target: Tensor, setting: float) -> Linear:
        return self.path(inputs, target, [p for p in self.penalties if p >= setting])[-1]


def _descend(
    rows: Tensor, wanted: Tensor, moments: Tensor, penalty: float, start: Tensor, level: Tensor
) -> Tensor:
    """The weights of least mean loss, (r + 1, k); `level` is where the constants are held."""
    charge = torch.full_like(moments, penalty).unsqueeze(1)
    charge[-1] = HOLD
    anchor = torch.zeros_like(start)
    anchor[-1] = level
    bound = 0.5 * moments.unsqueeze(1) + charge
    point = ahead = start
    pace = 1.0
    for _ in range(_STEPS):
        off = (rows @ ahead).softmax(1) - wanted
        step = (rows.T @ off / len(rows) + charge * (ahead - anchor)) / bound
        new = ahead - step
        if float((step * (new - point)).sum()) > 0:  # uphill: momentum starts anew
            pace = 1.0
        further = 0.5 + (0.25 + pace * pace) ** 0.5
        ahead = new + (pace - 1.0) / further * (new - point)
        point, pace = new, further
        if float(step.abs().max()) < _NEAR:
            break
    return point
