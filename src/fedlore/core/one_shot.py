"""The one-shot model: a Bayesian linear model from one exchange of sums, as if all rows were there.

y = level of the site + w·φ(row) + noise, with w ~ N(0, τ_g²) in groups g of features. Each site
centres its own rows, which takes its level out of the sums: it stays at home. The server gets
ΣΦᵀΦ, ΣΦᵀy, Σy² and the numbers of rows, and finds τ and the noise by the evidence (MacKay 1992,
Bayesian Interpolation, equations 4.8 to 4.10, one α for each group).

With a `Link` each site's range bends what all have in common: y = c + U·tanh((z - c) / U) + noise,
z = level + w·φ(row). A step of Gauss-Newton is then the same exchange over rows that are weighted
by the slope of the bend at the last w; the level that fits it best is found at home.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from ..errors import ConfigError, FedloreError
from .ordinal import (
    Bend,
    Link,
    Start,
    bend_place,
    find_places,
    heard_numbers,
    make_bend,
    normal_cells,
)
from .tree import Params

__all__ = ["Basis", "Link", "OneShot", "OneShotModel", "Posterior", "unpack_gram"]

Products = Literal["linear", "squares", "quadratic"]

_TINY = 1e-30  # in place of a variance of nothing
_SMALLEST = 1e-8  # of what was guessed: the variance of a group that says nothing
_ENOUGH = 1e-5  # relative change of the variances at which they are found
_MOST = 500  # steps until then
STEEPNESS = 2.0  # of a curve, in spreads of its column
FLATTEST = 0.2  # slope of a bend: rows beyond it still count, so that no few can stand for all
_LEVELS = 50  # steps in which a site finds its level behind a bend


@dataclass(frozen=True)
class Basis:
    """Which functions of a row the model is linear in."""

    terms: Products = "quadratic"  # of the features
    curves: int = 0  # S-shaped curves of each column (Hastie, Tibshirani 1986); products are then
    # those of columns bent by tanh, so that no row far out rules them

    def __post_init__(self) -> None:
        if self.terms not in get_args(Products):
            raise ConfigError(
                f"terms must be one of {', '.join(get_args(Products))}, got '{self.terms}'"
            )
        if self.curves < 0:
            raise ConfigError(f"curves must be at least 0, got {self.curves}")

    def counts(self, columns: int) -> list[int]:
        """How many features rows with so many columns have: linear, squares, products, ..."""
        squares = columns * (self.terms != "linear")
        pairs = columns * (columns - 1) // 2 * (self.terms == "quadratic")
        return [columns, squares, pairs, self.curves * columns]

    def groups(self, columns: int) -> Tensor:
        """To which group each feature of rows with so many columns belongs, (f,)."""
        kept = torch.tensor([n for n in self.counts(columns) if n])
        return torch.arange(len(kept)).repeat_interleave(kept)

    @property
    def places(self) -> list[float]:
        """Where each curve is steepest, in spreads of a column."""
        last = max(self.curves - 1, 1)
        return [0.0] if self.curves == 1 else [2.0 * i / last - 1.0 for i in range(self.curves)]

    def __call__(self, rows: Tensor) -> Tensor:
        """Scaled rows (n, d) -> features (n, f) in float64."""
        x = rows.double()
        d = x.shape[1]
        parts = [x]
        if self.terms != "linear":
            parts.append((x.square() - 1.0) / math.sqrt(2.0))
        if self.terms == "quadratic":
            i, j = torch.triu_indices(d, d, 1, device=x.device)
            bounded = x.tanh() if self.curves else x
            parts.append(bounded[:, i] * bounded[:, j])
        parts += [torch.tanh(STEEPNESS * (x - at)) for at in self.places]
        return torch.cat(parts, 1)


@dataclass(frozen=True, eq=False)
class Home:
    """What a site keeps: the middle of its rows, its level, and how many rows they come from."""

    middle: Tensor  # (f,)
    level: Tensor  # ()
    rows: float  # a row behind a bend counts for less than one, a test that is taken in for more


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the server finds and sends to everyone."""

    mean: Tensor  # (f,)   w
    covariance: Tensor  # (f, f)
    noise: Tensor  # ()     variance of a single row about the model
    prior: Tensor  # (g,)   τ², the variance of a group's weights

    def bundle(self) -> Params:
        return dict(vars(self))

    @staticmethod
    def of(bundle: Params) -> "Posterior":
        return Posterior(*(bundle[n] for n in ("mean", "covariance", "noise", "prior")))


def sum_rows(
    features: Tensor, target: Tensor, bend: Bend | None = None, mean: Tensor | None = None
) -> tuple[Home, Params]:
    """At a site: what stays, and the sums that leave, from features (n, f) and numbers (n,).

    Behind a bend the sums are those of a step from the weights `mean`.
    """
    if len(features) != len(target) or not len(target):
        raise FedloreError(f"{len(features)} rows of features do not fit {len(target)} numbers")
    features, target = features.double(), target.double()
    if mean is None:
        mean = features.new_zeros(features.shape[1])
    if mean.shape != features.shape[1:]:
        raise FedloreError(f"{mean.numel()} weights do not fit {features.shape[1]} features")
    shared = features @ mean
    level = _find_level(target, shared, bend)
    place, slope = bend_place(shared + level, bend)
    slope = slope.clamp(min=FLATTEST)
    share = slope.square()
    middle = share @ features / share.sum()
    home = Home(middle, level + middle @ mean, float(share.sum()))
    phi = slope[:, None] * (features - middle)
    y = target - place + phi @ mean
    upper = torch.triu_indices(phi.shape[1], phi.shape[1], device=phi.device)
    return home, {
        # a level of its own takes one degree of freedom from each site
        "free": torch.tensor(len(target) - 1.0, dtype=torch.float64),
        "squares": (phi.T @ phi)[upper[0], upper[1]],  # (f (f+1) / 2,)
        "cross": phi.T @ y,  # (f,)
        "energy": y @ y,
    }


def _find_level(target: Tensor, shared: Tensor, bend: Bend | None) -> Tensor:
    """The level that leaves the least squares at a site, given what all sites share, (n,)."""
    level = (target - shared).mean()
    step, error = torch.zeros_like(level), math.inf
    for _ in range(0 if bend is None else _LEVELS):
        place, slope = bend_place(shared + level + step, bend)
        missed = target - place
        now = float(missed.square().sum())
        if now < error:
            level, error = level + step, now
            step = (slope @ missed) / slope.clamp(min=FLATTEST).square().sum()
        else:
            step = step / 2
    return level


def sum_shapes(features: int) -> dict[str, tuple[int, ...]]:
    """What the sums of a site look like, for whoever checks them."""
    return {
        "free": (),
        "squares": (features * (features + 1) // 2,),
        "cross": (features,),
        "energy": (),
    }


def unpack_gram(sums: Params, size: int) -> Tensor:
    """ΣΦᵀΦ of so many features as a matrix, (f, f)."""
    upper = sums["squares"]
    i, j = torch.triu_indices(size, size, device=upper.device)
    if len(upper) != len(i):
        raise FedloreError(f"{len(upper)} sums of products do not fit {size} features")
    gram = upper.new_zeros(size, size)
    gram[i, j] = upper
    gram[j, i] = upper
    return gram


def solve(total: Params, groups: Tensor) -> Posterior:
    """At the server: variances by the evidence and the posterior, from the sum over the sites.

    Features of the group -1 have no weight, and no variance.
    """
    gram, cross, energy = _joint(total, len(groups))
    used = (groups >= 0).to(cross.device)
    if not bool(used.all()):
        upper = torch.triu_indices(*(2 * [int(used.sum())]), device=cross.device)
        some = {"squares": gram[used][:, used][*upper], "cross": cross[used], "energy": energy}
        return _widen(solve(total | some, groups[used.to(groups.device)]), used)
    free = total["free"]
    if not float(free) > 0.0:
        raise FedloreError(
            f"the one-shot model needs more rows than sites, {float(free):g} are left over"
        )
    groups = groups.to(cross.device)
    count = torch.bincount(groups).to(cross.dtype)
    # a guess that any data improves on: half of what is seen is noise, half is the features
    noise = (0.5 * energy / free).clamp(min=_TINY)
    prior = (noise * free / gram.trace().clamp(min=_TINY)).expand(len(count)).clone()
    least = torch.cat([prior, noise[None]]) * _SMALLEST
    for _ in range(_MOST):
        mean, covariance = posterior(gram, cross, noise, prior[groups])
        left = _by_group(covariance.diagonal(), groups, prior) / prior
        used = (count - left).clamp(min=1e-9)  # γ: how many weights the rows decide
        residual = (energy - 2.0 * mean @ cross + mean @ gram @ mean).clamp(min=0.0)
        before = torch.cat([prior, noise[None]])
        wide = _by_group(mean.square(), groups, prior) / used
        # guarded: with fewer rows than weights a perfect fit would leave no noise at all
        loud = residual / (free - used.sum()).clamp(min=1.0)
        after = torch.maximum(torch.cat([wide, loud[None]]), least)
        after = torch.minimum(after, least / _SMALLEST**2)
        prior, noise = after[:-1], after[-1]
        if bool(((after / before).log().abs() < _ENOUGH).all()):
            break
    mean, covariance = posterior(gram, cross, noise, prior[groups])
    # by rows, as it arrives where it is sent: products by columns differ in the last bit
    return Posterior(mean, covariance.contiguous(), noise, prior)


def _widen(found: Posterior, used: Tensor) -> Posterior:
    """The same among features that are not used."""
    mean = found.mean.new_zeros(len(used))
    covariance = found.mean.new_zeros(len(used), len(used))
    mean[used] = found.mean
    covariance[used.outer(used)] = found.covariance.flatten()
    return replace(found, mean=mean, covariance=covariance)


def posterior(gram: Tensor, cross: Tensor, noise: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the weights at given variances, prior (f,)."""
    # scaled by the prior: the matrix is then at least the identity, whatever the variances are
    scale = prior.sqrt()
    inside = scale[:, None] * gram * scale / noise + torch.eye(len(gram)).to(gram)
    factor = torch.linalg.cholesky(inside)
    covariance = scale[:, None] * torch.cholesky_inverse(factor) * scale
    return covariance @ cross / noise, covariance


def squared_error(total: Params, mean: Tensor) -> float:
    """What weights leave of the sums that were made at them: the squares of all rows' misses."""
    gram = unpack_gram(total, len(mean))
    return float(total["energy"] - 2.0 * mean @ total["cross"] + mean @ gram @ mean)


def predict_new(
    found: Posterior, home: Home, features: Tensor, bend: Bend | None = None
) -> tuple[Tensor, Tensor]:
    """At a site: mean and variance of rows to come, (n, f) -> (n,) each."""
    phi = features.double() - home.middle
    place, slope = bend_place(home.level + phi @ found.mean, bend)
    return place, found.noise + slope.square() * _spread(found, home, phi)


def _spread(found: Posterior, home: Home, phi: Tensor) -> Tensor:
    """Variance of what the weights and the level say of rows less their middle, (n,)."""
    return ((phi @ found.covariance) * phi).sum(1) + found.noise / home.rows


def leave_out(
    found: Posterior, home: Home, features: Tensor, target: Tensor, bend: Bend | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance of the site's own rows, each as if it had not been in the sums.

    Exact at the variances that were found, behind a bend at its slopes: e / (1 - h) is the error
    of a row that was left out, h its own weight in what is said of it. So a site judges the model
    on all of its rows.
    """
    phi = features.double() - home.middle
    z = home.level + phi @ found.mean
    place, slope = bend_place(z, bend)
    slope, spread = slope.clamp(min=FLATTEST), _spread(found, home, phi)
    kept = (1.0 - slope.square() * spread / found.noise).clamp(min=1e-6)
    z = z - slope * spread * (target.double() - place) / (found.noise * kept)
    place, slope = bend_place(z, bend)
    return place, found.noise + slope.square() * spread / kept


def take_in(
    found: Posterior,
    home: Home,
    features: Tensor,
    target: Tensor,
    bend: Bend | None = None,
    *,
    weight: float = 1.0,
) -> tuple[Posterior, Home]:
    """At a site: the same after more rows of its own, (n, f) and (n,), as if they had been summed.

    Exact at the variances that were found, behind a bend at its slopes; nothing leaves, and nobody
    else learns of the rows. A row counts as `weight` rows: of a model that doubts itself more than
    the evidence does, a test tells more.
    """
    mean, covariance, middle, level, rows = (
        found.mean, found.covariance, home.middle, home.level, home.rows
    )  # fmt: skip
    for at, (phi, y) in enumerate(zip(features.double(), target.double(), strict=True)):
        away = phi - middle
        z = level + away @ mean
        place, slope = bend_place(z, bend and Bend(bend.centre[at], bend.width[at]))
        slope = slope.clamp(min=FLATTEST)
        missed, counts = (y - place) / slope, weight * float(slope.square())
        along = covariance @ away
        gain = along / (found.noise * (1.0 / counts + 1.0 / rows) + away @ along)
        share = counts / (rows + counts)
        middle, level = middle + share * away, level + share * (missed + away @ mean)
        mean = mean + gain * missed
        covariance = covariance - torch.outer(gain, along)
        rows = rows + counts
    covariance = (covariance + covariance.T) / 2.0
    return Posterior(mean, covariance, found.noise, found.prior), Home(middle, level, rows)


def _joint(total: Params, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """ΣΦᵀΦ, ΣΦᵀy and Σy² from the sums, made those of some rows where noise has broken that."""
    cross = total["cross"]
    whole = cross.new_zeros(size + 1, size + 1)
    whole[:-1, :-1] = unpack_gram(total, size)
    whole[-1, :-1] = cross
    whole[:-1, -1] = cross
    whole[-1, -1] = total["energy"]
    values, vectors = torch.linalg.eigh(whole)
    if float(values[0]) < -1e-9 * float(values[-1].abs()):
        whole = (vectors * values.clamp(min=0.0)) @ vectors.T
    return whole[:-1, :-1], whole[:-1, -1], whole[-1, -1]


def _by_group(values: Tensor, groups: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like).index_add_(0, groups, values)


@dataclass(frozen=True)
class OneShot:
    """A one-shot model of the number of the class, or of how far it lies from the start."""

    basis: Basis = field(default_factory=Basis)
    start: Start = "none"  # what its output is added to
    hears: bool = True  # the expert's place, and its distance from the middle of the range
    link: Link | None = None  # how a range bends its output; None: it is cut at the range alone
    flags: tuple[int, ...] = ()  # the columns that say whether a value is missing

    def __post_init__(self) -> None:
        if self.start not in get_args(Start):
            raise ConfigError(
                f"start must be one of {', '.join(get_args(Start))}, got '{self.start}'"
            )

    def columns(self, features: int) -> int:
        """How many columns the rows of so many scaled features have here."""
        return features + 2 * self.hears

    def groups(self, features: int) -> Tensor:
        """To which group each feature of rows with so many columns belongs, (f,), -1 for none."""
        groups = self.basis.groups(self.columns(features))
        return groups.masked_fill(self._tells_who_lacks(self.columns(features)), -1)

    def _tells_who_lacks(self, columns: int) -> Tensor:
        """Which features are products of a flag and a column, (f,).

        At a site without a column the flag is 1 and at others 0: sums of its products would be the
        sums of the rows of the sites without, be there only one of them.
        """
        flag = torch.zeros(columns, dtype=torch.bool)
        flag[list(self.flags)] = True
        either = torch.zeros(2, columns).masked_fill(torch.stack([flag, ~flag]), torch.nan)
        return self.basis(either).isnan().all(0)

    def rows(
        self,
        x: Tensor,
        prior: Tensor | None,
        allowed: Tensor | None,
        stated: Tensor | None = None,
        *,
        classes: int,
    ) -> tuple[Tensor, Tensor, Bend | None]:
        """Scaled rows and what the expert says of them -> features (n, f), start (n,), bend."""
        flat = x.flatten(1).double()
        middle, expert = find_places(
            prior, allowed, like=flat[:, 0], classes=classes, stated=stated
        )
        nothing = torch.full_like(middle, (classes - 1) / 2)
        start = {"none": nothing, "middle": middle, "expert": expert}[self.start]
        if self.hears:
            flat = torch.cat([flat, heard_numbers(middle, expert, classes)[:, 1:]], 1)
        features = self.basis(flat)
        if self.flags:
            lost = self._tells_who_lacks(flat.shape[1]).to(features.device)
            features = features.masked_fill(lost, 0.0)
        if self.link is None:
            return features, start, None
        bend = make_bend(self.link, middle, expert, allowed, classes=classes, stated=stated)
        return features, start, replace(bend, centre=bend.centre - start)


@dataclass(frozen=True, eq=False)
class OneShotRows:
    """A site's training rows as the one-shot model takes them."""

    features: Tensor  # (n, f)
    target: Tensor  # (n,)  the number of the class, less the start
    start: Tensor  # (n,)
    bend: Bend | None = None

    def sums(self, mean: Tensor | None = None) -> Params:
        return sum_rows(self.features, self.target, self.bend, mean)[1]

    def home(self, found: Posterior) -> Home:
        return sum_rows(self.features, self.target, self.bend, found.mean)[0]


@dataclass(frozen=True, eq=False)
class OneShotModel:
    """The one-shot model at one site: a normal for every row, and its classes."""

    one_shot: OneShot
    found: Posterior
    home: Home
    classes: int

    def normal(
        self,
        x: Tensor,
        prior: Tensor | None = None,
        allowed: Tensor | None = None,
        stated: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance for scaled rows, on the scale of the class numbers, (n,) each."""
        features, start, bend = self.one_shot.rows(x, prior, allowed, stated, classes=self.classes)
        mean, variance = predict_new(self.found, self.home, features, bend)
        return start + mean, variance

    def slopes(
        self,
        x: Tensor,
        prior: Tensor | None = None,
        allowed: Tensor | None = None,
        stated: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """How the place of scaled rows moves with each weight, (n, f), and with the level, (n,)."""
        features, _, bend = self.one_shot.rows(x, prior, allowed, stated, classes=self.classes)
        phi = features - self.home.middle
        _, slope = bend_place(self.home.level + phi @ self.found.mean, bend)
        return slope[:, None] * phi, slope

    def logits(
        self,
        x: Tensor,
        prior: Tensor | None = None,
        allowed: Tensor | None = None,
        stated: Tensor | None = None,
    ) -> Tensor:
        """Log-probabilities before the range is applied, (n, k)."""
        mean, variance = self.normal(x, prior, allowed, stated)
        return normal_cells(mean, variance.sqrt(), self.classes)

    def out_of_fold_logits(self, rows: OneShotRows) -> Tensor:
        """The same for the site's own training rows, each as if it had been left out, (n, k)."""
        place, variance = self.leave_out(rows)
        return normal_cells(place, variance.sqrt(), self.classes)

    def leave_out(self, rows: OneShotRows) -> tuple[Tensor, Tensor]:
        """Mean and variance of these rows, (n,) each."""
        mean, variance = leave_out(self.found, self.home, rows.features, rows.target, rows.bend)
        return rows.start + mean, variance

    def update(
        self,
        x: Tensor,
        y: Tensor,
        prior: Tensor | None = None,
        allowed: Tensor | None = None,
        stated: Tensor | None = None,
        *,
        weight: float = 1.0,  # as how many rows each counts
    ) -> "OneShotModel":
        """The same after more tests at the site: scaled rows and the classes that came out."""
        features, start, bend = self.one_shot.rows(x, prior, allowed, stated, classes=self.classes)
        target = y.double() - start
        found, home = take_in(self.found, self.home, features, target, bend, weight=weight)
        return replace(self, found=found, home=home)
