"""Layers of many clients at once, forward and backward by hand: no graph, no allocation per step.

Every tensor has a leading client axis: a clients, b rows each. Gradients are added straight into
the flat vector that the optimizer walks along, which saves writing and reading them once. On a CUDA
card that has Triton two element-wise passes are fused into one: a step of ten thousand clients is
bound by memory.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from ...core.tree import Params

_BLOCK = 1024


class Fused(Protocol):
    """The two places where a pass can be saved."""

    def update(self, point: Tensor, speed: Tensor, rate: Tensor, decay: float) -> None:
        """speed += decay·point, then point += rate·speed; rate is () on the device."""

    def bias_relu(self, out: Tensor, bias: Tensor) -> None:
        """out = max(out + bias, 0) in place: (a, b, o) and (a, 1, o)."""


class Plain:
    """Torch's own operations."""

    def update(self, point: Tensor, speed: Tensor, rate: Tensor, decay: float) -> None:
        if decay:
            speed.add_(point, alpha=decay)
        point.addcmul_(speed, rate)

    def bias_relu(self, out: Tensor, bias: Tensor) -> None:
        out.add_(bias).relu_()


class _Triton:
    def __init__(self, update: Any, bias_relu: Any) -> None:
        self._update, self._bias_relu = update, bias_relu

    def update(self, point: Tensor, speed: Tensor, rate: Tensor, decay: float) -> None:
        n = point.numel()
        self._update[(-(-n // _BLOCK),)](point, speed, rate, decay, n, BLOCK=_BLOCK)

    def bias_relu(self, out: Tensor, bias: Tensor) -> None:
        n, (_, rows, width) = out.numel(), out.shape
        self._bias_relu[(-(-n // _BLOCK),)](out, bias, rows, width, n, BLOCK=_BLOCK)


def fused_for(like: Tensor) -> Fused:
    """The fastest that works for tensors like this one."""
    if like.device.type != "cuda" or like.dtype != torch.float32:
        return Plain()
    from . import kernels

    if not kernels.AVAILABLE:
        return Plain()
    found = _Triton(kernels.update, kernels.bias_relu)
    try:  # compiled here, so that a broken toolchain costs speed and nothing else
        some = like.new_ones(2, 2, 2)
        found.update(some.clone(), some.clone(), like.new_ones(()), 0.5)
        found.bias_relu(some.clone(), like.new_ones(2, 1, 2))
    except Exception:
        return Plain()
    return found


_gate = torch.ops.aten.threshold_backward.grad_input  # delta where the output is above 0, else 0


class Scratch:
    """Named buffers that are used again and again: fresh memory costs page faults every step."""

    def __init__(self, like: Tensor) -> None:
        self._like = like
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, *shape: int) -> Tensor:
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < size:
            buffer = self._buffers[name] = self._like.new_zeros(size)
        return buffer[:size].view(shape)

    @property
    def bytes(self) -> int:
        return sum(b.numel() * b.element_size() for b in self._buffers.values())


@dataclass(frozen=True)
class LayerPlace:
    """Where a layer is bound: the parameters and gradients of a clients, and b rows of each."""

    params: Params
    grads: Params
    scratch: Scratch
    fused: Fused
    clients: int  # a
    rows: int  # b

    def pair(self, name: str, axis: int) -> tuple[Tensor, Tensor]:
        """A parameter and its gradient, with one more axis."""
        return self.params[name].unsqueeze(axis), self.grads[name].unsqueeze(axis)


class Bound(Protocol):
    """A layer bound to its parameters and buffers."""

    def forward(self, h: Tensor) -> Tensor: ...

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        """Make each gradient keep·gradient + share·its part of delta; the slope of the input."""


@dataclass(frozen=True)
class Layer:
    """A layer of the model, not yet bound: its class, its parameters, and how it is set."""

    kind: Callable[..., Bound]
    names: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    def bind(self, place: LayerPlace, number: int) -> Bound:
        return self.kind(place, number, **self.settings)


class Dense:
    """A linear layer, (a, b, i) -> (a, b, o)."""

    def __init__(
        self, place: LayerPlace, number: int, *, weight: str, bias: str | None, relu: bool
    ) -> None:
        self._weight, self._grad = place.params[weight], place.grads[weight]  # (a, o, i)
        self._turned = self._weight.mT
        self._bias = self._bias_grad = None
        if bias is not None:
            self._bias, self._bias_grad = place.pair(bias, 1)
        a, b, (o, i) = place.clients, place.rows, self._weight.shape[1:]
        self._relu, self._fused = relu, place.fused
        self._out = place.scratch.take(f"out {number}", a, b, o)
        self._back = place.scratch.take(f"back {number}", a, b, i)
        self._ones = self._weight.new_ones(a, 1, b)

    def forward(self, h: Tensor) -> Tensor:
        self._seen = h
        torch.bmm(h, self._turned, out=self._out)
        if self._bias is not None and self._relu:
            self._fused.bias_relu(self._out, self._bias)
            return self._out
        if self._bias is not None:
            self._out.add_(self._bias)
        return self._out.relu_() if self._relu else self._out

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        if self._relu:
            _gate(delta, self._out, 0, grad_input=delta)
        self._grad.baddbmm_(delta.mT, self._seen, beta=keep, alpha=share)
        if self._bias_grad is not None:
            self._bias_grad.baddbmm_(self._ones, delta, beta=keep, alpha=share)
        return torch.bmm(delta, self._weight, out=self._back) if wanted else delta


class Last:
    """The last linear layer, which gives its output class by class, (a, b, i) -> (a, k, b).

    The softmax over few classes is ten times faster down the columns than along the rows.
    """

    def __init__(self, place: LayerPlace, number: int, *, weight: str, bias: str | None) -> None:
        self._weight, self._grad = place.params[weight], place.grads[weight]  # (a, k, i)
        self._bias = self._bias_grad = None
        if bias is not None:
            self._bias, self._bias_grad = place.pair(bias, 2)
        a, b, (k, i) = place.clients, place.rows, self._weight.shape[1:]
        self._out = place.scratch.take(f"out {number}", a, k, b)
        self._back = place.scratch.take(f"back {number}", a, b, i)
        self._ones = self._weight.new_ones(a, b, 1)

    def forward(self, h: Tensor) -> Tensor:
        self._seen = h
        torch.bmm(self._weight, h.mT, out=self._out)
        return self._out if self._bias is None else self._out.add_(self._bias)

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        self._grad.baddbmm_(delta, self._seen, beta=keep, alpha=share)
        if self._bias_grad is not None:
            self._bias_grad.baddbmm_(delta, self._ones, beta=keep, alpha=share)
        return torch.bmm(delta.mT, self._weight, out=self._back) if wanted else delta


class Flat:
    """Feature maps (a, c, h, w, b) as rows (a, b, c·h·w): a matrix seen the other way round."""

    def __init__(self, place: LayerPlace, number: int) -> None: ...

    def forward(self, h: Tensor) -> Tensor:
        self._shape = h.shape
        return h.view(h.shape[0], -1, h.shape[-1]).mT

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        return delta.mT.reshape(self._shape)


class Hear:
    """Rows (a, b, h) with what the expert says appended, (a, b, h + 2k)."""

    heard: Tensor | None = None  # (a, b, 2k), set before each forward

    def __init__(self, place: LayerPlace, number: int) -> None:
        self._place, self._number = place, number

    def forward(self, h: Tensor) -> Tensor:
        assert self.heard is not None
        a, b, self._width = h.shape
        wide = self._place.scratch.take(
            f"out {self._number}", a, b, self._width + self.heard.shape[2]
        )
        wide[:, :, : self._width].copy_(h)
        wide[:, :, self._width :].copy_(self.heard)
        return wide

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        # copied: the layer before gates what it gets in place and multiplies it as a matrix
        narrow = self._place.scratch.take(f"back {self._number}", *delta.shape[:2], self._width)
        return narrow.copy_(delta[:, :, : self._width])


class ConvPool:
    """Conv2d of stride 1, ReLU and MaxPool2d(2), on maps (a, c, height, width, b).

    The four outputs under each maximum are computed as four kernels, shifted by a pixel, over the
    same patch: one product of a (4·o, c·(s+1)²) and a (c·(s+1)², pixels) matrix, where the usual
    unfolding makes a matrix three times as large and leaves the maximum a slow, strided pass of its
    own. Rows come last, so that whatever moves pixels about moves whole batches. Views are
    made at the first batch and kept: making them costs as much as using them.
    """

    def __init__(
        self, place: LayerPlace, number: int, *, weight: str, bias: str | None, padding: int
    ) -> None:
        self._weight, self._grad = place.params[weight], place.grads[weight]  # (a, o, c, s, s)
        self._bias = self._bias_grad = None
        if bias is not None:
            self._bias, self._bias_grad = place.params[bias].unsqueeze(2), place.grads[bias]
        self._scratch, self._number, self._pad = place.scratch, number, padding
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

    def _pairs(self, maps: Tensor) -> list[tuple[Tensor, Tensor]]:
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
