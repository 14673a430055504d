"""A convolution, ReLU and 2×2 maximum of many clients as one matrix product.

The four outputs under each maximum are computed as four kernels, shifted by a pixel, over the same
patch: one product of a (4·o, c·(s+1)²) and a (c·(s+1)², pixels) matrix, where the usual unfolding
makes a matrix three times as large and leaves the maximum a slow, strided pass of its own.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .stacked_layers import Bound, Place

_gate = torch.ops.aten.threshold_backward.grad_input


@dataclass(frozen=True)
class ConvPool:
    """Conv2d of stride 1, ReLU and MaxPool2d(2), on maps (a, c, b, height, width)."""

    weight: str
    bias: str | None
    padding: int

    def bind(self, place: Place, number: int) -> Bound:
        return _ConvPool(self, place, number)


class _ConvPool:
    def __init__(self, layer: ConvPool, place: Place, number: int) -> None:
        self._weight = place.params[layer.weight]  # (a, o, c, s, s)
        self._grad = place.grads[layer.weight]
        self._bias = self._bias_grad = None
        if layer.bias is not None:
            self._bias = place.params[layer.bias].unsqueeze(2)
            self._bias_grad = place.grads[layer.bias]
        self._place, self._number, self._pad = place, number, layer.padding
        self._reach = (self._weight.shape[-1] + 2) // 2  # a patch has 2·reach pixels a side
        a, o, c = self._weight.shape[:3]
        side = 2 * self._reach
        self._kernels = self._weight.new_zeros(a, 2, 2, o, c, side, side)
        self._zero = self._weight.new_zeros(())

    def forward(self, h: Tensor) -> Tensor:
        """(a, c, b, height, width) -> (a, o, b, height', width'); the maximum of the four is first,

        then bias and ReLU: they keep the order, and there is a quarter of the work left.
        """
        a, c, b, height, width = h.shape
        o, size = self._weight.shape[1], self._weight.shape[-1]
        up, across = ((n + 2 * self._pad - size + 1) // 2 for n in (height, width))
        self._seen, self._out_side = h.shape, (up, across)
        patches = self._patches(h)  # (a, c·side², b·up·across)
        for p in (0, 1):
            for q in (0, 1):
                self._kernels[:, p, q, :, :, p : p + size, q : q + size].copy_(self._weight)
        self._four = self._take("four", a, 4, o, b * up * across)
        kernels = self._kernels.view(a, 4 * o, -1)
        torch.bmm(kernels, patches, out=self._four.view(a, 4 * o, -1))
        self._best = torch.amax(self._four, 1, out=self._take("best", a, o, b * up * across))
        self._out = self._take("out", a, o, b * up * across).copy_(self._best)
        if self._bias is not None:
            self._out.add_(self._bias)
        return self._out.relu_().view(a, o, b, up, across)

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        a, o, size = *self._weight.shape[:2], self._weight.shape[-1]
        left = delta.reshape(a, o, -1)
        _gate(left, self._out, 0, grad_input=left)
        if self._bias_grad is not None:
            self._bias_grad.mul_(keep).add_(left.sum(2), alpha=share)
        spread = self._spread(left).view(a, 4 * o, -1)
        grads = torch.bmm(spread, self._unfolded.mT, out=self._take("grads", a, *self._flat()))
        four = grads.view(self._kernels.shape)
        self._grad.mul_(keep)
        for p in (0, 1):
            for q in (0, 1):
                part = four[:, p, q, :, :, p : p + size, q : q + size]
                self._grad.add_(part, alpha=share)
        return self._fold(spread) if wanted else delta

    def _take(self, name: str, *shape: int) -> Tensor:
        return self._place.scratch.take(f"{name} {self._number}", *shape)

    def _flat(self) -> tuple[int, int]:
        a, _, _, o, c, side, _ = self._kernels.shape
        return 4 * o, c * side * side

    def _planes(self, name: str) -> Tensor:
        """The padded input by parity of row and column, (a, c, 2, 2, b, rows, columns), zeroed."""
        a, c, b = self._seen[:3]
        up, across = self._out_side
        shape = (a, c, 2, 2, b, up + self._reach - 1, across + self._reach - 1)
        return self._take(name, *shape).zero_()

    def _copies(self, planes: Tensor, maps: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Pairs of views: the pixels of a plane and the same pixels of the maps."""
        pairs = []
        for p in (0, 1):
            for q in (0, 1):
                # plane pixel (r, s) is map pixel (2r + p - pad, 2s + q - pad)
                first = [-(-(self._pad - shift) // 2) for shift in (p, q)]
                begin = [2 * f + shift - self._pad for f, shift in zip(first, (p, q), strict=True)]
                part = maps[..., begin[0] :: 2, begin[1] :: 2]
                rows = min(part.shape[-2], planes.shape[-2] - first[0])
                columns = min(part.shape[-1], planes.shape[-1] - first[1])
                inside = planes[:, :, p, q, :, first[0] :, first[1] :]
                pairs.append((inside[..., :rows, :columns], part[..., :rows, :columns]))
        return pairs

    def _windows(self, planes: Tensor) -> Tensor:
        """(a, c, reach, 2, reach, 2, b, up, across): the planes, seen from every shift."""
        a, c, _, _, b, _, columns = planes.shape
        s = planes.stride()
        shape = (a, c, self._reach, 2, self._reach, 2, b, *self._out_side)
        strides = (s[0], s[1], columns, s[2], 1, s[3], s[4], columns, 1)
        return planes.as_strided(shape, strides)

    def _patches(self, h: Tensor) -> Tensor:
        planes = self._planes("planes")
        for inside, part in self._copies(planes, h):
            inside.copy_(part)
        windows = self._windows(planes)
        self._unfolded = self._take("patches", *windows.shape).copy_(windows)
        self._unfolded = self._unfolded.view(h.shape[0], self._flat()[1], -1)
        return self._unfolded

    def _spread(self, left: Tensor) -> Tensor:
        """The slope of each of the four outputs: all of it goes to the first that was largest."""
        a, o, n = left.shape
        four = self._take("spread", a, 4, o, n)
        for i in range(3):
            torch.where(self._four[:, i] == self._best, left, self._zero, out=four[:, i])
            left.sub_(four[:, i])  # exact: it is either all or nothing
        four[:, 3].copy_(left)
        return four

    def _fold(self, spread: Tensor) -> Tensor:
        """The slope of the input: what every patch says about a pixel, added up."""
        a, c, b = self._seen[:3]
        kernels = self._kernels.view(a, *self._flat())
        patches = self._take("patches", a, self._flat()[1], spread.shape[2])
        torch.bmm(kernels.mT, spread, out=patches)
        planes = self._planes("planes")
        up, across = self._out_side
        apart = patches.view(a, c, self._reach, 2, self._reach, 2, b, up, across)
        for u in range(self._reach):
            for v in range(self._reach):
                planes[..., u : u + up, v : v + across].add_(apart[:, :, u, :, v])
        maps = self._take("back", *self._seen).zero_()
        for inside, part in self._copies(planes, maps):
            part.copy_(inside)
        return maps
