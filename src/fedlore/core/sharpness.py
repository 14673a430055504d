"""How sharp mixtures should be, by the losses of all sites' rows together.

Each site sends, for every factor of a fixed grid, the summed log-loss of its rows that no member
had seen; only the sum over the sites is looked at. A site's own rows then move the factor from
there, as far as they are many enough to.
"""

import math

import torch
from torch import Tensor

#: Few rows must not decide alone: the factor is drawn to 5/4, the best of development seeds.
USUAL, APART = 1.25, 0.3  # the middle, and the sd of its logarithm
SHARP_FACTORS: tuple[float, ...] = tuple(2.0 ** (i / 12) for i in range(-12, 22))


def drawn_cost(factor: float, middle: float) -> float:
    """What a factor costs for lying away from the middle, as a log-loss."""
    return 0.5 * (math.log(factor / middle) / APART) ** 2


def choose_factor(losses: Tensor, middle: float = USUAL) -> float:
    """The factor with the least loss of rows, (SHARP_FACTORS,), drawn to the middle."""
    drawn = torch.tensor([drawn_cost(factor, middle) for factor in SHARP_FACTORS])
    return SHARP_FACTORS[int((losses.double() + drawn.double()).argmin())]
