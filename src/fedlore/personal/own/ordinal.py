"""A linear model of ordered classes: a place on the line of classes, and one width.

Class c has the normal mass between c - 1/2 and c + 1/2 around the place; the first and the last
class are open. Burridge (1981), A Note on Maximum Likelihood Estimation for Regression Models
Using Grouped Data: the likelihood is concave in weights / width and 1 / width, so Newton's method
finds the one answer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .linear import Linear, standardise

_STEPS = 50  # of Newton's method; eight are usual
_NEAR = 1e-10  # the gain at which it stops
_LEAST = 1e-3  # the least 1 / width tried: a thousand classes wide


def log_masses(place: Tensor, width: float | Tensor, classes: int) -> Tensor:
    """The log of the normal mass of each class, (n,) -> (n, k) float64, finite however far."""
    borders = torch.arange(1, classes, dtype=torch.float64, device=place.device) - 0.5
    ends = torch.nn.functional.pad(borders, (1, 0), value=-torch.inf)
    ends = torch.nn.functional.pad(ends, (0, 1), value=torch.inf)
    sd = width.unsqueeze(-1) if isinstance(width, Tensor) else width
    z = (ends - place.double().unsqueeze(-1)) / sd  # (n, k + 1)
    return log_between(z[..., :-1], z[..., 1:])


def log_between(low: Tensor, high: Tensor) -> Tensor:
    """log[Φ(high) - Φ(low)], with its digits in both tails."""
    flip = low + high > 0  # by symmetry both ends are taken on the left
    a, b = torch.where(flip, -high, low), torch.where(flip, -low, high)
    upper, lower = torch.special.log_ndtr(b), torch.special.log_ndtr(a)
    gap = torch.where(lower.isinf(), -torch.inf, lower - upper)
    found: Tensor = upper + torch.log(-torch.expm1(gap))
    return found


@dataclass(frozen=True)
class OrdinalLinear:
    """Weights by maximum likelihood with a penalty on weights / width, per row."""

    name: str
    classes: int | None = None  # k; None: target places are residuals, and every class is closed
    penalties: tuple[float, ...] = tuple(10.0 ** (i / 2) for i in range(-6, 2))  # times n

    @property
    def settings(self) -> tuple[float, ...]:
        return self.penalties

    def path(self, inputs: Tensor, target: Tensor, settings: Sequence[float]) -> list[Linear]:
        """One model per penalty, each starting from the one before; `target` is (n, 1) places."""
        z, mean, scale = standardise(inputs)
        y = target.double().squeeze(1)
        design = torch.cat([z, torch.ones(len(z), 1, dtype=torch.float64)], 1)
        low, high = y - 0.5, y + 0.5
        if self.classes is not None:
            low = low.masked_fill(y <= 0, -torch.inf)
            high = high.masked_fill(y >= self.classes - 1, torch.inf)
        start = torch.zeros(design.shape[1] + 1, dtype=torch.float64)
        start[-1] = 1.0 / max(float(y.std()) if len(y) > 1 else 1.0, 0.5)
        start[-2] = y.mean() * start[-1]
        made = []
        for penalty in settings:
            start = _newton(design, low, high, penalty * len(z), start)
            found = start[:-1] / start[-1]
            made.append(Linear(mean, scale, found[:-1, None], found[-1:]))
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


def _newton(design: Tensor, low: Tensor, high: Tensor, penalty: float, start: Tensor) -> Tensor:
    """The most likely (weights, constant, 1) / width; the constant and the width are free."""
    charge = torch.full_like(start, penalty)
    charge[-2:] = 0.0
    value = _loss(design, low, high, charge, start)
    point = start
    for _ in range(_STEPS):
        slope, curve = _slopes(design, low, high, point)
        slope = slope + charge * point
        curve = curve + torch.diag(charge)
        # a hair on the diagonal: columns may be copies of each other
        curve.diagonal().add_(1e-9 * curve.diagonal().mean())
        step = torch.linalg.solve(curve, slope)
        length, gain = 1.0, 0.0
        while length > 1e-6:
            tried = point - length * step
            if tried[-1] >= _LEAST:
                new = _loss(design, low, high, charge, tried)
                if new < value:
                    gain, value, point = value - new, new, tried
                    break
            length /= 2
        if gain <= _NEAR * (1.0 + abs(value)):
            break
    return point


def _loss(design: Tensor, low: Tensor, high: Tensor, charge: Tensor, at: Tensor) -> float:
    place = design @ at[:-1]
    fit = log_between(at[-1] * low - place, at[-1] * high - place).sum()
    found = float(-fit + 0.5 * (charge * at.square()).sum())
    return found if math.isfinite(found) else math.inf


def _slopes(design: Tensor, low: Tensor, high: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """First and second derivatives of the negative log-likelihood."""
    place = design @ at[:-1]
    a, b = at[-1] * low - place, at[-1] * high - place
    mass = log_between(a, b)
    pa, pb = (_density(t, mass) for t in (a, b))  # φ / mass at both ends, 0 where open
    low, high = (torch.where(t.isinf(), 0.0, t) for t in (low, high))
    a, b = (torch.where(t.isinf(), 0.0, t) for t in (a, b))
    # d log mass / d place, and / d (1/width)
    by_place, by_width = pa - pb, pb * high - pa * low
    first = torch.cat([design.T @ by_place, by_width.sum().unsqueeze(0)])
    # minus the second derivatives; columns of the two ends' arguments are (-design, end)
    wa, wb = -pa * a, -pb * b  # φ'/mass at both ends: of -φ(a) and φ(b) with their signs below
    pp = by_place.square() - (wb - wa)
    pw = by_place * by_width + (wb * high - wa * low)
    ww = by_width.square() - (wb * high.square() - wa * low.square())
    corner = (design.T @ pw).unsqueeze(1)
    top = torch.cat([design.T @ (pp.unsqueeze(1) * design), corner], 1)
    curve = torch.cat([top, torch.cat([corner.T, ww.sum().reshape(1, 1)], 1)])
    return -first, curve


def _density(z: Tensor, log_mass: Tensor) -> Tensor:
    """φ(z) / mass, 0 at infinity."""
    found = (-0.5 * z.square() - 0.5 * math.log(2 * math.pi) - log_mass).exp()
    return torch.where(z.isinf(), 0.0, found)
