"""A site with three grades in order, whose range follows one column."""

import numpy as np
import torch

from fedlore import Knowledge
from fedlore.knowledge import Feature, Schema

SCHEMA = Schema((Feature("ash"), Feature("heat")), ("poor", "fair", "good"), "grade")
GRADES = np.array(SCHEMA.classes)


def above(x):
    """Much ash is never good, little never poor; the grades between are open."""
    ash = x[:, 0]
    return torch.stack([ash > -0.5, torch.ones_like(ash, dtype=torch.bool), ash < 0.5], 1)


def says(x):
    """The expert looks at heat alone, and is silent in the middle."""
    heat = x[:, 1]
    return torch.stack([heat < -0.3, 0 * heat, heat > 0.3], 1).to(x.dtype)


def knowledge(trust=0.0, **more):
    return Knowledge(says, above, trust, schema=SCHEMA, conflict="restrict", **more)


def rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    score = x[:, 1] - x[:, 0]
    place = np.digitize(score, [-0.5, 0.5])
    allowed = above(torch.tensor(x)).numpy()
    place = np.where(allowed[np.arange(n), place], place, 1)
    return x, GRADES[place]
