"""Mixtures of members, and their weights by rows that no member had seen."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...answers import Measured
from ...answers.measured import normal
from ...core.examples import Examples
from ...core.inject import fill_trust
from ...core.metrics import decide
from ...errors import FedloreError
from .members import ClassPredictor, NumberPredictor, within

_NEAR = 1e-9  # by which weights may miss a sum of 1


@dataclass(frozen=True, eq=False)
class Mixture:
    """Members over classes, and the expert himself; the weights are private like his word.

    Where the expert is silent, or no member has a weight, those who speak share his part.
    """

    members: tuple[ClassPredictor, ...]
    weights: tuple[float, ...]  # w, one for each member
    expert: float = 0.0  # w of the expert's own class, λ in the paper, where a row has none itself

    def __post_init__(self) -> None:
        _check(len(self.members), self.weights, self.expert)

    def probabilities(self, known: Examples) -> Tensor:
        """(n, k) float64, exactly 0 outside the range."""
        parts = torch.stack([m.log_probs(known).double().softmax(1) for m in self.members])
        return mix(parts, self.weights, known.prior, fill_trust(known.trust, self.expert))

    def log_probs(self, known: Examples) -> Tensor:
        """The log of the same, so that a mixture can be a member."""
        return self.probabilities(known).log()

    @torch.no_grad()
    def predict(self, known: Examples) -> Tensor:
        """The class of each row, (n,); at an exact tie the expert's class wins."""
        return decide(self.log_probs(known), known.prior)


@dataclass(frozen=True, eq=False)
class NumberMixture:
    """Members that name a number, and the expert himself."""

    members: tuple[NumberPredictor, ...]
    weights: tuple[float, ...]
    expert: float = 0.0
    width: float = 0.0  # σ of what the mixture misses on rows it has not seen
    once: bool = False  # members are mixed as they are: moved one by one they would bend

    def __post_init__(self) -> None:
        _check(len(self.members), self.weights, self.expert)

    def number(self, known: Measured) -> Tensor:
        """Numbers inside S(x), (n,) float64."""
        which = "free_number" if self.once else "number"
        parts = torch.stack([getattr(m, which)(known) for m in self.members]).unsqueeze(2)
        said = None
        if known.said is not None:
            said = known.said.nan_to_num(nan=0.0).unsqueeze(1)
        speaks = None if known.said is None else (~known.said.isnan()).double()
        expert = fill_trust(known.trust, self.expert)
        found = _blend(parts, self.weights, said, speaks, expert).squeeze(1)
        # a mean of numbers lies between them, which may be a gap of S(x) or an ulp beyond its end
        return within(found, known)

    def probabilities(self, known: Measured) -> Tensor:
        """The mass of each bin's part of S(x) under a normal around the number, (n, k)."""
        centre = self.number(known)
        if not self.width > 0:
            raise FedloreError(f"a distribution needs a width above 0, got {self.width:g}")
        soft = normal(centre, self.width, known.bins, known.sets)
        # all underflowed: the bin of the number itself
        hard = torch.nn.functional.one_hot(known.bins.encode(centre), known.bins.k).double()
        return torch.where(soft.sum(1, keepdim=True) > 0, soft, hard)


def scale_weights(weights: Sequence[float], total: float = 1.0) -> tuple[float, ...]:
    """Weights in the same proportions that sum to `total`, none an ulp beyond [0, total].

    >>> scale_weights((0.25, 0.5), 0.9)
    (0.3, 0.6)
    """
    # fsum rounds once, so no weight exceeds the sum; 1 - w or a last correction may
    whole = math.fsum(weights)
    return tuple(total * (w / whole) for w in weights)


def mix(
    parts: Tensor,  # (j, n, k)  distributions of the members
    weights: Sequence[float],
    prior: Tensor | None = None,  # (n, k)  rows of g_p; a zero row is silent
    expert: float | Tensor = 0.0,  # λ, of all rows or of each (n,)
) -> Tensor:
    """Σ_j w_j g_j with the expert's row, (n, k); rows sum to 1."""
    said = None if prior is None else prior.double()
    speaks = None if said is None else said.sum(1).clamp(max=1.0)
    return _blend(parts, weights, said, speaks, expert)


def _blend(
    parts: Tensor,
    weights: Sequence[float],
    said: Tensor | None,
    speaks: Tensor | None,
    expert: float | Tensor,
) -> Tensor:
    w = parts.new_tensor(weights)
    total = w.sum()
    w = w / total if total > 0 else torch.full_like(w, 1.0 / len(w))
    rest = torch.einsum("j,jnk->nk", w, parts)
    if said is None or speaks is None:
        return rest
    trust = torch.as_tensor(expert, dtype=torch.float64, device=said.device)
    return (1.0 - trust * speaks).unsqueeze(1) * rest + trust.unsqueeze(-1) * said


def _check(members: int, weights: Sequence[float], expert: float) -> None:
    if members == 0:
        raise FedloreError("a mixture needs at least one member beside the expert")
    if len(weights) != members:
        raise FedloreError(f"{members} members have {len(weights)} weights")
    bad = [w for w in (*weights, expert) if not 0.0 <= w <= 1.0]
    if bad:
        raise FedloreError(f"weights must lie in [0, 1], got {bad[0]:g}")
    total = math.fsum((*weights, expert))
    if abs(total - 1.0) > _NEAR:
        raise FedloreError(f"weights must sum to 1, got {total:g}")


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
    _check_weights(likely, start, strength)
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
    _check_weights(missed, start, strength)
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


def _check_weights(rows: Tensor, start: Tensor, strength: float) -> None:
    if rows.shape[1] == 0:
        raise FedloreError("weights need rows to be found from, got none")
    if start.shape != (len(rows),):
        raise FedloreError(f"{len(rows)} members have {tuple(start.shape)} weights to start from")
    if not strength >= 0.0:
        raise FedloreError(f"strength must not be negative, got {strength:g}")
    if not rows.isfinite().all():
        raise FedloreError("members must predict something finite for every row")
