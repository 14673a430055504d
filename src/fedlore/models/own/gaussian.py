"""Gaussian-process regression of a site, its hyperparameters by evidence; it keeps no rows.

Rasmussen and Williams (2006), *Gaussian Processes for Machine Learning*, chapter 5: a linear kernel
plus a squared exponential with a length for each column. What is stored is the posterior mean over
random features (Rahimi and Recht 2007, *Random Features for Large-Scale Kernel Machines*), drawn
orthogonal (Yu et al. 2016): the exact mean would carry the site's rows into its bundle. Of ranks
it sees each column through its own deciles, so that neither skew nor many zeros count.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.rng import stream
from .bent import keep_between
from .linear import FLAT, standardise
from .trees import level_of

_JUDGES = 150  # rows that the evidence is taken from at most: a few hyperparameters need no more
FEATURES = 256  # frequencies; each has a sine and a cosine
_STEPS = 12  # of L-BFGS on the evidence
_LEAST_NOISE = 1e-4  # in units of the target's variance
_LEVEL = 0.1  # the variance of the constant
_DECILES = 11  # both ends included
_GRAIN = 1 / 32  # of a column's spread, to which its deciles are rounded: many are a row's value
_LARGEST = torch.finfo(torch.float32).max


@dataclass(frozen=True, eq=False)
class Waves:
    """Outputs linear in standardised columns and in sines and cosines of them.

    A column is an input kept between two ends: whole, or one of several stretches of it.
    """

    column: Tensor  # (c,) int16  the input that a column is
    low: Tensor  # (c,) float32  between which it is kept
    high: Tensor  # (c,) float32
    mean: Tensor  # (c,) float64
    scale: Tensor  # (c,) float64
    frequency: Tensor  # (c, f) float64
    weight: Tensor  # (c + 2f, o) float64: columns, sines, cosines
    constant: Tensor  # (o,) float64

    @property
    def outputs(self) -> int:
        return len(self.constant)

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, i) -> (n, o) float64."""
        kept = keep_between(inputs[:, self.column.long()], self.low, self.high)
        z = (kept.double() - self.mean) / self.scale
        return _features(z, self.frequency) @ self.weight + self.constant

    def keeps(self, signs: Tensor) -> bool:
        """A wave keeps no direction."""
        return False


def _features(z: Tensor, frequency: Tensor) -> Tensor:
    angle = z @ frequency
    # the cosine as a graph has it: runtimes have none in double precision
    return torch.cat([z, angle.sin(), (angle + math.pi / 2).sin()], 1)


@dataclass(frozen=True)
class GaussianLearner:
    """A setting says how freely the evidence may choose a length for each column."""

    name: str
    settings: tuple[float, ...] = (0.25, 0.75)  # standard deviations of the logs of the lengths
    ranks: bool = False

    def trace(
        self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[float]
    ) -> Tensor:
        """Outputs at other rows, (s, m, o)."""
        return torch.stack([self.fit(inputs, target, setting)(at) for setting in settings])

    def near(self, setting: float) -> tuple[float, ...]:
        return (setting,)

    def fit(self, inputs: Tensor, target: Tensor, setting: float) -> Waves:
        seen = _ranks(inputs) if self.ranks else _whole(inputs)
        z = seen.z
        middle, spread = level_of(target)
        y = (target.double() - middle) / spread  # (n, 1)
        some = slice(None, None, -(-len(z) // _JUDGES))
        linear, curved, noise, length = _parts(_most_evident(z[some], y[some], setting))
        frequency = _frequencies(z.shape[1]) / length.unsqueeze(1)
        variance = torch.cat(
            [(linear / z.shape[1]).expand(z.shape[1]), (curved / FEATURES).expand(2 * FEATURES)]
        )
        features = _features(z, frequency)
        kernel = (features * variance) @ features.T + _LEVEL
        alpha = spread * torch.linalg.solve(kernel + noise * torch.eye(len(z)).double(), y)
        weight = variance.unsqueeze(1) * (features.T @ alpha)
        d, own = z.shape[1], seen.own
        return Waves(
            own.to(torch.int16),
            seen.low,
            seen.high,
            seen.mean,
            seen.scale,
            frequency[own],
            torch.cat([weight[:d][own], weight[d:]]),
            middle + _LEVEL * alpha.sum(0),
        )


@dataclass(frozen=True, eq=False)
class _Columns:
    """Standardised inputs, and the columns (c,) that they are sums of."""

    z: Tensor  # (n, i) float64
    own: Tensor  # (c,) int64  the input that a column belongs to
    low: Tensor
    high: Tensor
    mean: Tensor
    scale: Tensor


def _whole(inputs: Tensor) -> _Columns:
    """Each input as it is."""
    z, mean, scale = standardise(inputs)
    ends = torch.full((z.shape[1],), _LARGEST)
    return _Columns(z, torch.arange(z.shape[1]), -ends, ends, mean, scale)


def _ranks(inputs: Tensor) -> _Columns:
    """Each input by its rank among the rows: linear between its deciles."""
    steps = [_steps_of(column) for column in inputs.double().unbind(1)]
    own = torch.repeat_interleave(torch.tensor([len(rise) for *_, rise in steps]))
    low, high, rise = (torch.cat(part) for part in zip(*steps, strict=True))
    kept = keep_between(inputs[:, own], low.float(), high.float()).double()
    mean, slope = kept.mean(0), rise / (high - low).clamp(min=FLAT)
    rank = torch.zeros(inputs.shape, dtype=torch.float64)
    rank.index_add_(1, own, (kept - mean) * slope)
    spread = rank.std(0, correction=0)
    spread = spread.masked_fill(spread <= FLAT, 1.0)
    scale = torch.where(slope > 0, spread[own] / slope, 1.0)
    return _Columns(rank / spread, own, low.float(), high.float(), mean, scale)


def _steps_of(column: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where each stretch between deciles begins, where it ends, and how far ranks rise there."""
    grain = max(float(column.std(correction=0)) * _GRAIN, FLAT)
    level = torch.linspace(-1.0, 1.0, _DECILES, dtype=torch.float64)
    values = (column.quantile((level + 1.0) / 2.0) / grain).round() * grain
    ends, place, count = torch.unique(values, return_inverse=True, return_counts=True)
    if len(ends) == 1:
        return ends, ends, ends.new_zeros(1)
    height = torch.zeros_like(ends).index_add_(0, place, level) / count
    return ends[:-1], ends[1:], height.diff()


def _frequencies(columns: int) -> Tensor:
    """Directions orthogonal to each other, a block at a time, as long as normal draws, (i, f)."""
    draw = stream("own", "frequencies", columns)
    blocks = []
    for _ in range(-(-FEATURES // columns)):
        one, other = torch.randn(2, columns, columns, generator=draw, dtype=torch.float64)
        blocks.append(torch.linalg.qr(one)[0] * other.norm(dim=0))
    return torch.cat(blocks, 1)[:, :FEATURES]


def _parts(at: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Variances of the linear and the curved part, of the noise, and lengths, from their logs."""
    linear, curved, noise = at[:3].exp()
    return linear, curved, noise + _LEAST_NOISE, at[3:].exp()


def _kernel(z: Tensor, at: Tensor) -> Tensor:
    """The covariance of the targets of rows z, (n, n)."""
    linear, curved, noise, length = _parts(at)
    scaled = z / length
    size = scaled.square().sum(1)
    far = size[:, None] + size[None] - 2.0 * scaled @ scaled.T
    near = (-0.5 * far.clamp(min=0.0)).exp()
    found = linear / z.shape[1] * (z @ z.T) + curved * near + _LEVEL
    return found + torch.diag_embed(noise.expand(len(z)))


def _most_evident(z: Tensor, y: Tensor, freedom: float) -> Tensor:
    """Logs of the variances and lengths that make the targets likeliest, (3 + i,).

    A normal prior holds them: with few rows the evidence alone would choose what is noise.
    """
    d = z.shape[1]
    anchor = z.new_tensor([0.0, -1.0, -1.5, *[0.5 * math.log(d)] * d])
    loose = z.new_tensor([1.5, 1.5, 1.5, *[freedom] * d])
    at = anchor.clone().requires_grad_()
    search = torch.optim.LBFGS([at], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def cost() -> Tensor:
        search.zero_grad()
        chol, failed = torch.linalg.cholesky_ex(_kernel(z, at))
        white = torch.linalg.solve_triangular(chol, y, upper=False)
        unlikely = 0.5 * white.square().sum() + chol.diagonal().log().sum()
        value: Tensor = unlikely + 0.5 * ((at - anchor) / loose).square().sum()
        if failed or not value.isfinite():
            return at.sum() * 0.0 + torch.inf  # the line search turns back
        torch.autograd.backward(value)
        return value

    with torch.enable_grad():
        search.step(cost)  # type: ignore[no-untyped-call]
    found = at.detach()
    # where the search was lost, the prior's own place
    sound = bool(found.isfinite().all()) and not torch.linalg.cholesky_ex(_kernel(z, found))[1]
    return found if sound else anchor
