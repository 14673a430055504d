"""The four workloads, in numpy alone so that every peer's environment can import them.

FedAvg, SGD with learning rate 0.1, momentum 0.9 (fresh each round), weight decay 5e-4, batch 32,
5 local epochs; the same rows and initial weights for all.
"""

import json
import sys
import time
from dataclasses import dataclass

import numpy as np

LR, MOMENTUM, DECAY, BATCH, EPOCHS = 0.1, 0.9, 5e-4, 32, 5


@dataclass(frozen=True)
class Workload:
    """Clients with `rows` rows each, of which `cohort` take part in a round."""

    name: str
    clients: int
    rows: int
    cohort: int
    rounds: int
    images: bool = False

    @property
    def classes(self) -> int:
        return 10 if self.images else 7

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows (clients, rows, ...) and labels (clients, rows), learnable but not at once."""
        g = np.random.default_rng(7)
        shape = (1, 28, 28) if self.images else (54,)
        x = g.standard_normal((self.clients, self.rows, *shape), dtype=np.float32)
        truth = g.standard_normal((int(np.prod(shape)), self.classes)).astype(np.float32)
        score = x.reshape(-1, truth.shape[0]) @ truth
        score += 2 * g.standard_normal(score.shape, dtype=np.float32)
        return x, score.argmax(1).reshape(self.clients, self.rows).astype(np.int64)

    def weights(self) -> list[np.ndarray]:
        """Initial weights and biases in the order of the layers, uniform as torch draws them."""
        g = np.random.default_rng(11)
        widths = (400, 120, 84, 10) if self.images else (54, 128, 128, 7)
        shapes = [(6, 1, 5, 5), (16, 6, 5, 5)] if self.images else []
        shapes += [(b, a) for a, b in zip(widths, widths[1:], strict=False)]
        found = []
        for shape in shapes:
            bound = 1 / np.sqrt(np.prod(shape[1:]))
            for part in (shape, shape[:1]):
                found.append(g.uniform(-bound, bound, part).astype(np.float32))
        return found

    def cohort_of(self, round: int) -> list[int]:
        g = np.random.default_rng([13, round])
        return sorted(g.choice(self.clients, self.cohort, replace=False).tolist())


WORKLOADS = {
    w.name: w
    for w in (
        Workload("W1", 5, 116, 5, 60),
        Workload("W2", 100, 116, 100, 10),
        Workload("W3", 1000, 64, 100, 10),
        Workload("W4", 5, 120, 5, 10, images=True),
    )
}


class Clock:
    """When each round ended; told to whoever started this process as one line of JSON."""

    def __init__(self) -> None:
        self._times = [(time.perf_counter(), time.process_time())]

    def lap(self) -> None:
        self._times.append((time.perf_counter(), time.process_time()))

    def tell(self, loss: float) -> None:
        wall, own = np.diff(self._times, axis=0).T.tolist()
        print(json.dumps({"rounds_s": wall, "cpu_s": own, "loss": float(loss)}), flush=True)


def asked() -> Workload:
    """The workload named on the command line; a second argument may shorten it."""
    workload = WORKLOADS[sys.argv[1]]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else workload.rounds
    return Workload(**{**vars(workload), "rounds": rounds})


def torch_model(workload: Workload):
    """The network in torch, with the common initial weights."""
    import torch
    from torch import nn

    if workload.images:
        layers = [
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
            nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(),
            nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        ]  # fmt: skip
    else:
        layers = [nn.Linear(54, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 7)]
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for p, w in zip(model.parameters(), workload.weights(), strict=True):
            p.copy_(torch.from_numpy(w))
    return model


def torch_loss(model, x: np.ndarray, y: np.ndarray, clients: int = 20) -> float:
    """Mean cross-entropy over the rows of the first clients."""
    import torch

    with torch.no_grad():
        rows = torch.from_numpy(x[:clients]).flatten(0, 1)
        logits = model(rows)
        return float(
            torch.nn.functional.cross_entropy(logits, torch.from_numpy(y[:clients]).flatten())
        )
