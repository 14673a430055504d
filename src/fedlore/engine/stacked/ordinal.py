"""The ordinal head of many clients at once: few numbers in, a place, a width, k logits out.

The letters and the formulas are those of `core.cells`; here the classes lie along the second axis,
(a, k, b), and every pass writes into memory that is there already. On a card Triton does it.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ...core.ordinal import BEND, CURVE, HALF_LOG_TAU, PLACES_HEARD, STEEP, Bell, Ordinal, log_ratio
from .layers import Dense, LayerPlace, Plain, Scratch

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


Starts = Tensor | None  # (a, 1, b) in units from the centre of all classes; None is there


@dataclass(frozen=True, eq=False)
class HeadShape:
    """An ordinal head that is bound to its place."""

    place: LayerPlace
    number: int
    options: Ordinal
    classes: int
    shift: str
    width: str

    @property
    def scale(self) -> Scale:
        return Scale(self.classes, self.options.unit(self.classes), 1.0 / self.options.width)

    def take(self, part: str, *shape: int) -> Tensor:
        return self.place.scratch.take(f"{part} {self.number}", *shape)

    def pair(self, name: str) -> tuple[Tensor, Tensor]:
        """A parameter and its gradient, (a, 1, 1) each."""
        return self.place.params[name].unsqueeze(2), self.place.grads[name].unsqueeze(2)


class Steps(Protocol):
    """From what the network gave to the classes, and back."""

    def forward(self, moved: Tensor, start: Starts) -> Tensor:
        """What the network gave, (a, 1, b) -> (a, k, b)."""
        ...

    def backward(self, delta: Tensor, keep: float, share: float) -> Tensor:
        """(a, k, b) -> the slope in what the network gave; shift and width get their gradients."""
        ...


def steps_for(shape: HeadShape) -> Steps:
    """The fastest that works at this place."""
    if isinstance(shape.place.fused, Plain) or shape.options.bell != "logistic":
        return _Steps(shape)
    from . import ordinal_kernels  # here: Triton takes its time to import

    return _Card(shape, ordinal_kernels)


class _Steps:
    def __init__(self, shape: HeadShape) -> None:
        place = shape.place
        (self._shift, self._shift_grad), (self._width, self._width_grad) = (
            shape.pair(name) for name in (shape.shift, shape.width)
        )
        name, bell = f"cells {shape.number}", shape.options.bell
        self._scale = shape.scale
        self._cells = cells_for(bell, self._scale, place.scratch, name, place.clients, place.rows)
        self._ones = self._shift.new_ones(place.clients, place.rows, 1)

    def forward(self, moved: Tensor, start: Starts) -> Tensor:
        m = moved + self._shift
        return self._cells.forward(m if start is None else m.add_(start), self._width)

    def backward(self, delta: Tensor, keep: float, share: float) -> Tensor:
        slope, spread = self._cells.backward(delta)
        self._shift_grad.baddbmm_(slope, self._ones, beta=keep, alpha=share)
        self._width_grad.baddbmm_(spread, self._ones, beta=keep, alpha=-share)
        return slope


class _Card:
    """The same in two kernels: a step of few clients is bound by how many there are."""

    def __init__(self, shape: HeadShape, kernels: Any) -> None:
        self._shape, self._kernels = shape, kernels
        place = shape.place
        (self._shift, self._shift_grad), (self._width, self._width_grad) = (
            shape.pair(name) for name in (shape.shift, shape.width)
        )
        a, b, k = place.clients, place.rows, shape.classes
        self._out, self._slope = shape.take("logits", a, k, b), shape.take("slope", a, 1, b)
        self._classes = _power(k)
        self._rows = min(_power(b), max(1, 1024 // self._classes))
        self._grid = (a, -(-b // self._rows))

    def forward(self, moved: Tensor, start: Starts) -> Tensor:
        self._moved, self._started = moved, start is not None
        self._start = moved if start is None else start.contiguous()
        self._kernels.forward[self._grid](
            *(moved, self._start, self._shift, self._width, self._out),
            *self._numbers,
            STARTED=self._started,
            KP=self._classes,
            BB=self._rows,
        )
        return self._out

    def backward(self, delta: Tensor, keep: float, share: float) -> Tensor:
        self._kernels.backward[(self._grid[0],)](
            *(delta, self._moved, self._start, self._shift, self._width, self._slope),
            *(self._shift_grad, self._width_grad),
            *self._numbers,
            *(keep, share, *delta.stride()),
            STARTED=self._started,
            KP=self._classes,
            BB=self._rows,
        )
        return self._slope

    @property
    def _numbers(self) -> tuple[int | float, ...]:
        shape = self._shape
        scale = shape.scale
        first = math.log(scale.rate * STEEP)
        return shape.place.rows, shape.classes, scale.centre, scale.unit, first


def _power(n: int) -> int:
    """The next power of two, which is what kernels count in."""
    return max(2, 1 << (n - 1).bit_length())


@dataclass(frozen=True)
class OrdinalHead:
    """All that follows the trunk of a model for ordered classes, (a, b, h) -> (a, k, b)."""

    dense: tuple[Dense, ...]  # the last gives one number
    line: str | None
    shift: str
    width: str
    classes: int
    options: Ordinal

    def bind(self, place: LayerPlace, number: int) -> "_OrdinalHead":
        return _OrdinalHead(self, place, number)


class _OrdinalHead:
    heard: Tensor | None = None  # (a, b, PLACES_HEARD), set before each forward where it hears

    def __init__(self, layer: OrdinalHead, place: LayerPlace, number: int) -> None:
        self._options, self._unit = (
            layer.options,
            layer.classes / 4 / layer.options.unit(layer.classes),
        )
        self._hears = layer.options.hears or layer.options.start != "none"
        self._shape = HeadShape(
            place, number, layer.options, layer.classes, layer.shift, layer.width
        )
        self._steps = steps_for(self._shape)
        self._dense = [d.bind(place, number + 1 + i) for i, d in enumerate(layer.dense)]
        self._line = self._line_grad = None
        if layer.line is not None:
            self._line, self._line_grad = place.params[layer.line], place.grads[layer.line]

    def forward(self, h: Tensor) -> Tensor:
        start: Starts = None
        self._wide, self._trunk = h, h.shape[2]
        if self._hears:
            assert self.heard is not None
            if self._options.start != "none":
                column = self.heard[:, :, 0 if self._options.start == "middle" else 1]
                start = (column * self._unit).unsqueeze(1)
            if self._options.hears:
                a, b, trunk = h.shape
                wide = self._shape.take("wide", a, b, trunk + PLACES_HEARD)
                self._wide = torch.cat([h, self.heard], 2, out=wide)
        moved = self._wide
        for layer in self._dense:
            moved = layer.forward(moved)  # at last (a, 1, b)
        if self._line is not None:
            moved.baddbmm_(self._line, self._wide.mT)
        return self._steps.forward(moved, start)

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        slope = self._steps.backward(delta, keep, share)
        if self._line_grad is not None:
            self._line_grad.baddbmm_(slope, self._wide, beta=keep, alpha=share)
        back = slope
        for i in range(len(self._dense) - 1, -1, -1):
            back = self._dense[i].backward(back, keep, share, wanted or i > 0)
        if not wanted:
            return back
        if self._line is not None:
            back.baddbmm_(slope.mT, self._line)
        if self._trunk == back.shape[2]:
            return back
        # copied: the layer before gates what it gets in place and multiplies it as a matrix
        narrow = self._shape.take("narrow", *back.shape[:2], self._trunk)
        return narrow.copy_(back[:, :, : self._trunk])
