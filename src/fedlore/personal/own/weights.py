"""How much each member of a mixture counts: learned from rows that none of them had seen.

Few rows must not overfit the weights, so they are drawn towards a fixed start, as if `STRENGTH`
more rows had spoken for it: half for what all sites learned together, the rest alike for what the
site has of its own. Both numbers were fixed on development seeds and are not chosen by any site.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import FedloreError

STRENGTH = 30.0  # rows
SHARED = 0.5  # of the start's weight is on members that all sites made together
_STEPS = 2000
_STILL = 1e-10  # a change of the weights at which the search ends
FLOOR = 1e-9  # the least likelihood of a row: a label outside its range is nobody's fault


def start_weights(shared: int, own: int) -> Tensor:
    """Where weights begin and are drawn to, shared members first.

    >>> start_weights(1, 2).tolist()
    [0.5, 0.25, 0.25]
    """
    if shared + own < 1:
        raise FedloreError("a mixture needs at least one member")
    half = SHARED if shared and own else float(shared > 0)
    parts = [half / max(shared, 1)] * shared + [(1.0 - half) / max(own, 1)] * own
    return torch.tensor(parts, dtype=torch.float64)


def class_weights(
    held: Sequence[Tensor], y: Tensor, start: Tensor, *, strength: float = STRENGTH
) -> Tensor:
    """Weights of members over classes, (j,), by the likelihood of out-of-fold log-probabilities.

    Maximises Σ_i log Σ_j w_j g_j(y_i) + strength·Σ_j start_j log w_j by EM, which is concave: there
    is one answer. The expert's rows of 0 and 1 can be among the members.
    """
    likely = torch.stack([h.double().gather(1, y.unsqueeze(1)).squeeze(1) for h in held])
    likely = likely.exp().clamp(min=FLOOR)  # (j, n)
    _check(likely, start, strength)
    weights = start
    for _ in range(_STEPS):
        share = weights.unsqueeze(1) * likely
        counted = (share / share.sum(0)).sum(1) + strength * start
        new = counted / (likely.shape[1] + strength)
        moved, weights = float((new - weights).abs().max()), new
        if moved < _STILL:
            break
    return weights / weights.sum()


def number_weights(
    held: Sequence[Tensor], y: Tensor, start: Tensor, *, strength: float = STRENGTH
) -> Tensor:
    """Weights of members that name numbers by out-of-fold squared error, (j,).

    Minimises Σ_i (y_i - Σ_j w_j g_ij)² + strength·v·|w - start|² over w >= 0 with sum 1, v the mean
    squared error of the best member: accelerated projected gradients, one answer.
    """
    missed = torch.stack([h.double() - y.double() for h in held])  # (j, n)
    _check(missed, start, strength)
    gram = missed @ missed.T / missed.shape[1]
    pull = strength / missed.shape[1] * gram.diagonal().min().clamp(min=1e-300)
    curve = gram + pull * torch.eye(len(gram), dtype=torch.float64)
    rate = 1.0 / torch.linalg.eigvalsh(curve)[-1]
    weights = ahead = start
    pace = 1.0
    for _ in range(_STEPS):
        new = onto_simplex(ahead - rate * (curve @ ahead - pull * start))
        further = 0.5 + (0.25 + pace * pace) ** 0.5
        ahead = new + (pace - 1.0) / further * (new - weights)
        moved, weights, pace = float((new - weights).abs().max()), new, further
        if moved < _STILL:
            break
    return weights / weights.sum()


def onto_simplex(point: Tensor) -> Tensor:
    """The nearest weights that are not negative and sum to 1, (j,) -> (j,).

    Duchi, Shalev-Shwartz, Singer, Chandra (2008), Efficient Projections onto the l1-Ball.
    """
    down = point.sort(descending=True).values
    over = (down.cumsum(0) - 1.0) / torch.arange(1, len(down) + 1, dtype=down.dtype)
    last = int((down > over).nonzero()[-1])
    return (point - over[last]).clamp(min=0.0)


def _check(rows: Tensor, start: Tensor, strength: float) -> None:
    if rows.shape[1] == 0:
        raise FedloreError("weights need rows")
    if start.shape != (len(rows),):
        raise FedloreError(f"{len(rows)} members have {tuple(start.shape)} weights to start from")
    if not strength >= 0.0:
        raise FedloreError(f"strength must not be negative, got {strength:g}")
    if not rows.isfinite().all():
        raise FedloreError("members must say something finite of every row")
