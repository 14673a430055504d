"""A small federation with knowledge, made from nothing but a seed."""

import torch
from torch.nn.functional import one_hot

from fedlore import Client, Examples, Knowledge
from fedlore.core.rng import stream

FEATURES, CLASSES = 6, 4


def rows(n: int, *path) -> Examples:
    """Linear truth, an expert who is right two times of three, ranges two or three wide."""
    g = stream("federation", *path)
    x = torch.randn(n, FEATURES, generator=g)
    truth = torch.randn(FEATURES, CLASSES, generator=stream("truth"))
    y = (x @ truth).argmax(1)
    allowed = one_hot(y, CLASSES).bool() | (torch.rand(n, CLASSES, generator=g) < 0.3)
    guess = torch.where(allowed, torch.rand(n, CLASSES, generator=g), -1.0).argmax(1)
    right = torch.rand(n, generator=g) < 0.67
    prior = one_hot(torch.where(right, y, guess), CLASSES).float()
    return Examples(x, y, prior, allowed)


def federation(sizes=(20, 33, 47), *, trust: float = 0.3) -> list[Client]:
    return [
        Client(f"site-{i}", rows(n, i), Knowledge(trust=trust), test=rows(60, i, "test"))
        for i, n in enumerate(sizes)
    ]
