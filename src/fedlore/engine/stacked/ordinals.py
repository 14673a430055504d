"""The ordinal head of many clients at once: few numbers in, a place, a width, k logits out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.ordinal import PLACES_HEARD, Ordinal
from .layers import Dense, LayerPlace
from .ordinalsteps import HeadShape, Starts, steps_for


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
    told: Tensor | None = None  # (a, b, PLACES_HEARD), set before each forward where it hears

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
            assert self.told is not None
            if self._options.start != "none":
                column = self.told[:, :, 0 if self._options.start == "middle" else 1]
                start = (column * self._unit).unsqueeze(1)
            if self._options.hears:
                a, b, trunk = h.shape
                wide = self._shape.take("wide", a, b, trunk + PLACES_HEARD)
                self._wide = torch.cat([h, self.told], 2, out=wide)
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
