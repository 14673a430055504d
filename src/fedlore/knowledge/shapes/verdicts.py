"""What is known of a site's range and prediction along its shapes, and what may be heard then."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...core.tensors import torch

if TYPE_CHECKING:
    from torch import Tensor


OrderStatus = Literal["constant", "ordered", "broken", "unknown"]
Pair = tuple[tuple[float, ...], tuple[float, ...]]  # two rows that differ in one feature alone

_EARS: dict[OrderStatus, float] = {
    "constant": 0.0,  # it may enter with any sign
    "ordered": 1.0,  # it enters with its own
    "unknown": math.nan,  # it is withheld
    "broken": math.nan,
}


@dataclass(frozen=True)
class OrderFound:
    """What is known of one side along one feature."""

    status: OrderStatus
    pair: Pair | None = None  # rows that break it

    @property
    def kept(self) -> bool:
        return self.status in ("constant", "ordered")


@dataclass(frozen=True)
class Orders:
    """Range and prediction along each shape."""

    ranges: tuple[OrderFound, ...]
    predictions: tuple[OrderFound, ...]

    @property
    def range(self) -> OrderStatus:
        return _worst(order.status for order in self.ranges)

    @property
    def prediction(self) -> OrderStatus:
        return _worst(order.status for order in self.predictions)

    @property
    def hears_prediction(self) -> bool:
        """Whether the expert's word may count: it moves the way all shapes say."""
        return all(order.kept for order in self.predictions)


def ears_for(signs: Tensor, orders: Orders) -> Tensor:
    """Signs of the features with those of the middle of the range and the expert's place behind.

    The expert stands in the middle where he is silent, so his place keeps an order where both do.
    """
    middle = _EARS[orders.range]
    told = math.nan if middle != middle else max(middle, _EARS[orders.prediction])
    if _EARS[orders.prediction] != _EARS[orders.prediction]:
        told = math.nan
    heard = signs.new_tensor([middle, told]).expand(len(signs), 2)
    return torch.cat([signs, heard], 1)


def _worst(found: Iterable[OrderStatus]) -> OrderStatus:
    rank: tuple[OrderStatus, ...] = ("constant", "ordered", "unknown", "broken")
    return max(found, key=rank.index)
