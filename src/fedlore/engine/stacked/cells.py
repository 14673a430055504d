"""The bell over ordered classes of many clients at once, forward and backward without a graph.

The letters and the formulas are those of `core.cells`; here the classes lie along the second axis,
(a, k, b), and every pass writes into memory that is there already.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ...core.cells import BEND, CURVE, HALF_LOG_TAU, STEEP, Bell, log_ratio
from .layers import Scratch

_FARTHEST = 1e12  # classes: farther out a place changes nothing but could overflow


class Cells(Protocol):
    """Logits of k ordered classes for b rows of each of a clients.

    Places come in units from the centre of all classes: place = centre + unit·m.
    """

    def forward(self, m: Tensor, log: Tensor) -> Tensor:
        """Places (a, 1, b) and the logs of the factors on the width (a, 1, 1) -> (a, k, b)."""
        ...

    def backward(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        """Slopes in the logits (a, k, b) -> slopes in m and against the logs, (a, 1, b) each."""
        ...


@dataclass(frozen=True)
class Scale:
    """What turns a unit into classes, and one over the width before training."""

    classes: int  # k
    unit: float
    rate: float

    @property
    def centre(self) -> float:
        return (self.classes - 1) / 2


def cells_for(bell: Bell, scale: Scale, scratch: Scratch, name: str, a: int, b: int) -> Cells:
    return (_Logistic if bell == "logistic" else _Normal)(scale, scratch, name, a, b)


class _Logistic:
    """A sum of two log-sigmoids in every class.

    A step of few clients is bound by the number of calls, and a view or a plain number costs as
    much as a pass: so all edges are in units, views are made once, and numbers are tensors.
    """

    def __init__(self, scale: Scale, scratch: Scratch, name: str, a: int, b: int) -> None:
        k = scale.classes
        self._z, self._push, self._share = (
            scratch.take(f"{name} {part}", a, k - 1, b) for part in ("z", "push", "share")
        )
        # below an edge, above an edge; beside the open ends there is a 0 that stays
        self._below, self._above = self._z.new_zeros(2, a, k, b)
        self._lower, self._upper = self._below[:, :-1], self._above[:, 1:]
        self._inside = self._below[:, 1:-1]
        self._out, self._delta = (
            scratch.take(f"{name} {part}", a, k, b) for part in ("out", "delta")
        )
        self._first, self._second = self._delta[:, :-1], self._delta[:, 1:]
        self._inner = self._delta[:, 1:-1]
        at = (self._z.new_tensor(range(k - 1)) + 0.5 - scale.centre) / scale.unit
        self._at = torch.stack([-torch.ones_like(at), at])  # (2, k-1)
        self._edges = self._z.new_empty(a, 2, k - 1)
        self._column = self._edges[:, 1].unsqueeze(2)
        self._found = self._z.new_empty(a, 2, b)
        self._slope, self._spread = self._found[:, :1], self._found[:, 1:]
        self._start = self._z.new_tensor(math.log(scale.rate * STEEP * scale.unit))
        self._per = self._z.new_tensor(1.0 / scale.unit)

    def forward(self, m: Tensor, log: Tensor) -> Tensor:
        rate = torch.sub(self._start, log).exp_()  # of one unit
        torch.mul(self._at, rate, out=self._edges)
        z = torch.sub(self._column, m * rate, out=self._z)
        self._m, self._step = m, rate.mul_(self._per)  # of one class
        below = self._lower.copy_(logsigmoid(z))
        torch.sub(below, z, out=self._upper)
        self._rises = torch.expm1(rate)
        self._inside.add_(logsigmoid(self._rises.log()))  # log(1 - e^-r)
        return torch.add(self._below, self._above, out=self._out)

    def backward(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        self._delta.copy_(delta)
        share = torch.sigmoid(self._z, out=self._share)
        both = torch.add(self._first, self._second, out=self._z)
        push = torch.addcmul(self._first, share, both, value=-1.0, out=self._push)
        torch.bmm(self._edges, push, out=self._found)
        spread = self._spread.addcmul_(self._slope, self._m)
        inner = self._inner.sum(1, keepdim=True)
        spread.addcmul_(inner, self._step.div_(self._rises))
        return self._slope, spread


class _Normal:
    """By the ratio R at both edges of every class; about eighty passes."""

    def __init__(self, scale: Scale, scratch: Scratch, name: str, a: int, b: int) -> None:
        k = scale.classes

        def take(part: str, rows: int) -> Tensor:
            return scratch.take(f"{name} {part}", a, rows, b)

        self._z, self._t = take("z", k - 1), take("t", k - 1)
        self._ratio, self._tail = take("ratio", k + 1), take("tail", k + 1)
        self._apart, self._gap = take("apart", k), take("gap", k)
        self._near, self._out = take("near", k), take("out", k)
        self._push, self._other = take("push", k - 1), take("other", k - 1)
        self._at = self._z.new_tensor(range(k))[:, None]  # (k, 1)
        self._sums = self._z.new_empty(a, 2, k - 1)
        self._k, self._scale = k, scale

    def forward(self, m: Tensor, log: Tensor) -> Tensor:
        scale = self._scale
        place = (m * scale.unit).add_(scale.centre).clamp_(-_FARTHEST, _FARTHEST)
        rate = (-log).exp_().mul_(scale.rate)
        scaled, at = place * rate, self._at
        z, ratio, tail = self._z, self._ratio, self._tail
        torch.sub((at[:-1] + 0.5) * rate, scaled, out=z)
        apart = torch.sub(at * rate.square(), scaled * rate, out=self._apart)
        for ends in (ratio, tail):  # set anew: other programs use the same memory
            ends[:, :: self._k].fill_(-torch.inf)
        self._log_ratio(z, ratio[:, 1:-1])
        torch.addcmul(ratio[:, 1:-1], z, z, value=-0.5, out=tail[:, 1:-1])
        gap = torch.sub(ratio[:, :-1], ratio[:, 1:], out=self._gap).add_(apart)
        gap.abs_().neg_()
        torch.expm1(gap, out=gap).neg_().log_()
        gap[:, :: self._k - 1].zero_()  # beside an open end nothing is taken away
        out = torch.maximum(tail[:, :-1], tail[:, 1:], out=self._out).add_(gap)
        near = torch.maximum(ratio[:, :-1], ratio[:, 1:], out=self._near).add_(gap)
        # the class that holds the place, one in every row
        held = place.round().clamp_(0, self._k - 1)
        which = held.long()  # (a, 1, b)
        sides = tail.gather(1, which).exp_().add_(tail.gather(1, which + 1).exp_())
        around = (1.0 - sides).clamp_(min=torch.finfo(z.dtype).tiny).log_()
        out.scatter_(1, which, around)
        near.scatter_(1, which, around)
        self._held, self._which, self._place, self._rate = held, which, place, rate
        return out

    def backward(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        base, apart = self._near.add_(HALF_LOG_TAU).neg_(), self._apart
        upper = torch.clamp(apart, min=0.0, out=self._gap)
        lower = apart.sub_(upper)  # the part below 0, which is taken away from the other edge
        edge = (self._held - self._place).mul_(self._rate)  # middle of the class that holds it
        half = 0.5 * self._rate
        upper.scatter_(1, self._which, (edge + half).square_().mul_(0.5))
        lower.scatter_(1, self._which, (edge - half).square_().mul_(-0.5))
        push = torch.add(base[:, 1:], lower[:, 1:], out=self._push).exp_().mul_(delta[:, 1:])
        other = torch.sub(base[:, :-1], upper[:, :-1], out=self._other).exp_()
        push.addcmul_(other, delta[:, :-1], value=-1.0)
        self._sums.copy_(self._rate.expand_as(self._sums))
        self._sums[:, 1] *= self._at[:-1, 0] + 0.5
        found = torch.bmm(self._sums, push)  # (a, 2, b)
        slope = found[:, :1]
        spread = torch.addcmul(-found[:, 1:], slope, self._place)
        return slope.mul_(self._scale.unit), spread

    def _log_ratio(self, z: Tensor, out: Tensor) -> None:
        if z.dtype == torch.float64:
            out.copy_(log_ratio(z))
            return
        t = torch.abs(z, out=self._t).mul_(BEND).add_(1.0).reciprocal_()
        torch.mul(t, CURVE[-1], out=out).add_(CURVE[-2])
        for c in reversed(CURVE[:-2]):
            out.mul_(t).add_(c)
        out.add_(t.log_())
