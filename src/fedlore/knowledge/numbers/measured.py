"""Rows whose label is a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.tensors import torch
from ...errors import FedloreError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Measured:
    """Rows in raw units with one measured number each; `Examples` are made of them at the door.

    A type of its own, since a class index and a number are different things: everything below
    the door keeps its int64 classes, and the number stays in float64 for decoding and scores. A
    label given in float32 is taken as the float64 of the same value.
    """

    x: Tensor  # (n, *features)
    y: Tensor | None = None  # (n,) float64

    def __post_init__(self) -> None:
        if self.x.ndim < 2 or not self.x.is_floating_point():
            raise FedloreError(
                "x must be floating point with a row axis and features, got "
                f"{self.x.dtype} of shape {tuple(self.x.shape)}"
            )
        if self.y is None:
            return
        if self.y.shape != (len(self.x),) or not self.y.is_floating_point():
            raise FedloreError(
                f"y must hold one number per row, shape ({len(self.x)},): got {self.y.dtype} of "
                f"shape {tuple(self.y.shape)}"
            )
        object.__setattr__(self, "y", self.y.double())

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Tensor | slice) -> Measured:
        return self._each(lambda t: t[rows])

    def to(self, device: torch.device | str) -> Measured:
        return self._each(lambda t: t.to(device))

    def split(self, share: float, generator: torch.Generator) -> tuple[Measured, Measured]:
        """Two parts at random: about `share` of the rows, and the rest."""
        order = torch.randperm(len(self), generator=generator)
        cut = round(share * len(self))
        return self[order[:cut]], self[order[cut:]]

    def numbers(self) -> Tensor:
        """The labels, or an error where there are none."""
        if self.y is None:
            raise FedloreError("these rows have no measured numbers")
        return self.y

    def _each(self, change: Callable[[Tensor], Tensor]) -> Measured:
        return Measured(change(self.x), None if self.y is None else change(self.y))
