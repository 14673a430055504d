"""Linear learners of a site: ridge, logistic and ordinal regression, with signs of shapes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from .limits import thin

STRAIGHT = 2.0  # of an input in which only a line keeps the bends of a number
FLAT = 1e-9  # a column that varies less, in its own units, says nothing


@dataclass(frozen=True, eq=False)
class Linear:
    """Outputs that are linear in standardised columns, or in those and their products."""

    mean: Tensor  # (i,) float64
    scale: Tensor  # (i,) float64
    weight: Tensor  # (t, o) float64, t terms
    constant: Tensor  # (o,) float64
    quadratic: bool = False

    @property
    def outputs(self) -> int:
        return len(self.constant)

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, i) -> (n, o) float64."""
        return self.terms(inputs) @ self.weight + self.constant

    def terms(self, inputs: Tensor) -> Tensor:
        """What the outputs are linear in, (n, i) -> (n, t)."""
        z = (inputs.double() - self.mean) / self.scale
        return products(z) if self.quadratic else z

    def keeps(self, signs: Tensor) -> bool:
        """Whether it moves as the signs say, (4, i) of `input_signs`: read off its weights."""
        i, ways = signs.shape[1], plain_ways(signs)
        if not self.quadratic:
            return weights_keep(self.weight[:, 0], ways)
        # of products only the squares of what bends, where that has no direction beside
        squares = torch.where((signs[3].abs() == 1) & (ways == 0), signs[3], torch.nan)
        first, second = torch.triu_indices(i, i)
        every = torch.where(first == second, squares[first], torch.nan)
        return weights_keep(self.weight[:, 0], torch.cat([ways, every]))


def plain_ways(signs: Tensor) -> Tensor:
    """The sign of each input, NaN of one that turns: (4, i) of `input_signs` -> (i,)."""
    return torch.where(signs[1].isnan(), signs[0], torch.nan)


def weights_keep(weight: Tensor, ways: Tensor) -> bool:
    """Whether weights have the signs they must: 1, -1, 0 (free), NaN (no weight)."""
    if len(weight) != len(ways):
        return False
    return bool(torch.where(ways.isnan(), weight == 0, ways * weight >= 0).all())


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
    scale = wide.std(0, correction=0) if wide.numel() else mean  # of no columns torch warns
    flat = scale <= FLAT
    scale = scale.masked_fill(flat, 1.0)
    return ((wide - mean) / scale).masked_fill(flat, 0.0), mean, scale


class Family(Protocol):
    """A kind of learner with a few settings."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> Sequence[Any]: ...

    def trace(self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[Any]) -> Tensor:
        """Outputs at other rows for each setting, (s, m, o)."""

    def fit(self, inputs: Tensor, target: Tensor, setting: Any) -> Any:
        """The plain model of one setting, (n, i) -> (n, o)."""

    def near(self, setting: Any) -> Sequence[Any]:
        """What is still worth trying elsewhere once this setting was best: few where it is dear."""


class PenaltyPath(ABC):
    """A linear learner whose settings are penalties: all of them cost little more than one."""

    settings: Sequence[float]

    @abstractmethod
    def path(self, inputs: Tensor, target: Tensor, settings: Sequence[float]) -> list[Linear]:
        """One model per penalty."""

    def trace(
        self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[float]
    ) -> Tensor:
        return torch.stack([model(at) for model in self.path(inputs, target, settings)])

    def near(self, setting: float) -> Sequence[float]:
        return self.settings

    def fit(self, inputs: Tensor, target: Tensor, setting: float) -> Linear:
        return self.path(inputs, target, [setting])[0]


@dataclass(frozen=True)
class Ridge(PenaltyPath):
    """Least squares with a penalty per row, over the columns or over their products too."""

    name: str
    quadratic: bool = False
    settings: tuple[float, ...] = tuple(10.0 ** (i / 2) for i in range(-8, 3))  # times n

    def path(self, inputs: Tensor, target: Tensor, settings: Sequence[float]) -> list[Linear]:
        """One model per penalty; `target` is (n, o)."""
        if self.quadratic:
            inputs, target = inputs[thin(len(inputs))], target[thin(len(target))]
        z, mean, scale = standardise(inputs)
        inner = torch.ones(z.shape[1], dtype=torch.float64)
        shift = torch.zeros_like(inner)
        if self.quadratic:
            # products of standardised columns vary unlike, and the penalty should treat all alike
            z, shift, inner = standardise(products(z))
        level = target.double().mean(0)
        spectrum, axes, aim = _principal(z, target.double() - level)
        made = []
        for penalty in settings:
            shrunk = aim / (spectrum + penalty * len(z)).unsqueeze(1)
            weight = (axes @ shrunk) / inner.unsqueeze(1)
            made.append(Linear(mean, scale, weight, level - shift @ weight, self.quadratic))
        return made

    def trace(
        self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[float]
    ) -> Tensor:
        """Outputs at other rows, (s, m, o)."""
        models = self.path(inputs, target, settings)
        terms = models[0].terms(at)  # the same for all: products are dear
        return torch.stack([terms @ model.weight + model.constant for model in models])


_TALL = 5_000  # rows from which on sums of squares are ten times as fast as singular values


def _principal(z: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Squared singular values (r,), their directions (t, r), and the target along them (r, o)."""
    if len(z) < _TALL:
        u, s, v = torch.linalg.svd(z, full_matrices=False)
        return s.square(), v.T, s.unsqueeze(1) * (u.T @ target)
    spectrum, axes = torch.linalg.eigh(z.T @ z)
    return spectrum.clamp(min=0.0), axes, axes.T @ (z.T @ target)


_STEPS = 200  # for each penalty, which starts where the one before it ended
_NEAR = 1e-5  # the step at which it stops
HOLD = 1e-3  # a small charge on the constants: those of absent classes stay finite


@dataclass(frozen=True)
class LogisticLearner(PenaltyPath):
    """Cross-entropy with a penalty on the weights, per row; the largest penalty comes first."""

    name: str
    classes: int  # k
    settings: tuple[float, ...] = tuple(10.0 ** (i / 2) for i in range(0, -7, -1))  # times n

    def path(self, inputs: Tensor, target: Tensor, settings: Sequence[float]) -> list[Linear]:
        """One model per penalty; `target` is (n,) int64."""
        z, mean, scale = standardise(inputs)
        u, s, v = torch.linalg.svd(z, full_matrices=False)
        kept = s > 1e-9 * s.max().clamp(min=1e-300)
        rows, back = u[:, kept] * s[kept], v[kept]  # (n, r), (r, i)
        moments = torch.cat([s[kept].square() / len(z), s.new_ones(1)])  # (r + 1,)
        rows = torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
        wanted = torch.nn.functional.one_hot(target, self.classes).double()
        weight = rows.new_zeros(rows.shape[1], self.classes)
        # smoothed: a class that no row has must not start at minus infinity
        weight[-1] = ((wanted.sum(0) + 1.0) / (len(z) + self.classes)).log()
        level = weight[-1].clone()
        made = []
        for penalty in settings:
            weight = _descend(rows, wanted, moments, penalty, weight, level)
            made.append(Linear(mean, scale, back.T @ weight[:-1], weight[-1]))
        return made

    def fit(self, inputs: Tensor, target: Tensor, setting: float) -> Linear:
        return self.path(inputs, target, [p for p in self.settings if p >= setting])[-1]


def _descend(
    rows: Tensor, wanted: Tensor, moments: Tensor, penalty: float, start: Tensor, level: Tensor
) -> Tensor:
    """The weights of least mean loss, (r + 1, k); `level` is where the constants are held."""
    charge = torch.full_like(moments, penalty).unsqueeze(1)
    charge[-1] = HOLD
    anchor = torch.zeros_like(start)
    anchor[-1] = level
    bound = 0.5 * moments.unsqueeze(1) + charge
    point = ahead = start
    pace = 1.0
    for _ in range(_STEPS):
        off = (rows @ ahead).softmax(1) - wanted
        step = (rows.T @ off / len(rows) + charge * (ahead - anchor)) / bound
        new = ahead - step
        if float((step * (new - point)).sum()) > 0:  # uphill: momentum starts anew
            pace = 1.0
        further = 0.5 + (0.25 + pace * pace) ** 0.5
        ahead = new + (pace - 1.0) / further * (new - point)
        point, pace = new, further
        if float(step.abs().max()) < _NEAR:
            break
    return point


_ORDINAL_STEPS = 50  # of Newton's method; eight are usual
_ORDINAL_NEAR = 1e-10  # the gain at which it stops
_LEAST = 1e-3  # the least 1 / width tried: a thousand classes wide


def log_masses(place: Tensor, width: float | Tensor, classes: int) -> Tensor:
    """The log of the normal mass of each class, (n,) -> (n, k) float64, finite however far."""
    borders = torch.arange(1, classes, dtype=torch.float64, device=place.device) - 0.5
    ends = torch.nn.functional.pad(borders, (1, 0), value=-torch.inf)
    ends = torch.nn.functional.pad(ends, (0, 1), value=torch.inf)
    sd = torch.as_tensor(width, dtype=torch.float64, device=place.device).unsqueeze(-1)
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
class OrdinalLinear(PenaltyPath):
    """Weights by maximum likelihood with a penalty on weights / width, per row."""

    name: str
    classes: int | None = None  # k; None: target places are residuals, and every class is closed
    settings: tuple[float, ...] = tuple(10.0 ** (i / 2) for i in range(-6, 2))  # times n

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


def _newton(design: Tensor, low: Tensor, high: Tensor, penalty: float, start: Tensor) -> Tensor:
    """The most likely (weights, constant, 1) / width; the constant and the width are free."""
    charge = torch.full_like(start, penalty)
    charge[-2:] = 0.0
    value = _loss(design, low, high, charge, start)
    point = start
    for _ in range(_ORDINAL_STEPS):
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
        if gain <= _ORDINAL_NEAR * (1.0 + abs(value)):
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


@dataclass(frozen=True, eq=False)
class SignedLinear(PenaltyPath):
    """A linear learner of few rows among whose weights none goes against its sign."""

    inner: Ridge | OrdinalLinear
    signs: Tensor  # (i + h,) 1, -1, 0: free, NaN: withheld; what is heard lies behind

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def settings(self) -> Sequence[float]:  # type: ignore[override]
        return self.inner.settings

    def path(self, inputs: Tensor, target: Tensor, settings: Sequence[float]) -> list[Linear]:
        """One model per penalty: fitted again without what went the wrong way, until none does."""
        signs = self.signs[: inputs.shape[1]]
        found: dict[float, Linear] = {}
        asked = {tuple((~signs.isnan()).tolist()): list(settings)}
        while asked:
            mask, some = asked.popitem()
            kept = torch.tensor(mask, dtype=torch.bool)
            for setting, made in zip(
                some, self.inner.path(inputs[:, kept], target, some), strict=True
            ):
                wrong = signs[kept] * made.weight[:, 0] < 0
                if not bool(wrong.any()):
                    found[setting] = _widen(made, kept)
                    continue
                less = kept.clone()
                less[kept.nonzero()[wrong, 0]] = False
                asked.setdefault(tuple(less.tolist()), []).append(setting)
        return [found[setting] for setting in settings]


def _widen(made: Linear, kept: Tensor) -> Linear:
    """The same model of all inputs, those that were left out without any weight."""
    mean, weight = (t.new_zeros(len(kept), *t.shape[1:]) for t in (made.mean, made.weight))
    scale = made.scale.new_ones(len(kept))
    mean[kept], scale[kept], weight[kept] = made.mean, made.scale, made.weight
    return Linear(mean, scale, weight, made.constant)
