"""The ordinal head of many clients at once: few numbers in, a place, a width, k logits out.

The formulas are those of `core.ordinal.log_cells`; here the classes lie along the second axis,
(a, k, b), and every pass writes into memory that is there already. On a card Triton does it.
"""

import math
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ...core.ordinal import PLACES_HEARD, STEEP, Ordinal
from .layers import Layer, LayerPlace, Plain

#: What a site may keep to itself, see `core.ordinal.HeadAtHome`.
SHIFT, WIDTH = "own.shift", "own.width"


class Steps(Protocol):
    """From what the network gave to the classes, and back.

    Places come in units from the centre of all classes: place = centre + unit·m.
    """

    def forward(self, moved: Tensor, start: Tensor | None) -> Tensor:
        """What the network gave and what it is added to, (a, 1, b) each -> (a, k, b)."""

    def backward(self, delta: Tensor, keep: float, share: float) -> Tensor:
        """(a, k, b) -> the slope in what the network gave; shift and width get their gradients."""


def steps_for(place: LayerPlace, number: int, k: int, unit: float, width: float) -> Steps:
    """The fastest that works at this place: k classes, a unit in classes, the width at first."""
    if isinstance(place.fused, Plain):
        return _Steps(place, number, k, unit, width)
    from . import ordinal_kernels  # here: Triton takes its time to import

    return _Card(place, number, k, unit, width, ordinal_kernels)


class _Steps:
    """A sum of two log-sigmoids in every class.

    A step of few clients is bound by the number of calls, and a view or a plain number costs as
    much as a pass: so all edges are in units, views are made once, and numbers are tensors.
    """

    def __init__(self, place: LayerPlace, number: int, k: int, unit: float, width: float) -> None:
        a, b, take = place.clients, place.rows, place.scratch.take
        self._shift, self._shift_grad = place.pair(SHIFT, 2)
        self._width, self._width_grad = place.pair(WIDTH, 2)
        self._ones = self._shift.new_ones(a, b, 1)
        self._z, self._push, self._share = (
            take(f"cells {number} {part}", a, k - 1, b) for part in ("z", "push", "share")
        )
        # below an edge, above an edge; beside the open ends there is a 0 that stays
        self._below, self._above = self._z.new_zeros(2, a, k, b)
        self._lower, self._upper = self._below[:, :-1], self._above[:, 1:]
        self._inside = self._below[:, 1:-1]
        self._out, self._delta = (
            take(f"cells {number} {part}", a, k, b) for part in ("out", "delta")
        )
        self._first, self._second = self._delta[:, :-1], self._delta[:, 1:]
        self._inner = self._delta[:, 1:-1]
        at = (self._z.new_tensor(range(k - 1)) + 0.5 - (k - 1) / 2) / unit
        self._at = torch.stack([-torch.ones_like(at), at])  # (2, k-1)
        self._edges = self._z.new_empty(a, 2, k - 1)
        self._column = self._edges[:, 1].unsqueeze(2)
        self._found = self._z.new_empty(a, 2, b)
        self._slope, self._spread = self._found[:, :1], self._found[:, 1:]
        self._start = self._z.new_tensor(math.log(1.0 / width * STEEP * unit))
        self._per = self._z.new_tensor(1.0 / unit)

    def forward(self, moved: Tensor, start: Tensor | None) -> Tensor:
        m = moved + self._shift
        m = m if start is None else m.add_(start)
        rate = torch.sub(self._start, self._width).exp_()  # of one unit
        torch.mul(self._at, rate, out=self._edges)
        z = torch.sub(self._column, m * rate, out=self._z)
        self._m, self._step = m, rate.mul_(self._per)  # of one class
        below = self._lower.copy_(logsigmoid(z))
        torch.sub(below, z, out=self._upper)
        self._rises = torch.expm1(rate)
        self._inside.add_(logsigmoid(self._rises.log()))  # log(1 - e^-r)
        return torch.add(self._below, self._above, out=self._out)

    def backward(self, delta: Tensor, keep: float, share: float) -> Tensor:
        self._delta.copy_(delta)
        below = torch.sigmoid(self._z, out=self._share)
        both = torch.add(self._first, self._second, out=self._z)
        push = torch.addcmul(self._first, below, both, value=-1.0, out=self._push)
        torch.bmm(self._edges, push, out=self._found)
        spread = self._spread.addcmul_(self._slope, self._m)
        inner = self._inner.sum(1, keepdim=True)
        spread.addcmul_(inner, self._step.div_(self._rises))
        self._shift_grad.baddbmm_(self._slope, self._ones, beta=keep, alpha=share)
        self._width_grad.baddbmm_(spread, self._ones, beta=keep, alpha=-share)
        return self._slope


class _Card:
    """The same in two kernels: a step of few clients is bound by how many there are."""

    def __init__(
        self, place: LayerPlace, number: int, k: int, unit: float, width: float, kernels: Any
    ) -> None:
        self._kernels = kernels
        self._shift, self._shift_grad = place.pair(SHIFT, 2)
        self._width, self._width_grad = place.pair(WIDTH, 2)
        a, b, take = place.clients, place.rows, place.scratch.take
        self._out, self._slope = take(f"logits {number}", a, k, b), take(f"slope {number}", a, 1, b)
        self._classes = _power(k)
        self._rows = min(_power(b), max(1, 1024 // self._classes))
        self._grid = (a, -(-b // self._rows))
        self._numbers = (b, k, (k - 1) / 2, unit, math.log(1.0 / width * STEEP))

    def forward(self, moved: Tensor, start: Tensor | None) -> Tensor:
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


def _power(n: int) -> int:
    """The next power of two, which is what kernels count in."""
    return max(2, 1 << (n - 1).bit_length())


class OrdinalHead:
    """All that follows the trunk of a model for ordered classes, (a, b, h) -> (a, k, b)."""

    heard: Tensor | None = None  # (a, b, PLACES_HEARD), set before each forward where it hears

    def __init__(
        self,
        place: LayerPlace,
        number: int,
        *,
        dense: tuple[Layer, ...],  # the last gives one number
        line: str | None,
        classes: int,
        options: Ordinal,
    ) -> None:
        self._options, unit = options, options.unit(classes)
        self._unit = classes / 4 / unit
        self._hears = options.hears or options.start != "none"
        self._place, self._number = place, number
        self._steps = steps_for(place, number, classes, unit, options.width)
        self._dense = [d.bind(place, number + 1 + i) for i, d in enumerate(dense)]
        self._line = self._line_grad = None
        if line is not None:
            self._line, self._line_grad = place.params[line], place.grads[line]

    def forward(self, h: Tensor) -> Tensor:
        start = None
        self._wide, self._trunk = h, h.shape[2]
        if self._hears:
            assert self.heard is not None
            if self._options.start != "none":
                column = self.heard[:, :, 0 if self._options.start == "middle" else 1]
                start = (column * self._unit).unsqueeze(1)
            if self._options.hears:
                a, b, trunk = h.shape
                wide = self._take("wide", a, b, trunk + PLACES_HEARD)
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
        narrow = self._take("narrow", *back.shape[:2], self._trunk)
        return narrow.copy_(back[:, :, : self._trunk])

    def _take(self, part: str, *shape: int) -> Tensor:
        return self._place.scratch.take(f"{part} {self._number}", *shape)
