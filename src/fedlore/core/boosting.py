"""Federated boosting: trees whose shape is drawn, whose leaves are learned from sums over sites.

Cut points come from a public grid, refined to quantiles by one summed histogram. Every exchange
draws some trees that ask one question a level; sites answer with what is left to learn in each leaf
and how many rows lie there, and the trees that explain most are kept (Friedman 2001, Greedy
function approximation; drawn at random: Maddock et al. 2022, Federated boosted decision trees with
differential privacy). A tree tells the sums of its leaves alone, no histogram of every column.

Each site's own level stays at home, as in the one-shot model. Beside the trees of all rows each
fold has trees that never saw it, from the same exchanges: what they say of it decides the weights.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ConfigError, FedloreError
from .rng import stream
from .tree import Params

__all__ = ["Boost", "BoostRows", "Forest", "find_leaves"]

CELLS = 256  # of the grid that cut points are taken from
REACH = 4.0  # spreads on either side of a column's mean that the grid covers
FIRM = 1.0  # λ: rows that a leaf is drawn to 0 by
CURVATURE = 0.25  # the largest second derivative of a log-likelihood by one logit


@dataclass(frozen=True)
class Boost:
    """How long trees are boosted, and how they are drawn."""

    rounds: int = 100  # exchanges
    draws: int = 50  # trees that are drawn in each
    keep: int = 10  # of them are kept, the mean of them is one step
    depth: int = 5  # questions, one a level
    rate: float = 0.5  # how much of what is left a step takes away
    cuts: int = 32  # of each column
    least: int = 5  # rows of all sites in a leaf that may say something

    def __post_init__(self) -> None:
        for name, low, high in (
            ("rounds", 1, 300), ("draws", 1, 100), ("keep", 1, self.draws), ("depth", 1, 6),
            ("cuts", 1, CELLS - 1), ("least", 1, 10_000),
        ):  # fmt: skip
            if not low <= getattr(self, name) <= high:
                raise ConfigError(
                    f"boost: {name} must lie in {low} to {high}, got {getattr(self, name)}"
                )
        if not 0.0 < self.rate <= 1.0:
            raise ConfigError(f"boost: rate must lie in (0, 1], got {self.rate:g}")


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees of m models: of the rows outside each fold, and last of all rows."""

    feature: Tensor  # (m, t, d) int64
    cut: Tensor  # (m, t, d)
    value: Tensor  # (m, t, 2^d, w)

    @staticmethod
    def empty(models: int, depth: int, outputs: int) -> "Forest":
        cut = torch.zeros(models, 0, depth, dtype=torch.float64)
        return Forest(cut.long(), cut, cut.new_zeros(models, 0, 1 << depth, outputs))

    def bundle(self) -> Params:
        return dict(vars(self))

    @staticmethod
    def of(bundle: Params) -> "Forest":
        return Forest(bundle["feature"].long(), bundle["cut"], bundle["value"])

    def __len__(self) -> int:
        return self.feature.shape[1]

    def add(self, other: "Forest") -> "Forest":
        pairs = zip(self.bundle().values(), other.bundle().values(), strict=True)
        return Forest(*(torch.cat(pair, 1) for pair in pairs))

    def begins(self, other: "Forest") -> bool:
        """Whether the other one has these trees first."""
        pairs = zip(self.bundle().values(), other.bundle().values(), strict=True)
        return all(torch.equal(mine, its[:, : len(self)]) for mine, its in pairs)

    def score(
        self, inputs: Tensor, keep: int, before: tuple["Forest", Tensor] | None = None
    ) -> Tensor:
        """What the trees add up to, (m, n, w), a step of `keep` of them after the other.

        What the first of them add up to may be known from `before`.
        """
        m, count, _, w = self.value.shape
        first, total = 0, self.value.new_zeros(m, len(inputs), w)
        if before is not None and before[0].begins(self):
            first, total = len(before[0]), before[1].clone()
        for start in range(first, count, keep):
            some = slice(start, start + keep)
            at = torch.arange(len(self.value[0, some]))
            for model in range(m):
                leaf = find_leaves(inputs, self.feature[model, some], self.cut[model, some])
                total[model] += self.value[model, some][at, leaf].sum(1)
        return total


def find_leaves(inputs: Tensor, feature: Tensor, cut: Tensor) -> Tensor:
    """The leaf of each row in trees (t, d), (n, t): a bit for every question, the first highest."""
    above = inputs[:, feature.reshape(-1)].view(len(inputs), *feature.shape) > cut
    return (above.long() << torch.arange(feature.shape[1] - 1, -1, -1)).sum(2)


def make_grid(low: Tensor, high: Tensor) -> Tensor:
    """Possible cut points of columns between ends that tell nobody's row, (i, CELLS - 1)."""
    step = torch.arange(1, CELLS, dtype=torch.float64) / CELLS
    grid = low[:, None] + (high - low)[:, None] * step
    return grid.float().double()  # rows are compared in single precision


def find_cuts(counts: Tensor, grid: Tensor, boost: Boost) -> list[Tensor]:
    """Quantiles of each column on the grid, with rows enough on both sides, from counts (i, c)."""
    below = counts.cumsum(1)
    share = torch.arange(1, boost.cuts + 1, dtype=torch.float64) / (boost.cuts + 1)
    found = []
    for column, rows in enumerate(below):
        cells = torch.searchsorted(rows, share * rows[-1]).clamp(max=CELLS - 2)
        at = torch.tensor(sorted(set(cells.tolist())))
        kept = (rows[at] >= boost.least) & (rows[-1] - rows[at] >= boost.least)
        found.append(grid[column][at[kept]])
    return found


def draw_trees(cuts: list[Tensor], boost: Boost, models: int, address: str) -> Params:
    """Questions of trees by chance, (m, r, d) each; nothing of any row is in them."""
    draw = stream("boost", address)
    usable = torch.tensor([at for at, one in enumerate(cuts) if len(one)])
    shape = (models, boost.draws, boost.depth)
    order = torch.rand(*shape[:2], len(usable), generator=draw, dtype=torch.float64).argsort(-1)
    order = order.repeat(1, 1, -(-boost.depth // len(usable)))[..., : boost.depth]
    feature, place = usable[order], torch.rand(shape, generator=draw, dtype=torch.float64)
    cut = torch.empty(shape, dtype=torch.float64)
    for at in usable.tolist():
        here = feature == at
        cut[here] = cuts[at][(place[here] * len(cuts[at])).long()]
    return {"feature": feature, "cut": cut}


def leaf_sums(sent: Params) -> Params:
    """Nothing in the shape of a site's answer: counts on a grid, or sums of the drawn trees."""
    if "grid" in sent:
        return {"counts": torch.zeros(len(sent["grid"]), CELLS, dtype=torch.float64)}
    m, r, depth = sent["drawn feature"].shape
    rows = torch.zeros(m, r, 1 << depth, dtype=torch.float64)
    return {"left": rows.new_zeros(*rows.shape, sent["value"].shape[-1]), "rows": rows}


def keep_trees(total: Params, asked: Params, boost: Boost, *, curvature: float) -> Forest:
    """The drawn trees that explain most of what was left, with values for their leaves."""
    left, rows = total["left"], total["rows"].unsqueeze(-1)  # (m, r, l, w), (m, r, l, 1)
    heard = rows >= boost.least - 0.5  # sums of fixed-point numbers are off a little
    gain = torch.where(heard, left.square() / (rows + FIRM), 0.0).sum((2, 3))
    best = gain.argsort(dim=1, descending=True, stable=True)[:, : boost.keep]  # (m, keep)
    value = torch.where(heard, left / (rows + FIRM), 0.0) * boost.rate / (boost.keep * curvature)
    at = torch.arange(len(best))[:, None]
    return Forest(asked["feature"][at, best], asked["cut"][at, best], value[at, best])


@dataclass(frozen=True, eq=False)
class BoostRows:
    """A site's rows as boosting takes them."""

    inputs: Tensor  # (n, i) float32, in raw units
    grid: Tensor  # (i, CELLS - 1) the cut points that there may be
    target: Tensor  # (n,) a number on the scale of 1, or the class
    folds: Tensor  # (n,) the fold of each row, below 0: in none
    models: int  # m: folds, and one for all rows
    classes: int = 0  # k of classes without order, else 0
    allowed: Tensor | None = None  # (n, k) of those

    @property
    def outputs(self) -> int:
        return self.classes or 1

    def counts(self) -> Params:
        """How many rows lie in each cell of the grid, column by column."""
        cell = torch.searchsorted(self.grid, self.inputs.double().T.contiguous())  # (i, n)
        found = torch.zeros(len(self.grid), CELLS, dtype=torch.float64)
        return {"counts": found.scatter_add_(1, cell, torch.ones_like(cell).double())}

    def check(self, asked: Params) -> None:
        """Refuse questions other than whether a column lies above a cut point of the grid."""
        feature, cut = asked["feature"].long(), asked["cut"]
        fits = feature.ndim == 3 and feature.shape == cut.shape and len(feature) == self.models
        if not fits or not bool(((feature >= 0) & (feature < len(self.grid))).all()):
            raise FedloreError("boost: trees ask about columns that there are not")
        known = torch.searchsorted(self.grid[feature], cut.unsqueeze(-1)).clamp(max=CELLS - 2)
        if not bool((self.grid[feature].gather(-1, known).squeeze(-1) == cut).all()):
            raise FedloreError("boost: a tree asks about a cut point that is not on the grid")

    def sums(self, scores: Tensor, asked: Params) -> Params:
        """What is left to learn in each leaf of drawn trees, and how many rows lie there."""
        feature, cut = asked["feature"].long(), asked["cut"]
        m, r, depth = feature.shape
        leaves, w = 1 << depth, self.outputs
        left = torch.zeros(m, r * leaves, w, dtype=torch.float64)
        rows = torch.zeros(m, r * leaves, dtype=torch.float64)
        first = leaves * torch.arange(r)
        for model in range(m):
            used = self.folds != model
            missed = self._missed(scores[model], used)[used]
            leaf = (find_leaves(self.inputs[used], feature[model], cut[model]) + first).reshape(-1)
            left[model].index_add_(0, leaf, missed.repeat_interleave(r, 0))
            rows[model] = torch.bincount(leaf, minlength=r * leaves).double()
        return {"left": left.view(m, r, leaves, w), "rows": rows.view(m, r, leaves)}

    def level(self, scores: Tensor, used: Tensor) -> Tensor:
        """What a site adds for itself to what trees say of its rows (n, w), from some of them."""
        if self.classes:
            count = torch.bincount(self.target[used], minlength=self.classes).double()
            return ((count + 1.0) / (count.sum() + self.classes)).log()
        left = self.target[used] - scores[used, 0]
        return left.sum().reshape(1) / max(len(left), 1)

    def out_of_fold(self, scores: Tensor) -> Tensor:
        """What trees say of rows that they had not seen, with the site's level, (n, w)."""
        found = scores[-1].clone()
        for fold in range(self.models - 1):
            away = self.folds == fold
            found[away] = scores[fold, away] + self.level(scores[fold], ~away)
        return found

    def _missed(self, scores: Tensor, used: Tensor) -> Tensor:
        """What is left to learn of each row, (n, w)."""
        said = scores + self.level(scores, used)
        if not self.classes:
            return self.target.unsqueeze(1) - said
        if self.allowed is not None:
            said = said.masked_fill(~self.allowed, -torch.inf)
        known = torch.nn.functional.one_hot(self.target, self.classes).double()
        return known - said.softmax(1)
