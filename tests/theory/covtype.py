"""ℓ2-regularised logistic regression on real Covtype rows, through the real engine."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import fedlore.data
from fedlore import Client, Examples
from fedlore.core.nets import logistic

CLASSES = 7
SIZES = (40, 60, 90, 120)
DECAY = 0.05  # the weight decay of the plan is the ℓ2 term, on the intercepts as well


def source() -> Path:
    """The file that ships with the package, or one in FEDLORE_DATA."""
    folder = os.environ.get("FEDLORE_DATA", Path(fedlore.data.__file__).parent / "files")
    return Path(folder) / "covtype.npz"


@dataclass(frozen=True)
class Problem:
    clients: list[Client]
    best: Tensor  # the optimum, flat
    slope: float  # norm of the gradient there


@cache
def problem() -> Problem:
    """Four clients with different classes and sizes, and the optimum by SciPy's L-BFGS."""
    if not source().exists():
        pytest.skip(f"needs {source()}")
    from scipy.optimize import minimize, root

    with np.load(source()) as file:
        label = file["label"].astype(np.int64) - 1
        rng = np.random.default_rng(0)
        rows, sites = [], []
        for i, size in enumerate(SIZES):
            own = [(2 * i + j) % CLASSES for j in range(4)]  # each client misses three classes
            picked = [rng.choice(np.flatnonzero(label == c), size // 4, replace=False) for c in own]
            rows.append(np.concatenate(picked))
            sites.append(label[rows[-1]])
        quant = [file["quant"][r].astype(np.float64) for r in rows]
        area = [np.eye(4)[file["wilderness"][r]] for r in rows]
    pooled = np.concatenate(quant)
    shift, spread = pooled.mean(0), 2 * pooled.std(0)  # halved features: a smoother problem
    x = [np.concatenate([(q - shift) / spread, a], 1) for q, a in zip(quant, area, strict=True)]
    clients = [
        Client(f"site-{i}", Examples(torch.from_numpy(a), torch.from_numpy(b)))
        for i, (a, b) in enumerate(zip(x, sites, strict=True))
    ]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        """The mean over clients of their mean cross-entropy, and its gradient, in NumPy."""
        w = flat[:-CLASSES].reshape(CLASSES, -1)
        value, slope = DECAY / 2 * flat @ flat, DECAY * flat
        for a, b in zip(x, sites, strict=True):
            logits = a @ w.T + flat[-CLASSES:]
            logits -= logits.max(1, keepdims=True)
            total = np.exp(logits).sum(1, keepdims=True)
            error = np.exp(logits) / total
            value += (np.log(total[:, 0]) - logits[np.arange(len(b)), b]).mean() / len(x)
            error[np.arange(len(b)), b] -= 1
            error /= len(b) * len(x)
            slope = slope + np.concatenate([(error.T @ a).ravel(), error.sum(0)])
        return value, slope

    blank = np.zeros(CLASSES * x[0].shape[1] + CLASSES)
    exact = {"ftol": 0.0, "gtol": 1e-12, "maxiter": 5000, "maxcor": 50}
    found = minimize(loss, blank, jac=True, method="L-BFGS-B", options=exact).x
    # its line search compares losses and stops at 1e-9; a Newton step on the gradient goes on
    found = root(lambda at: loss(at)[1], found, method="krylov", options={"fatol": 1e-13}).x
    return Problem(clients, torch.from_numpy(found), float(np.linalg.norm(loss(found)[1])))


def model():
    """Logistic regression in float64, from zero."""
    net = logistic(14, CLASSES).double()
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
    return net
