"""What is ordinal about an ordinal head, on a processor by torch and on a card by Triton."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from ...core.cells import STEEP
from ...core.ordinal import Ordinal
from .cells import Scale, cells_for
from .fused import Plain
from .layers import LayerPlace

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
    from . import ordinalkernels  # here: Triton takes its time to import

    return _Card(shape, ordinalkernels)


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
