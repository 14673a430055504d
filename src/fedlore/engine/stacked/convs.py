"""A convolution, ReLU and 2×2 maximum of many clients as one matrix product.

The four outputs under each maximum are computed as four kernels, shifted by a pixel, over the same
patch: one product of a (4·o, c·(s+1)²) and a (c·(s+1)², pixels) matrix, where the usual unfolding
makes a matrix three times as large and leaves the maximum a slow, strided pass of its own. Rows
come last, so that whatever moves pixels about moves whole batches.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .layers import Bound, LayerPlace

_gate = torch.ops.aten.threshold_backward.grad_input

_Pairs = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class ConvPool:
    """Conv2d of stride 1, ReLU and MaxPool2d(2), on maps (a, c, height, width, b)."""

    weight: str
    bias: str | None
    padding: int

    def bind(self, place: LayerPlace, number: int) -> Bound:
        return _ConvPool(self, place, number)


class _ConvPool:
    """Views are made at the first batch and kept: making them costs as much as using them."""

    def __init__(self, layer: ConvPool, place: LayerPlace, number: int) -> None:
        self._weight = place.params[layer.weight]  # (a, o, c, s, s)
        self._grad = place.grads[layer.weight]
        self._bias = self._bias_grad = None
        if layer.bias is not None:
            self._bias = place.params[layer.bias].unsqueeze(2)
            self._bias_grad = place.grads[layer.bias]
        self._scratch, self._number, self._pad = place.scratch, number, layer.padding
        self._laid_out: torch.Size | None = None

    def _lay_out(self, seen: torch.Size) -> None:
        """Buffers and views for maps of this shape."""
        self._laid_out = seen
        a, o, c, size, _ = self._weight.shape
        height, width, b = seen[2:]
        reach = (size + 2) // 2  # a patch has 2·reach pixels a side
        up, across = ((n + 2 * self._pad - size + 1) // 2 for n in (height, width))
        n, side = up * across * b, 2 * reach
        # four shifted copies of the kernel, and the same of its gradient
        self._kernels = self._weight.new_zeros(a, 4 * o, c * side * side)
        self._slopes = self._take("slopes", a, 4 * o, c * side * side)
        shape = (a, 2, 2, o, c, side, side)
        shifts = [(p, q) for p in (0, 1) for q in (0, 1)]
        self._shifted, self._sloped = (
            [f.view(shape)[:, p, q, :, :, p : p + size, q : q + size] for p, q in shifts]
            for f in (self._kernels, self._slopes)
        )
        # the padded input by parity of row and column, and all patches of it
        rows, columns = up + reach - 1, across + reach - 1
        self._planes = self._take("planes", a, c, 2, 2, rows, columns, b)
        s = self._planes.stride()
        strides = (s[0], s[1], s[4], s[2], s[5], s[3], s[4], s[5], 1)
        patches = (a, c, reach, 2, reach, 2, up, across, b)
        self._windows = self._planes.as_strided(patches, strides)
        self._apart = self._take("patches", *patches)
        self._patches = self._apart.view(a, c * side * side, n)
        places = [(u, v) for u in range(reach) for v in range(reach)]
        self._folds = [
            (self._planes[..., u : u + up, v : v + across, :], self._apart[:, :, u, :, v])
            for u, v in places
        ]
        self._four = self._take("four", a, 4, o, n)
        self._spread = self._take("spread", a, 4, o, n)
        self._best, self._out, self._won = (self._take(x, a, o, n) for x in ("best", "out", "won"))
        self._back = self._weight.new_zeros(seen)  # pixels that no maximum sees stay 0
        self._returns = self._pairs(self._back)
        self._shape = (a, o, up, across, b)

    def forward(self, h: Tensor) -> Tensor:
        """(a, c, height, width, b) -> (a, o, up, across, b).

        The maximum of the four comes first, then bias and ReLU: they keep the order, and a
        quarter of the work is left.
        """
        if h.shape != self._laid_out:
            self._lay_out(h.shape)
        a, four, _ = self._kernels.shape
        self._planes.zero_()
        for inside, part in self._pairs(h):
            inside.copy_(part)
        self._apart.copy_(self._windows)
        for kernel in self._shifted:
            kernel.copy_(self._weight)
        torch.bmm(self._kernels, self._patches, out=self._four.view(a, four, -1))
        torch.amax(self._four, 1, out=self._best)
        if self._bias is None:
            torch.clamp(self._best, min=0, out=self._out)
        else:
            torch.add(self._best, self._bias, out=self._out).relu_()
        return self._out.view(self._shape)

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        a, four, _ = self._kernels.shape
        left = delta.reshape(self._out.shape)
        _gate(left, self._out, 0, grad_input=left)
        if self._bias_grad is not None:
            self._bias_grad.mul_(keep).add_(left.sum(2), alpha=share)
        for i in range(3):  # all of the slope goes to the first of the four that was largest
            torch.eq(self._four[:, i], self._best, out=self._won)
            torch.mul(left, self._won, out=self._spread[:, i])
            left.sub_(self._spread[:, i])  # exact: it is either all or nothing
        self._spread[:, 3].copy_(left)
        spread = self._spread.view(a, four, -1)
        torch.bmm(spread, self._patches.mT, out=self._slopes)
        self._grad.mul_(keep)
        for sloped in self._sloped:
            self._grad.add_(sloped, alpha=share)
        if not wanted:
            return delta
        torch.bmm(self._kernels.mT, spread, out=self._patches)
        self._planes.zero_()
        for plane, patch in self._folds:  # what every patch says about a pixel, added up
            plane.add_(patch)
        for inside, part in self._returns:
            part.copy_(inside)
        return self._back

    def _take(self, name: str, *shape: int) -> Tensor:
        return self._scratch.take(f"{name} {self._number}", *shape)

    def _pairs(self, maps: Tensor) -> _Pairs:
        """Pairs of views: the pixels of a plane, and the same pixels of the maps."""
        pairs = []
        for p in (0, 1):
            for q in (0, 1):
                # plane pixel (r, s) is map pixel (2r + p - pad, 2s + q - pad)
                first = [-(-(self._pad - shift) // 2) for shift in (p, q)]
                begin = [2 * f + shift - self._pad for f, shift in zip(first, (p, q), strict=True)]
                part = maps[:, :, begin[0] :: 2, begin[1] :: 2]
                inside = self._planes[:, :, p, q, first[0] :, first[1] :]
                rows = min(part.shape[2], inside.shape[2])
                columns = min(part.shape[3], inside.shape[3])
                pairs.append((inside[:, :, :rows, :columns], part[:, :, :rows, :columns]))
        return pairs
