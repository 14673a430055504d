"""The demo's plants over many seeds at once, as tensors with a seed axis."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedlore.core.scaler import from_moments
from fedlore.core.tree import mean
from fedlore_coke.demo import Demo, plants_of

SEEDS = range(100, 120)  # development only


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one plant in every seed: s seeds, n rows, d features, k classes."""

    x: Tensor  # (s, n, d) scaled by the federation's common scaler
    y: Tensor  # (s, n)
    told: Tensor  # (s, n) the expert's number, on the scale of the classes
    said: Tensor  # (s, n) the expert's class
    middle: Tensor  # (s, n) middle of the range
    allowed: Tensor  # (s, n, k)

    def seed(self, i: int) -> "Part":
        return Part(*(t[i] for t in vars(self).values()))


def load(seeds=SEEDS, **changes) -> list[tuple[Part, Part]]:
    """Training and test rows of each plant."""
    found: list[list[list[dict]]] = []
    for seed in seeds:
        clients = plants_of(Demo(**changes), seed)
        scaler = from_moments(mean(({"m": c.sums()}, 1.0) for c in clients)["m"])
        found.append([[_part(c, e, scaler) for e in (c.data, c.test)] for c in clients])
    plants = []
    for p in range(len(found[0])):
        plants.append(tuple(
            Part(**{n: torch.stack([f[p][t][n] for f in found]) for n in found[0][p][t]})
            for t in range(2)
        ))  # fmt: skip
    return plants


def _part(client, rows, scaler):
    expert = client.knowledge.prediction.model.expert
    seen = list(client.knowledge.prediction.columns)
    csr = expert(rows.x[:, seen])
    at = torch.arange(rows.allowed.shape[1]).double()
    return {
        "x": scaler(rows.x.double()),
        "y": rows.y,
        "told": (csr - 30.0) / 2.0 - 0.5,
        "said": rows.prior.argmax(1).double(),
        "middle": (rows.allowed * at).sum(1) / rows.allowed.sum(1),
        "allowed": rows.allowed,
    }


def accuracy(scores: list[Tensor], plants) -> Tensor:
    """Mean TA % of each seed, from log-probabilities (s, n, k) of each plant's test rows."""
    each = []
    for p, (_, test) in zip(scores, plants, strict=True):
        best = p.masked_fill(~test.allowed, -torch.inf).argmax(-1)
        each.append((best == test.y).double().mean(-1))
    return 100 * torch.stack(each).mean(0)
