"""Whether probabilities mean what they say: reliability, calibration error, Brier and CRPS.

Expected calibration error over bins of equal mass: Nguyen, O'Connor (2015); the ranked probability
score of ordered classes is the CRPS of a step function (Gneiting, Raftery 2007).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .rng import stream

BINS = 15
_RESAMPLED = 200


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of about the same confidence: how sure they were, and how many were right."""

    confidence: float
    right: float
    rows: int


def reliability(probabilities: Tensor, y: Tensor, *, bins: int = BINS) -> list[ReliabilityBin]:
    """The diagram: rows in order of the top label's probability, in bins of equal mass.

    >>> sure = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
    >>> [(round(b.confidence, 1), b.right) for b in reliability(sure, torch.tensor([0, 1]), bins=2)]
    [(0.6, 0.0), (0.9, 1.0)]
    """
    sure, right = _top(probabilities, y)
    order = sure.argsort(stable=True)
    return [
        ReliabilityBin(float(sure[part].mean()), float(right[part].mean()), len(part))
        for part in order.chunk(min(bins, max(len(order), 1)))
        if len(part)
    ]


def calibration_error(probabilities: Tensor, y: Tensor, *, bins: int = BINS) -> float:
    """Expected calibration error of the top label."""
    found = reliability(probabilities, y, bins=bins)
    rows = sum(b.rows for b in found)
    return math.fsum(b.rows * abs(b.right - b.confidence) for b in found) / max(rows, 1)


def calibration_interval(
    probabilities: Tensor, y: Tensor, *, bins: int = BINS
) -> tuple[float, float, float]:
    """The same with 90 % of what it is on rows drawn again; few rows push it up, seldom down."""
    draw = stream("calibration", len(y))
    again = []
    for _ in range(_RESAMPLED):
        rows = torch.randint(0, max(len(y), 1), (len(y),), generator=draw)
        again.append(calibration_error(probabilities[rows], y[rows], bins=bins))
    again.sort()
    ends = again[round(0.05 * _RESAMPLED)], again[round(0.95 * _RESAMPLED) - 1]
    return calibration_error(probabilities, y, bins=bins), *ends


def brier(probabilities: Tensor, y: Tensor) -> float:
    """Mean squared distance of the probabilities from the label, 0 to 2."""
    aim = torch.nn.functional.one_hot(y, probabilities.shape[1])
    return float((probabilities.double() - aim).square().sum(1).mean())


def ranked_score(probabilities: Tensor, y: Tensor) -> float:
    """CRPS of ordered classes, in classes: 0 where all probability lies on the label.

    >>> ranked_score(torch.tensor([[0.5, 0.0, 0.5]]), torch.tensor([0]))
    0.5
    """
    below = probabilities.double().cumsum(1)
    at = torch.arange(probabilities.shape[1], device=y.device)
    return float((below - (at >= y.unsqueeze(1)).double()).square().sum(1).mean())


def class_reliability(probabilities: Tensor, y: Tensor, *, ordered: bool) -> dict[str, float]:
    """All of it by name."""
    error, low, high = calibration_interval(probabilities, y)
    found = {"ece": error, "ece low": low, "ece high": high, "brier": brier(probabilities, y)}
    return found | ({"crps": ranked_score(probabilities, y)} if ordered else {})


def _top(probabilities: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    sure, said = probabilities.double().max(1)
    return sure, (said == y).double()
