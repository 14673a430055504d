"""Two element-wise passes fused into one, on a CUDA card that has Triton; elsewhere plain torch.

A step of ten thousand clients is bound by memory: every pass over the parameters counts.
"""

from typing import Any, Protocol

import torch
from torch import Tensor

_BLOCK = 1024


class Fused(Protocol):
    """The two places where a pass can be saved."""

    def update(self, point: Tensor, speed: Tensor, rate: Tensor, decay: float) -> None:
        """speed += decay·point, then point += rate·speed; rate is () on the device."""
        ...

    def bias_relu(self, out: Tensor, bias: Tensor) -> None:
        """out = max(out + bias, 0) in place: (a, b, o) and (a, 1, o)."""
        ...


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
