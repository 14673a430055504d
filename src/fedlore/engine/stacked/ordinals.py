"""The ordinal head of many clients at once: few numbers in, a place, a width, k logits out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.ordinal import BROADEST, HEARD, Ordinal, heard_numbers
from .cells import Cells
from .layers import Dense, Place


@dataclass(frozen=True)
class OrdinalHead:
    """All that follows the trunk of a model for ordered classes, (a, b, h) -> (a, k, b)."""

    dense: tuple[Dense, ...]  # the last gives one number
    line: str | None
    shift: str
    width: str
    classes: int
    options: Ordinal

    def bind(self, place: Place, number: int) -> "_OrdinalHead":
        return _OrdinalHead(self, place, number)


class _OrdinalHead:
    told: Tensor | None = None  # (a, b, 2k), set before each forward where it hears

    def __init__(self, layer: OrdinalHead, place: Place, number: int) -> None:
        self._layer, self._place, self._number = layer, place, number
        self._dense = [d.bind(place, number + 1 + i) for i, d in enumerate(layer.dense)]
        self._cells = Cells(
            place.scratch, f"cells {number}", place.clients, layer.classes, place.rows
        )
        shift, width = place.params[layer.shift], place.params[layer.width]  # (a, 1)
        self._shift, self._width = shift.unsqueeze(2), width.unsqueeze(2)
        self._grads = [place.grads[name].unsqueeze(2) for name in (layer.shift, layer.width)]
        self._line = self._line_grad = None
        if layer.line is not None:
            self._line, self._line_grad = place.params[layer.line], place.grads[layer.line]
        self._unit = layer.options.unit(layer.classes)
        self._hears = layer.options.hears or layer.options.start != "none"
        at = shift.new_tensor(range(layer.classes))
        # told times this is: how much the expert says, its place; the range, its places
        one, none = torch.ones_like(at), torch.zeros_like(at)
        upper, lower = torch.stack([one, at, none, none], 1), torch.stack([none, none, one, at], 1)
        self._sums = torch.cat([upper, lower]).expand(place.clients, -1, -1)  # (a, 2k, 4)

    def forward(self, h: Tensor) -> Tensor:
        options, classes = self._layer.options, self._layer.classes
        start: Tensor | float = (classes - 1) / 2
        self._wide, self._trunk = h, h.shape[2]
        if self._hears:
            middle, expert = self._places()
            if options.start != "none":
                start = (middle if options.start == "middle" else expert).unsqueeze(1)
            if options.hears:
                self._wide = self._joined(h, heard_numbers(middle, expert, classes))
        moved = self._wide
        for layer in self._dense:
            moved = layer.forward(moved)  # at last (a, 1, b)
        if self._line is not None:
            moved.baddbmm_(self._line, self._wide.mT)
        place = (moved + self._shift).mul_(self._unit).add_(start)
        self._log = self._width.clamp(-BROADEST, BROADEST)
        return self._cells.forward(place, (-self._log).exp_().div_(options.width))

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        slope, spread = self._cells.backward(delta)
        slope.mul_(self._unit)
        inside = (self._log == self._width).to(spread.dtype)  # clamped, a width has no slope
        for grad, part in zip(self._grads, (slope, spread.mul_(inside)), strict=True):
            grad.mul_(keep).add_(part.sum(2, keepdim=True), alpha=share)
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
        scratch, shape = self._place.scratch, (*back.shape[:2], self._trunk)
        return scratch.take(f"narrow {self._number}", *shape).copy_(back[:, :, : self._trunk])

    def _places(self) -> tuple[Tensor, Tensor]:
        """The middle of the range and the expert's place of every row, (a, b) each."""
        assert self.told is not None
        said, where, width, inside = torch.bmm(self.told, self._sums).unbind(2)
        middle = inside / width
        spoken = said > 0
        return middle, torch.where(spoken, where / torch.where(spoken, said, 1.0), middle)

    def _joined(self, h: Tensor, heard: Tensor) -> Tensor:
        a, b, width = h.shape
        wide = self._place.scratch.take(f"wide {self._number}", a, b, width + HEARD)
        wide[:, :, :width].copy_(h)
        wide[:, :, width:].copy_(heard)
        return wide
