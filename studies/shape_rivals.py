"""What a site could do with the same rows alone: boosted trees, monotone ones too, and a ridge.

Trees and ridge fit the number, or how far the grade lies above the expert's; what they say is moved
into the range of the row and, of grades, rounded. Trees with `monotonic_cst` keep a shape for sure,
as the network does, where range and expert keep it. Their setting did best of four on two
development drawings, and starting from the expert did better than starting from nothing.
"""

from collections.abc import Sequence

import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from torch import Tensor

from fedlore import Client, NumberClient
from fedlore.answers import Bins, Measured
from fedlore.core.examples import Examples
from fedlore.models.own.linear import Ridge

RIVALS = ("own trees", "own monotone trees", "own ridge")
BOOSTING = {"learning_rate": 0.05, "max_leaf_nodes": 4, "min_samples_leaf": 3, "max_iter": 100}
FOLDS = 5


def score_rivals(
    sites: Sequence[Client] | Sequence[NumberClient], bins: Bins | None
) -> dict[str, list[float]]:
    """Accuracy, or RMSE, of each rival at each site."""
    found: dict[str, list[float]] = {name: [] for name in RIVALS}
    for site in sites:
        x, at = site.data.x.double(), site.test.x.double()
        y, truth = (part.y.double() for part in (site.data, site.test))
        start, begin = (expert_of(part) for part in (site.data, site.test))
        signs = [0] * x.shape[1]
        for shape in site.knowledge.shapes:
            (piece,) = shape.pieces
            signs[site.knowledge.schema.column(shape.feature)] = piece.sign
        left = y - start
        said = (boost(x, left, at, None), boost(x, left, at, signs), ridge(x, left, at))
        for name, values in zip(RIVALS, said, strict=True):
            found[name].append(score_places(begin + values, truth, site, bins))
    return found


def boost(x: Tensor, y: Tensor, at: Tensor, signs: Sequence[int] | None) -> Tensor:
    """Boosted trees, with directions where there are any."""
    spread = float(y.std().clamp(min=1e-9))
    machine = HistGradientBoostingRegressor(
        **BOOSTING, l2_regularization=1.0, early_stopping=False, monotonic_cst=signs, random_state=0
    )
    machine.fit(x.numpy(), ((y - y.mean()) / spread).numpy())
    return y.mean() + spread * torch.from_numpy(machine.predict(at.numpy()))


def ridge(x: Tensor, y: Tensor, at: Tensor) -> Tensor:
    """A ridge whose penalty is chosen on held-out rows."""
    learner, target = Ridge("ridge"), y[:, None]
    part = torch.arange(len(x)) % FOLDS
    missed = torch.zeros(len(learner.settings), dtype=torch.float64)
    for fold in range(FOLDS):
        held = part == fold
        said = learner.trace(x[~held], target[~held], x[held], learner.settings)
        missed += (said - target[held]).square().sum((1, 2))
    return learner.fit(x, target, learner.settings[int(missed.argmin())])(at)[:, 0]


def expert_of(part: Examples | Measured) -> Tensor:
    """The expert's place in each row, or 0 where there is none."""
    prior = getattr(part, "prior", None)
    return torch.zeros(len(part.x)).double() if prior is None else prior.argmax(1).double()


def score_places(
    said: Tensor, truth: Tensor, site: Client | NumberClient, bins: Bins | None
) -> float:
    """Accuracy of places moved into the range and rounded, or RMSE of numbers."""
    if bins is not None:
        return float((said.clamp(bins.lower, bins.upper) - truth).square().mean().sqrt())
    allowed = site.test.allowed
    place = torch.arange(allowed.shape[1], dtype=torch.float64)
    low = torch.where(allowed, place, torch.inf).amin(1)
    high = torch.where(allowed, place, -torch.inf).amax(1)
    return float((said.round().clamp(low, high) == truth).double().mean())
