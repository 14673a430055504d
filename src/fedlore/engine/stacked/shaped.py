"""A network that keeps shapes, of many clients at once: each clamps its linear part by its rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.lipschitz import SLACK, Lipschitz, Shaping
from ...core.ordinal import Ordinal
from .layers import LayerPlace
from .ordinalsteps import HeadShape, steps_for


@dataclass(frozen=True)
class ShapedLayers:
    """All of a `Lipschitz`, (a, b, features + told) -> (a, k, b)."""

    weights: tuple[str, ...]  # of the trunk
    biases: tuple[str, ...]
    line: str
    shift: str
    width: str
    classes: int
    options: Shaping

    @staticmethod
    def of(model: Lipschitz) -> "ShapedLayers":
        count = range(len(model.trunk))
        return ShapedLayers(
            tuple(f"trunk.{i}.weight" for i in count),
            tuple(f"trunk.{i}.bias" for i in count),
            "line.weight",
            "own.shift",
            "own.width",
            model.classes,
            model.options,
        )

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.weights, *self.biases, self.line, self.shift, self.width)

    def bind(self, place: LayerPlace, number: int) -> "_Shaped":
        return _Shaped(self, place, number)


class _Shaped:
    def __init__(self, layer: ShapedLayers, place: LayerPlace, number: int) -> None:
        about = layer.options
        self._about = about
        head = Ordinal("none", True, about.width, False, about.bell)
        shape = HeadShape(place, number, head, layer.classes, layer.shift, layer.width)
        self._steps = steps_for(shape)
        self._line, self._line_grad = place.params[layer.line], place.grads[layer.line]
        self._trunk = [
            _Tame(place, weight, bias, first=i == 0)
            for i, (weight, bias) in enumerate(zip(layer.weights, layer.biases, strict=True))
        ]
        self._scale = about.slope * (1.0 - SLACK)

    def forward(self, h: Tensor) -> Tensor:
        about = self._about
        self._inputs = h[:, :, : about.wide]
        start = h[:, :, about.wide].unsqueeze(1)
        signs = h[:, :, about.wide + 1 :]
        self._free = signs == 0
        # s·c/κ - 1
        self._turn = torch.addcmul(signs.new_tensor(-1.0), signs, self._line, value=1 / about.slope)
        above = torch.nn.functional.softplus(self._turn)
        above[:, :, : about.features] += 1.0  # what is heard with a sign stays out of the trunk
        coefficient = torch.where(self._free, self._line, above.mul_(signs).mul_(about.slope))
        moved = (coefficient * self._inputs).sum(2)  # (a, b)
        seen = self._inputs
        if about.hears:
            seen = seen.clone()
            seen[:, :, about.features :] *= self._free[:, :, about.features :]
        for layer in self._trunk:
            seen = layer.forward(seen)
        moved.add_(seen[:, :, 0], alpha=self._scale)
        return self._steps.forward(moved.unsqueeze(1), start)

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        slope = self._steps.backward(delta, keep, share).mT  # (a, b, 1)
        part = torch.where(self._free, 1.0, self._turn.sigmoid()).mul_(self._inputs)
        self._line_grad.baddbmm_(slope.mT, part, beta=keep, alpha=share)
        back = slope * self._scale
        for i in range(len(self._trunk) - 1, -1, -1):
            back = self._trunk[i].backward(back, keep, share, i > 0)
        return back


class _Tame:
    """A linear layer of the trunk, rows no larger than 1, behind units sorted in pairs."""

    def __init__(self, place: LayerPlace, weight: str, bias: str, *, first: bool) -> None:
        self._weight, self._grad = place.params[weight], place.grads[weight]  # (a, o, i)
        self._bias = place.params[bias].unsqueeze(1)
        self._bias_grad = place.grads[bias].unsqueeze(1)
        self._ones = self._weight.new_ones(place.clients, 1, place.rows)
        self._first, self._half = first, self._weight.shape[2] // 2

    def forward(self, h: Tensor) -> Tensor:
        half = self._half
        if not self._first:
            a, b, odd = h[:, :, :half], h[:, :, half : 2 * half], h[:, :, 2 * half :]
            self._larger = a >= b
            h = torch.cat([torch.maximum(a, b), torch.minimum(a, b), odd], 2)
        self._seen = h
        size = self._weight.abs()
        if self._first:
            self._norm = size.amax(2, keepdim=True)
            self._most = (size == self._norm).to(size.dtype)
        else:
            self._norm = size.sum(2, keepdim=True)
        self._rate = self._norm.clamp(min=1.0).reciprocal_()
        self._tamed = self._weight * self._rate
        return torch.baddbmm(self._bias, h, self._tamed.mT)

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        found = torch.bmm(delta.mT, self._seen)  # the slope of the tamed weights
        self._bias_grad.baddbmm_(self._ones, delta, beta=keep, alpha=share)
        # of W/n with n = |row|: (G - <G, W>/n · dn/dW) / n, and G itself where n is below 1
        along = (found * self._tamed).sum(2, keepdim=True) * (self._norm > 1.0)
        sign = self._weight.sign()
        if self._first:
            sign = sign * self._most / self._most.sum(2, keepdim=True)
        found.addcmul_(along, sign, value=-1.0).mul_(self._rate)
        self._grad.mul_(keep).add_(found, alpha=share)
        if not wanted:
            return delta
        back = torch.bmm(delta, self._tamed)
        if self._first:
            return back
        half, larger = self._half, self._larger
        top, low = back[:, :, :half], back[:, :, half : 2 * half]
        parts = [torch.where(larger, top, low), torch.where(larger, low, top)]
        return torch.cat([*parts, back[:, :, 2 * half :]], 2)
