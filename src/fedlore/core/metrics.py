"""Scores: test accuracy (TA), percentage of violation (POV), negative log-likelihood."""

import torch
from torch import Tensor


def accuracy(predicted: Tensor, y: Tensor) -> float:
    """Share of rows predicted right."""
    return float((predicted == y).double().mean())


def violation(predicted: Tensor, allowed: Tensor) -> float:
    """Share of predictions outside the range (the paper's POV, as a fraction).

    A prediction of -1 (an expert who abstains) says nothing, so it violates nothing.
    """
    inside = allowed.gather(1, predicted.clamp(min=0).unsqueeze(1)).squeeze(1)
    return float((~inside & (predicted >= 0)).double().mean())


def nll(log_probs: Tensor, y: Tensor) -> float:
    """Mean of -log f^m(x)_y."""
    return float(torch.nn.functional.nll_loss(log_probs.double(), y))


def find_median(log_probs: Tensor) -> Tensor:
    """The first class with at least half of the probability below or at it, (n, k) -> (n,)."""
    share = log_probs.double().exp()
    reached = share.cumsum(1) >= 0.5 * share.sum(1, keepdim=True)
    return (reached & (share > 0)).double().argmax(1)


def decide(log_probs: Tensor, prior: Tensor | None = None, signs: Tensor | None = None) -> Tensor:
    """The most probable class of each row; at an exact tie the expert's class wins, (n, k) -> (n,).

    Where the expert has no part in the tie, the lowest class wins. Of rows with shapes (`signs`)
    it is the median: dominance orders medians, but not the most probable classes.
    """
    if signs is not None:
        return find_median(log_probs)
    best = log_probs.max(1, keepdim=True)
    if prior is None:
        return best.indices.squeeze(1)
    tied = (log_probs == best.values) & (prior > 0)
    return torch.where(tied.any(1), tied.double().argmax(1), best.indices.squeeze(1))
