"""Random numbers that nobody can guess: bits of the operating system, shaped into noise.

No generator stands in between. Uploads hold exact zeros, so a server may see pure noise in them,
and from enough of it the state of a Mersenne Twister or PCG can be worked out.
"""

import math
import os
from collections.abc import Callable

import torch
from torch import Tensor

from ...core.tree import Payload

Entropy = Callable[[int], bytes]  # so many random bytes

_UNIT = 2.0**-53


def uniform(count: int, entropy: Entropy = os.urandom) -> Tensor:
    """Numbers in [0, 1) of 53 random bits each, (count,) in float64."""
    if count == 0:
        return torch.zeros(0, dtype=torch.float64)
    words = torch.frombuffer(bytearray(entropy(8 * count)), dtype=torch.int64)
    return ((words >> 11) & ((1 << 53) - 1)).double() * _UNIT


def gaussian(count: int, entropy: Entropy = os.urandom) -> Tensor:
    """Standard normal numbers, (count,) in float64.

    Each is the sum of four draws over two, after Holohan and Braghin (2021), Secure Random Sampling
    in Differential Privacy: the gaps that one draw leaves between floating-point numbers (Mironov
    2012) are then no longer a fingerprint of the value below the noise.
    """
    if count == 0:
        return torch.zeros(0, dtype=torch.float64)
    total = torch.zeros(count, dtype=torch.float64)
    for _ in range(2):  # Box and Muller (1958): two draws from two uniforms
        u = uniform(2 * count, entropy)
        radius = (-2.0 * torch.log1p(-u[:count])).sqrt_()  # 1 - u is never 0
        angle = u[count:].mul(2 * math.pi)
        total += radius * (angle.cos() + angle.sin())
    return total.div_(2.0)


def with_noise(payload: Payload, std: float, entropy: Entropy = os.urandom) -> Payload:
    """Every number of a payload with noise of this spread, added in float64."""
    if std == 0.0:
        return payload
    return {
        key: {
            name: (t.double() + std * gaussian(t.numel(), entropy).view(t.shape).to(t.device)).to(
                t.dtype
            )
            for name, t in bundle.items()
        }
        for key, bundle in payload.items()
    }
