"""Randomness with an address: the same path gives the same numbers on any machine, in any order.

Training randomness is public by design. Privacy noise, masks and keys never come from here.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from .tensors import torch

__all__ = ["draw_numbers", "key", "stream"]

if TYPE_CHECKING:
    from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit number
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB


def key(*path: int | str) -> int:
    """A 63-bit number for an address such as (seed, round, client)."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in path)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def stream(*path: int | str) -> torch.Generator:
    """A generator that belongs to one address."""
    return torch.Generator().manual_seed(key(*path))


def bits(keys: Tensor, count: int) -> Tensor:
    """`count` random 64-bit numbers for each key, (m,) -> (m, count).

    Counter-based (SplitMix64: Steele, Lea, Flood 2014), so that ten thousand clients cost one
    call and every device gives the same bits.
    """
    counter = torch.arange(1, count + 1, device=keys.device, dtype=torch.int64)
    return _mix(keys[:, None] + counter * _GOLDEN)


def join_keys(common: int, own: Tensor) -> Tensor:
    """Keys of addresses with a common part and one of their own, (m,) -> (m,), in one call."""
    return _mix(own ^ common)


def orders(keys: Tensor, rows: int, own: Tensor | None = None) -> Tensor:
    """A random order of `rows` rows for each key, (m,) -> (m, rows).

    With `own` row counts, (m,), key i orders its first own[i] rows as it would by itself, and
    what follows is padding.
    """
    drawn = bits(keys, rows)
    if own is not None:
        beyond = torch.arange(rows, device=keys.device) >= own[:, None]
        drawn = drawn.masked_fill_(beyond, torch.iinfo(torch.int64).max)
    return drawn.argsort(dim=1)


def draw_numbers(count: int, size: int, *path: int | str) -> list[int]:
    """`count` of the numbers 0..size-1 without replacement, ascending.

    Few of many cost by the few: numbers are drawn and repeats passed over.
    """
    if 2 * count > size:
        return sorted(torch.randperm(size, generator=stream(*path))[:count].tolist())
    start = torch.tensor([key(*path)])
    picked: dict[int, None] = {}
    wanted = 2 * count
    while len(picked) < count:  # each draw is new with a chance of at least one half
        drawn = bits(start, wanted).remainder(size)
        picked = dict.fromkeys(drawn[0].tolist())
        wanted *= 2
    return sorted(list(picked)[:count])


def _mix(z: Tensor) -> Tensor:
    """The output function of SplitMix64."""
    z = (z ^ _shift(z, 30)) * _MIX_1
    z = (z ^ _shift(z, 27)) * _MIX_2
    return z ^ _shift(z, 31)


def _shift(z: Tensor, by: int) -> Tensor:
    """A logical right shift; torch's own keeps the sign."""
    return (z >> by) & ((1 << (64 - by)) - 1)
