"""λ at prediction, chosen privately: the network stays as it is, only the trust changes."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from ..errors import FedloreError
from .measured import Measured
from .regressor import PersonalRegressor
from .scores import rmse

LAMBDAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@torch.no_grad()
def best_reliance(
    model: PersonalRegressor, data: Measured, *, values: Sequence[float] = LAMBDAS
) -> tuple[float, float]:
    """The λ at prediction with the smallest RMSE on a site's own rows, and that RMSE.

    Of equal ones the smallest. The rows should be none that the network or the P-KM learned from.
    """
    if not values or not len(data):
        raise FedloreError("choosing λ needs values to choose from and rows to try them on")
    told = model.knowledge.examine(data, model.bins, training=False)
    found = []
    for value in values:
        relying = model.with_knowledge(replace(model.knowledge, rely=value))
        found.append((rmse(relying.predict(told), data.numbers()), value))
    error, value = min(found)
    return value, error
