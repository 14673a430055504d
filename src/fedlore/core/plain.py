"""Named tensors as plain bytes with a layout beside them: no pickle, checked when read."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import FedloreError
from .tree import Params

DTYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    + (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
}

Layout = list[tuple[str, str, tuple[int, ...]]]  # name, kind and shape of each tensor in order


def layout_of(bundle: Params) -> Layout:
    """What stands where in the bytes of a bundle."""
    return [(n, str(t.dtype).removeprefix("torch."), tuple(t.shape)) for n, t in bundle.items()]


def read_layout(found: Any) -> Layout:
    """A layout as it arrives from elsewhere; what is none is refused."""
    entries = map(_entry, found if isinstance(found, list) else [found])
    return [(name, str(kind).removeprefix("torch."), shape) for name, kind, shape in entries]


def to_bytes(bundle: Params) -> bytes:
    return b"".join(_bytes(t) for t in bundle.values())


def bytes_of_layout(layout: Sequence[Any]) -> int:
    """How many bytes a layout asks for."""
    return sum(math.prod(shape) * kind.itemsize for _, kind, shape in map(_entry, layout))


def from_bytes(layout: Sequence[Any], data: bytes | bytearray) -> Params:
    """The bundle that has this layout; bytes that do not fit it are refused."""
    bundle: Params = {}
    place = 0
    for entry in layout:
        name, kind, shape = _entry(entry)
        end = place + math.prod(shape) * kind.itemsize
        if end > len(data):
            break
        piece = bytearray(data[place:end])  # a copy of its own: the tensor may be written to
        flat = torch.frombuffer(piece, dtype=kind) if piece else torch.empty(0, dtype=kind)
        bundle[name] = flat.view(shape)
        place = end
    if len(bundle) != len(layout) or place != len(data):
        raise FedloreError(f"{len(data)} bytes do not fit a layout of {len(layout)} tensors")
    return bundle


def _entry(entry: Any) -> tuple[str, torch.dtype, tuple[int, ...]]:
    try:
        name, kind, shape = entry
        sizes = tuple(shape)
        legal = isinstance(name, str) and all(type(n) is int and n >= 0 for n in sizes)
        if legal:
            return name, DTYPES[kind], sizes
    except (KeyError, TypeError, ValueError):
        pass
    raise FedloreError(f"no such entry in a layout: {str(entry)[:80]}")


def _bytes(t: Tensor) -> bytes:
    return t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
