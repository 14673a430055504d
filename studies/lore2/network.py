"""The shared residual network of the regression study, all sites and all folds trained at once.

y = expert + s·[shared linear part + 64 hidden + private linear part + private shift], inputs the
standardised features and the expert's number, Huber loss on the scaled residual, FedAvg over what
is shared. s and the standardisation come from moments that the sites' means are made of.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedlore.core.rng import stream
from fedlore.knowledge.numbers import Told
from fedlore.personal.own.members import within
from fedlore.personal.own.sight import Sight, see_numbers

Weights = dict[str, Tensor]
PRIVATE = ("shift", "own")  # never leave a site


@dataclass(frozen=True)
class Training:
    """Settings; fixed on seeds 100 to 102."""

    hidden: int = 64
    rounds: int = 60
    steps: int = 25
    batch: int = 32
    rate: float = 0.1  # by a cosine over rounds
    momentum: float = 0.9  # fresh each round
    decay: float = 1e-3
    own_decay: float = 0.1  # of the private linear part


@dataclass(frozen=True, eq=False)
class Network:
    """One site's network as a member of its mixture."""

    weights: Weights
    mean: Tensor  # (d + 1,)
    scale: Tensor  # (d + 1,)
    size: float  # s

    def number(self, known: Told) -> Tensor:
        sight = see_numbers(known)
        x = (_inputs(sight) - self.mean) / self.scale
        return within(sight.start + self.size * _forward(self.weights, x.float()).double(), known)


def train(
    sites: Sequence[Told], folds: Sequence[Tensor], *, seed: int, how: Training | None = None
) -> list[list[Network]]:
    """For each site its networks: one without the rows of each fold, and last one of all rows."""
    how = how or Training()
    sights = [see_numbers(known) for known in sites]
    inputs = [_inputs(sight) for sight in sights]
    mean = torch.stack([x.mean(0) for x in inputs]).mean(0)
    spread = torch.stack([(x - mean).square().mean(0) for x in inputs]).mean(0).sqrt()
    spread = spread.clamp(min=1e-9)
    rest = [k.y - s.start for k, s in zip(sites, sights, strict=True) if k.y is not None]
    size = float(torch.stack([r.square().mean() for r in rest]).mean().sqrt())
    data = [
        (((x - mean) / spread).float(), (r / size).float())
        for x, r in zip(inputs, rest, strict=True)
    ]
    weights = _descend(data, folds, how, seed)
    groups = len(next(iter(weights.values())))
    return [
        [
            Network({n: w[group, site] for n, w in weights.items()}, mean, spread, size)
            for group in range(groups)
        ]
        for site in range(len(sites))
    ]


def _inputs(sight: Sight) -> Tensor:
    return torch.cat([sight.x.double(), sight.start.unsqueeze(1)], 1)


def _forward(weights: Weights, x: Tensor) -> Tensor:
    hidden = (x @ weights["first"] + weights["bias"]).relu()
    linear = x @ (weights["linear"] + weights["own"])
    return (hidden @ weights["second"] + linear + weights["shift"]).squeeze(-1)


def _start(wide: int, hidden: int, stack: tuple[int, int], draw: torch.Generator) -> Weights:
    first = torch.randn(wide, hidden, generator=draw) * math.sqrt(2 / wide)
    second = torch.randn(hidden, 1, generator=draw) * 0.1 / math.sqrt(hidden)
    plain = {
        "first": first,
        "bias": torch.zeros(1, hidden),
        "second": second,
        "linear": torch.zeros(wide, 1),
        "own": torch.zeros(wide, 1),
        "shift": torch.zeros(1, 1),
    }
    return {n: t.expand(*stack, *t.shape).clone().requires_grad_() for n, t in plain.items()}


def _descend(
    data: Sequence[tuple[Tensor, Tensor]], folds: Sequence[Tensor], how: Training, seed: int
) -> Weights:
    """FedAvg of every group (each fold left out, and none), stacked: weights (groups, m, ...)."""
    groups = max(int(f.max()) for f in folds) + 2
    draw = stream(seed, "lore2", "network")
    weights = _start(data[0][0].shape[1], how.hidden, (groups, len(data)), draw)
    longest = max(len(x) for x, _ in data)
    x = torch.stack([torch.nn.functional.pad(x, (0, 0, 0, longest - len(x))) for x, _ in data])
    y = torch.stack([torch.nn.functional.pad(y, (0, longest - len(y))) for _, y in data])
    kept = [[(f != group).nonzero().squeeze(1) for f in folds] for group in range(groups)]
    site = torch.arange(len(data))[None, :, None]
    decay = {n: how.own_decay if n == "own" else how.decay for n in weights} | {"shift": 0.0}
    for round in range(how.rounds):
        rate = how.rate * 0.5 * (1 + math.cos(math.pi * round / how.rounds))
        moving = {n: torch.zeros_like(w) for n, w in weights.items()}
        order = torch.stack(
            [torch.stack([_shuffled(rows, how, draw) for rows in group]) for group in kept]
        )
        for batch in order.split(how.batch, dim=2):
            said = _forward(weights, x[site, batch])
            loss = torch.nn.functional.huber_loss(said, y[site, batch], reduction="none")
            slopes = torch.autograd.grad(loss.mean(-1).sum(), list(weights.values()))
            with torch.no_grad():
                for (name, w), slope in zip(weights.items(), slopes, strict=True):
                    moving[name].mul_(how.momentum).add_(slope + decay[name] * w)
                    w.sub_(rate * moving[name])
        with torch.no_grad():
            for name, w in weights.items():
                if name not in PRIVATE:
                    w.copy_(w.mean(1, keepdim=True).expand_as(w))
    return {n: w.detach() for n, w in weights.items()}


def _shuffled(rows: Tensor, how: Training, draw: torch.Generator) -> Tensor:
    """Rows of one round in random order, again and again until there are enough."""
    wanted = how.steps * how.batch
    parts = [
        rows[torch.randperm(len(rows), generator=draw)] for _ in range(-(-wanted // len(rows)))
    ]
    return torch.cat(parts)[:wanted]
