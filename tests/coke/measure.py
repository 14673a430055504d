"""What the tests of the simulated plants measure, and over which seeds."""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch

from fedlore_coke.experts import COKE
from fedlore_coke.plants import Plant, coking_plants

SEEDS = range(8)


@cache
def plants(seed: int) -> tuple[Plant, ...]:
    return coking_plants(seed, test_rows=400)


def column(x: torch.Tensor, *names: str) -> np.ndarray:
    return x[:, [COKE.column(name) for name in names]].double().numpy()


def regress(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Coefficients with the constant first, adjusted R², residual s."""
    design = np.c_[np.ones(len(y)), x]
    beta = np.linalg.lstsq(design, y, rcond=None)[0]
    rest = len(y) - design.shape[1]
    s2 = float(((y - design @ beta) ** 2).sum()) / rest
    return beta, 1.0 - s2 / float(y.var(ddof=1)), s2**0.5


def pooled(seed: int) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    mine = plants(seed)
    return (
        torch.cat([p.test.x for p in mine]),
        torch.cat([p.test_coke.csr for p in mine]).numpy(),
        torch.cat([p.test_coke.cri for p in mine]).numpy(),
    )


def over_seeds(plant: int, measure: Callable[[Plant], float]) -> float:
    """The mean of a measure over the seeds, for one plant."""
    return float(np.mean([measure(plants(seed)[plant]) for seed in SEEDS]))
