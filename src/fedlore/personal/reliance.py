"""λ at prediction, chosen privately: the network stays as it is, only the trust changes."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from ..errors import FedloreError
from ..knowledge.numbers.measured import Measured
from ..knowledge.numbers.scores import rmse
from .regressor import PersonalRegressor

LAMBDAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@torch.no_grad()
def best_reliance(
    model: PersonalRegressor,
    data: Measured,
    *,
    values: Sequence[float] = LAMBDAS,
    tolerance: float = 0.01,
) -> tuple[float, float]:
    """The smallest λ at prediction that is nearly best on a site's own rows, and its RMSE there.

    Nearly: at most a share `tolerance` above the smallest RMSE, since few rows say little more.
    The rows should be none that the network or the P-KM learned from.
    """
    if not values or not len(data):
        raise FedloreError("choosing λ needs values to choose from and rows to try them on")
    told = model.knowledge.examine(data, model.bins, training=False)
    found = []
    for value in values:
        relying = model.with_knowledge(replace(model.knowledge, reliance=value))
        found.append((rmse(relying.predict(told), data.numbers()), value))
    enough = (1 + tolerance) * min(error for error, _ in found)
    error, value = min(((e, v) for e, v in found if e <= enough), key=lambda pair: pair[1])
    return value, error
