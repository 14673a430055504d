"""Layers of many clients at once, forward and backward by hand: no graph, no allocation per step.

Every tensor has a leading client axis: a clients, b rows each. Gradients are added straight into
the flat vector that the optimizer walks along, which saves writing and reading them once.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...core.tree import Params
from .fused import Fused

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


class Bound(Protocol):
    """A layer bound to its parameters and buffers."""

    def forward(self, h: Tensor) -> Tensor: ...

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        """Make each gradient keep·gradient + share·its part of delta; the slope of the input."""
        ...


class Layer(Protocol):
    """A layer of the model, not yet bound."""

    def bind(self, place: LayerPlace, number: int) -> Bound: ...


@dataclass(frozen=True)
class Dense:
    """A linear layer; the last one gives its output class by class, (a, k, b).

    The softmax over few classes is ten times faster down the columns than along the rows.
    """

    weight: str
    bias: str | None
    relu: bool
    last: bool

    def bind(self, place: LayerPlace, number: int) -> Bound:
        return _Last(self, place, number) if self.last else _Dense(self, place, number)


class _Dense:
    """(a, b, i) -> (a, b, o)."""

    def __init__(self, layer: Dense, place: LayerPlace, number: int) -> None:
        self._weight = place.params[layer.weight]  # (a, o, i)
        self._turned = self._weight.mT
        self._grad = place.grads[layer.weight]
        self._bias = self._bias_grad = None
        if layer.bias is not None:
            self._bias = place.params[layer.bias].unsqueeze(1)
            self._bias_grad = place.grads[layer.bias].unsqueeze(1)
        a, b, (o, i) = place.clients, place.rows, self._weight.shape[1:]
        self._relu, self._fused = layer.relu, place.fused
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


class _Last:
    """(a, b, i) -> (a, k, b)."""

    def __init__(self, layer: Dense, place: LayerPlace, number: int) -> None:
        self._weight = place.params[layer.weight]  # (a, k, i)
        self._grad = place.grads[layer.weight]
        self._bias = self._bias_grad = None
        if layer.bias is not None:
            self._bias = place.params[layer.bias].unsqueeze(2)
            self._bias_grad = place.grads[layer.bias].unsqueeze(2)
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


@dataclass(frozen=True)
class Flat:
    """Feature maps (a, c, h, w, b) as rows (a, b, c·h·w): a matrix seen the other way round."""

    def bind(self, place: LayerPlace, number: int) -> Bound:
        return _Flat()


class _Flat:
    def forward(self, h: Tensor) -> Tensor:
        self._shape = h.shape
        return h.view(h.shape[0], -1, h.shape[-1]).mT

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        return delta.mT.reshape(self._shape)


@dataclass(frozen=True)
class Hear:
    """Rows (a, b, h) with what the expert says appended, (a, b, h + 2k)."""

    def bind(self, place: LayerPlace, number: int) -> "_Hear":
        return _Hear(place, number)


class _Hear:
    told: Tensor  # (a, b, 2k), set before each forward

    def __init__(self, place: LayerPlace, number: int) -> None:
        self._place, self._number = place, number

    def forward(self, h: Tensor) -> Tensor:
        a, b, self._width = h.shape
        wide = self._place.scratch.take(
            f"out {self._number}", a, b, self._width + self.told.shape[2]
        )
        wide[:, :, : self._width].copy_(h)
        wide[:, :, self._width :].copy_(self.told)
        return wide

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        # copied: the layer before gates what it gets in place and multiplies it as a matrix
        narrow = self._place.scratch.take(f"back {self._number}", *delta.shape[:2], self._width)
        return narrow.copy_(delta[:, :, : self._width])
