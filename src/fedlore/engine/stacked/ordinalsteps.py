"""What is ordinal about an ordinal head, on a processor by torch and on a card by Triton."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ...core.ordinal import BROADEST, HEARD, Ordinal, heard_numbers
from .cells import Cells
from .fused import Plain
from .layers import Place

Start = Tensor | float  # (a, 1, b), or the middle of all classes


@dataclass(frozen=True, eq=False)
class Shape:
    """An ordinal head that is bound to its place."""

    place: Place
    number: int
    options: Ordinal
    classes: int
    shift: str
    width: str

    @property
    def centre(self) -> float:
        return (self.classes - 1) / 2

    @property
    def unit(self) -> float:
        return self.options.unit(self.classes)

    def take(self, part: str, *shape: int) -> Tensor:
        return self.place.scratch.take(f"{part} {self.number}", *shape)

    def pair(self, name: str) -> tuple[Tensor, Tensor]:
        """A parameter and its gradient, (a, 1, 1) each."""
        return self.place.params[name].unsqueeze(2), self.place.grads[name].unsqueeze(2)


class Steps(Protocol):
    """The three steps."""

    def hear(self, h: Tensor, told: Tensor) -> tuple[Tensor, Start]:
        """(a, b, h) and (a, b, 2k) -> what the head sees, (a, b, h + 3) where it hears; start."""
        ...

    def forward(self, moved: Tensor, start: Start) -> Tensor:
        """What the network gave, (a, 1, b) -> (a, k, b)."""
        ...

    def backward(self, delta: Tensor, keep: float, share: float) -> Tensor:
        """(a, k, b) -> the slope in what the network gave; shift and width get their gradients."""
        ...


def steps_for(shape: Shape) -> Steps:
    """The fastest that works at this place."""
    if isinstance(shape.place.fused, Plain):
        return _Steps(shape)
    from . import ordinalkernels  # here: Triton takes its time to import

    return _Card(shape, ordinalkernels)


class _Steps:
    def __init__(self, shape: Shape) -> None:
        place, classes = shape.place, shape.classes
        self._shape = shape
        (self._shift, self._shift_grad), (self._width, self._width_grad) = (
            shape.pair(name) for name in (shape.shift, shape.width)
        )
        name = f"cells {shape.number}"
        self._cells = Cells(place.scratch, name, place.clients, classes, place.rows)
        at = self._shift.new_tensor(range(classes))
        # told times this is: how much the expert says, its places; the range, its places
        one, none = torch.ones_like(at), torch.zeros_like(at)
        said, open_ = torch.stack([one, at, none, none], 1), torch.stack([none, none, one, at], 1)
        self._sums = torch.cat([said, open_]).expand(place.clients, -1, -1)  # (a, 2k, 4)

    def hear(self, h: Tensor, told: Tensor) -> tuple[Tensor, Start]:
        shape, options = self._shape, self._shape.options
        said, where, width, inside = torch.bmm(told, self._sums).unbind(2)
        middle, spoken = inside / width, said > 0
        expert = torch.where(spoken, where / torch.where(spoken, said, 1.0), middle)  # (a, b)
        start: Start = shape.centre
        if options.start != "none":
            start = (middle if options.start == "middle" else expert).unsqueeze(1)
        if not options.hears:
            return h, start
        a, b, trunk = h.shape
        wide = shape.take("wide", a, b, trunk + HEARD)
        wide[:, :, :trunk].copy_(h)
        wide[:, :, trunk:].copy_(heard_numbers(middle, expert, shape.classes))
        return wide, start

    def forward(self, moved: Tensor, start: Start) -> Tensor:
        place = (moved + self._shift).mul_(self._shape.unit).add_(start)
        self._log = self._width.clamp(-BROADEST, BROADEST)
        rate = (-self._log).exp_().div_(self._shape.options.width)
        return self._cells.forward(place, rate)

    def backward(self, delta: Tensor, keep: float, share: float) -> Tensor:
        slope, spread = self._cells.backward(delta)
        slope.mul_(self._shape.unit)
        spread.mul_(self._log == self._width)  # clamped, a width has no slope
        for grad, part in ((self._shift_grad, slope), (self._width_grad, spread)):
            grad.mul_(keep).add_(part.sum(2, keepdim=True), alpha=share)
        return slope


class _Card:
    """The same in three kernels: a step of few clients is bound by how many there are."""

    def __init__(self, shape: Shape, kernels: Any) -> None:
        self._shape, self._kernels = shape, kernels
        place = shape.place
        (self._shift, self._shift_grad), (self._width, self._width_grad) = (
            shape.pair(name) for name in (shape.shift, shape.width)
        )
        a, b, k = place.clients, place.rows, shape.classes
        self._out, self._slope = shape.take("logits", a, k, b), shape.take("slope", a, 1, b)
        self._start = shape.take("start", a, 1, b)
        self._classes = _power(k)
        self._rows = min(_power(b), max(1, 1024 // self._classes))
        self._grid = (a, -(-b // self._rows))

    def hear(self, h: Tensor, told: Tensor) -> tuple[Tensor, Start]:
        shape, options, h = self._shape, self._shape.options, _rows(h)
        told = _rows(told)
        a, b, trunk = h.shape
        wide = shape.take("wide", a, b, trunk + HEARD) if options.hears else h
        self._kernels.hear[self._grid](
            *(h, told, wide, self._start, b, trunk, shape.classes),
            *(h.stride(0), h.stride(1), told.stride(0), told.stride(1)),
            *(shape.centre, shape.classes / 4),
            JOINED=options.hears,
            START={"none": 0, "middle": 1, "expert": 2}[options.start],
            KP=self._classes,
            WIDE=min(64, _power(trunk)),
            BB=self._rows,
        )
        return wide, shape.centre if options.start == "none" else self._start

    def forward(self, moved: Tensor, start: Start) -> Tensor:
        self._moved, self._started = moved, isinstance(start, Tensor)
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
        rows = shape.place.rows
        return rows, shape.classes, shape.centre, shape.unit, shape.options.width


def _power(n: int) -> int:
    """The next power of two, which is what kernels count in."""
    return max(2, 1 << (n - 1).bit_length())


def _rows(t: Tensor) -> Tensor:
    """Rows whose numbers lie side by side."""
    return t if t.stride(2) == 1 else t.contiguous()
