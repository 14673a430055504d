"""Uploads as integers modulo 2^64, whose sums are exact: what masks can be added to.

A float32 becomes one word: weight times value in units of 2^-bits. A float64 becomes two, a whole
number and the rest, since its 53 bits and its range do not fit one. The weight itself is one more
word. What does not fit is an error and is never clipped.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.store import Layout, layout_of, read_layout
from ...core.tree import Params, Payload, flatten, nest
from ...errors import FedloreError

Words = NDArray[np.uint64]  # (1 + words,): the weight first

LARGEST_WORD = 2.0**20  # of |weight × value| in a float32; float64 bears far more
NARROW = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
FLOAT_KINDS = NARROW | {"float64": torch.float64}


@dataclass(frozen=True)
class FixedPoint:
    """How numbers are written so that the sum over a cohort cannot overflow.

    With 50 sites a float32 has 37 bits behind the point: an error of the mean of at most 2^-38,
    3.6e-12, so below 1e-6 of a mean whose size is above 4e-6.
    """

    sites: int

    @property
    def head(self) -> int:
        """Bits that one site may use, so that the sum of all stays within 63 and a sign."""
        return 63 - math.ceil(math.log2(self.sites))

    @property
    def bits(self) -> int:
        """Bits behind the point of a float32."""
        return self.head - int(math.log2(LARGEST_WORD))

    @property
    def rest(self) -> int:
        """Bits of the second word of a float64: what is left of it is at most one half."""
        return self.head - 1

    def encode(self, upload: Payload, weight: int) -> tuple[Layout, Words]:
        """An upload, times the weight, as words; the weight comes first."""
        if not 1 <= weight < 2**self.head:
            raise FedloreError(f"a weight must lie in [1, 2^{self.head}), got {weight}")
        layout, flat = summands(upload)
        words = np.empty(encode_words(layout), np.int64)
        words[0] = weight
        place = 1
        for name, kind, _ in layout:
            wide = flat[name].detach().cpu().double().reshape(-1) * weight
            if kind == "float64":
                whole = wide.round()
                parts = [whole, ((wide - whole) * 2.0**self.rest).round()]
            else:
                parts = [wide.mul_(2.0**self.bits).round_()]
            for part in parts:
                self._check(part, kind)
                end = place + part.numel()
                torch.from_numpy(words[place:end]).copy_(part)
                place = end
        return layout, words.view(np.uint64)

    def decode(self, words: Words, layout: Layout) -> tuple[Payload, int]:
        """The mean from the sum of words, and the weight of all."""
        if words.shape != (encode_words(layout),):
            raise FedloreError(f"{words.size} words do not fit a layout of {encode_words(layout)}")
        signed = torch.from_numpy(words.view(np.int64))
        weight = int(signed[0])
        if weight < 1:
            raise FedloreError(f"the weights add up to {weight}")
        mean: Params = {}
        place = 1
        for name, kind, shape in layout:
            size = math.prod(shape)
            flat = signed[place : place + size].double()
            place += size
            if kind == "float64":
                flat += signed[place : place + size].double() / 2.0**self.rest
                place += size
                flat /= weight
            else:
                flat /= weight * 2.0**self.bits
            mean[name] = flat.to(FLOAT_KINDS[kind]).reshape(shape)
        return nest(mean), weight

    def _check(self, part: Tensor, kind: str) -> None:
        """Refuse what would wrap around; the value itself is nobody's business."""
        if not bool(part.isfinite().all()):
            raise FedloreError("the upload holds a value that is not finite")
        if part.numel() and float(part.abs().max()) >= 2.0**self.head:
            largest = 2.0**self.head if kind == "float64" else LARGEST_WORD
            raise FedloreError(
                f"the upload holds a value beyond the fixed-point range: weight times value must "
                f"stay below {largest:.4g} in {kind} with {self.sites} sites"
            )


def summands(upload: Payload) -> tuple[Layout, Params]:
    """The tensors of an upload in the order of their words; every site must find the same."""
    flat = dict(sorted(flatten(upload).items()))
    return _real(layout_of(flat)), flat


def encode_words(layout: Layout) -> int:
    """How many words a layout takes, the weight included."""
    return 1 + sum(math.prod(s) * (2 if k == "float64" else 1) for _, k, s in layout)


def read_summands(found: Any) -> Layout:
    """A layout as it arrives from a site; what cannot be summed is refused."""
    return _real(read_layout(found))


def _real(layout: Layout) -> Layout:
    for name, kind, _ in layout:
        if kind not in FLOAT_KINDS:
            raise FedloreError(f"'{name}' holds {kind}: only real numbers can be summed")
    return layout
