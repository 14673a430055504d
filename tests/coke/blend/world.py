"""Small coals and small models whose blends can be worked out by hand or by brute force."""

import numpy as np
import torch
from torch import nn

from fedlore import Knowledge, Personal
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler
from fedlore.kernel.schema import Feature, Schema
from fedlore_coke.blend import Coals

GRADES = Schema(
    (Feature("ash", "%", 0.0, 40.0), Feature("rank", "", 0.0, 2.0)),
    ("poor", "fair", "good", "best"),
    "grade",
)
SCALE = Scaler(
    torch.tensor([12.0, 1.1], dtype=torch.float64), torch.tensor([3.0, 0.2], dtype=torch.float64)
)


class Ladder(nn.Module):
    """Logits for four grades that rise with rank and fall with ash: smooth, and known by hand."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = 4.0 * x[:, 1] - 0.2 * x[:, 0]
        return torch.stack([0.0 * score, score, 2.0 * score - 2.0, 3.0 * score - 6.0], 1)


def ladder(knowledge: Knowledge | None = None) -> Personal:
    return Personal(Ladder(), knowledge)


def by_ash(x: torch.Tensor) -> torch.Tensor:
    """R-KM: ash above 10 is never best, above 15 never good; ash up to 8 is never poor."""
    ash = x[:, :1]
    none = torch.zeros_like(ash, dtype=torch.bool)
    return ~torch.cat([ash <= 8, none, ash > 15, ash > 10], 1)


def wild(seed: int, knowledge: Knowledge | None = None) -> Personal:
    """A random network with strong and wavy opinions."""
    torch.manual_seed(seed)
    net = mlp(2, 4, hidden=(16, 16), seed=seed)
    with torch.no_grad():
        for values in net.parameters():
            values.mul_(2.5)
    return Personal(net, knowledge, scaler=SCALE)


def offer(seed: int, count: int = 3, **more) -> Coals:
    """Random coals: the better ones are dearer, on the whole."""
    draw = np.random.default_rng(seed)
    ash, rank = draw.uniform(6, 18, count), draw.uniform(0.7, 1.6, count)
    price = 60 + 50 * rank - 1.5 * ash + draw.normal(0, 8, count)
    return Coals(
        tuple(f"c{i}" for i in range(count)), np.round(price, 2), {"ash": ash, "rank": rank}, **more
    )


def three(**more) -> Coals:
    """A cheap, a middling and a dear coal."""
    return Coals(
        ("cheap", "middle", "dear"),
        np.array([50.0, 80.0, 120.0]),
        {"ash": np.array([16.0, 10.0, 7.0]), "rank": np.array([0.8, 1.1, 1.5])},
        **more,
    )
