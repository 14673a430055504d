"""Scores of decoded numbers: RMSE, MAE, R², violations, and how intervals cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .sets import Sets

if TYPE_CHECKING:
    from torch import Tensor


def rmse(predicted: Tensor, y: Tensor) -> float:
    """The root of the mean squared error."""
    return float((predicted.double() - y.double()).square().mean().sqrt())


def mae(predicted: Tensor, y: Tensor) -> float:
    """The mean absolute error."""
    return float((predicted.double() - y.double()).abs().mean())


def r2(predicted: Tensor, y: Tensor) -> float:
    """The share of the labels' variance that is explained; 0 where they do not vary."""
    y = y.double()
    total = float((y - y.mean()).square().sum())
    return 1 - float((predicted.double() - y).square().sum()) / total if total > 0 else 0.0


def number_violation(predicted: Tensor, sets: Sets) -> float:
    """POV: the share of decoded numbers outside S(x), without tolerance; a NaN says nothing."""
    return float((~sets.holds(predicted) & ~predicted.isnan()).double().mean())


def coverage(regions: Sets, y: Tensor) -> float:
    """The share of labels that lie in their prediction regions."""
    return float(regions.holds(y).double().mean())


def width(regions: Sets) -> float:
    """The mean length of the regions, gaps not counted."""
    return float(regions.length.mean())


#: What people call a score that has a short name in rows.
_NAMES = {"ta": "right", "pov": "answers outside the range", "nll": "log-loss"}


def show_scores(scores: Mapping[str, float]) -> dict[str, str]:
    """Scores by the names that people know, as text; a log-loss that has no end is named too."""
    shown = {_NAMES.get(name, name): f"{value:.4f}" for name, value in scores.items()}
    if "ta" in scores and "nll" not in scores:
        shown[_NAMES["nll"]] = "infinite"
    return shown


def all_scores(predicted: Tensor, y: Tensor, sets: Sets | None = None) -> dict[str, float]:
    """The scores of point predictions, by name; `pov` where there is a range."""
    found = {"rmse": rmse(predicted, y), "mae": mae(predicted, y), "r2": r2(predicted, y)}
    if sets is not None:
        found["pov"] = number_violation(predicted, sets)
    return found


def region_scores(regions: Sets, y: Tensor) -> dict[str, float]:
    """Coverage and width of prediction regions."""
    return {"coverage": coverage(regions, y), "width": width(regions)}


def quantile_score(quantiles: Tensor, y: Tensor, levels: Sequence[float]) -> float:
    """CRPS, in units of the number, from evenly spaced quantiles (n, q): twice the pinball loss.

    >>> import torch
    >>> quantile_score(torch.tensor([[3.0]]), torch.tensor([1.0]), [0.5])
    2.0
    """
    missed = y.double().unsqueeze(1) - quantiles.double()
    level = missed.new_tensor(levels)
    return 2.0 * float((missed * (level - (missed < 0).double())).mean())
