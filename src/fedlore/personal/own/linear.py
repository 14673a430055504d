"""Ridge regression by hand: all penalties from one decomposition, linear or quadratic."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FLAT = 1e-9  # a column that varies less, in its own units, says nothing


@dataclass(frozen=True, eq=False)
class Linear:
    """Outputs that are linear in standardised columns, or in those and their products."""

    mean: Tensor  # (i,) float64
    scale: Tensor  # (i,) float64
    weight: Tensor  # (t, o) float64, t terms
    constant: Tensor  # (o,) float64
    quadratic: bool = False

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, i) -> (n, o) float64."""
        z = (inputs.double() - self.mean) / self.scale
        return (products(z) if self.quadratic else z) @ self.weight + self.constant


def products(z: Tensor) -> Tensor:
    """Columns, then their squares and products, (n, i) -> (n, i + i (i + 1) / 2)."""
    first, second = torch.triu_indices(z.shape[1], z.shape[1], device=z.device)
    return torch.cat([z, z[:, first] * z[:, second]], 1)


def standardise(inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Columns with mean 0 and variance 1 in float64, and mean and scale of each.

    A flat column becomes exactly 0, so that it gets no weight.
    """
    wide = inputs.double()
    mean = wide.mean(0)
    scale = wide.std(0, correction=0)
    flat = scale <= FLAT
    scale = scale.masked_fill(flat, 1.0)
    return ((wide - mean) / scale).masked_fill(flat, 0.0), mean, scale


@dataclass(frozen=True)
class Ridge:
    """Least squares with a penalty per row, over the columns or over their products too."""

    name: str
    quadratic: bool = False
    penalties: tuple[float, ...] = tuple(10.0 ** (i / 2) for i in range(-8, 3))  # times n

    @property
    def settings(self) -> tuple[float, ...]:
        return self.penalties

    def path(self, inputs: Tensor, target: Tensor, settings: Sequence[float]) -> list[Linear]:
        """One model per penalty; `target` is (n, o)."""
        z, mean, scale = standardise(inputs)
        inner = torch.ones(z.shape[1], dtype=torch.float64)
        shift = torch.zeros_like(inner)
        if self.quadratic:
            # products of standardised columns vary unlike, and the penalty should treat all alike
            z, shift, inner = standardise(products(z))
        level = target.double().mean(0)
        u, s, v = torch.linalg.svd(z, full_matrices=False)
        aim = u.T @ (target.double() - level)  # (r, o)
        made = []
        for penalty in settings:
            shrunk = (s / (s.square() + penalty * len(z))).unsqueeze(1) * aim
            weight = (v.T @ shrunk) / inner.unsqueeze(1)
            made.append(Linear(mean, scale, weight, level - shift @ weight, self.quadratic))
        return made

    def trace(
        self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[float]
    ) -> Tensor:
        """Outputs at other rows, (s, m, o)."""
        return torch.stack([model(at) for model in self.path(inputs, target, settings)])

    def near(self, setting: float) -> tuple[float, ...]:
        return self.penalties  # all of them cost little more than one

    def fit(self, inputs: Tensor, target: Tensor, setting: float) -> Linear:
        return self.path(inputs, target, [setting])[0]
