"""The baseline without bins: the same body with one output and squared loss, by FedAvg or alone.

Its number is moved to the nearest one of S(x) afterwards, so it has the guarantee too; what it has
not is a distribution.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedlore import Bins, Measured
from fedlore.algorithms import Plan
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.core.scaler import Scaler, from_moments, moments
from fedlore.core.tree import mean


@dataclass(frozen=True, eq=False)
class Direct:
    """One client's network for a number in [lower, upper], not yet clipped to any set."""

    model: nn.Module
    scaler: Scaler
    bins: Bins

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,) float64, within the bounds."""
        middle, half = self.bins.middle
        value: Tensor = middle + half * self.model(self.scaler(x)).squeeze(1).double()
        return value.clamp(self.bins.lower, self.bins.upper)


def train_direct(
    data: Sequence[Measured],
    bins: Bins,
    *,
    hidden: Sequence[int],
    plan: Plan,
    rounds: int,
    seed: int,
    alone: bool = False,
) -> list[Direct]:
    """A network per client: all the same by FedAvg, or each by itself. Steps are those of `fit`.

    Numbers are put on [-1, 1] by the declared bounds; the loss is half the squared error.
    """
    scaler = from_moments(mean(({"moments": moments(d.x)}, 1.0) for d in data)["moments"])
    middle, half = bins.middle
    rows = [(scaler(d.x), ((d.numbers() - middle) / half).float().unsqueeze(1)) for d in data]
    start = mlp(data[0].x.shape[1], 1, hidden=hidden, seed=seed)
    models = [copy.deepcopy(start) for _ in data]
    for round in range(1, rounds + 1):
        rate = plan.lr * plan.rate(round, rounds)
        for i, ((x, y), model) in enumerate(zip(rows, models, strict=True)):
            _descend(model, x, y, plan, rate, stream(seed, "direct", round, i))
        if not alone:
            shared = mean(({"model": dict(m.named_parameters())}, 1.0) for m in models)["model"]
            for model in models:
                model.load_state_dict({name: t.detach() for name, t in shared.items()})
    return [Direct(model, scaler, bins) for model in models]


def _descend(
    model: nn.Module, x: Tensor, y: Tensor, plan: Plan, rate: float, draw: torch.Generator
) -> None:
    """One round of one client: reshuffled epochs, momentum fresh."""
    optimiser = torch.optim.SGD(
        model.parameters(), lr=rate, momentum=plan.momentum, weight_decay=plan.decay
    )
    size = plan.batch or len(x)
    left = plan.local_steps(len(x))
    while left > 0:
        order = torch.randperm(len(x), generator=draw)
        for batch in torch.split(order, size)[:left]:
            optimiser.zero_grad()
            (0.5 * (model(x[batch]) - y[batch]).square().mean()).backward()
            optimiser.step()
            left -= 1
