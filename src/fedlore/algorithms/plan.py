"""How a client trains in one round."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from ..errors import ConfigError

Schedule = Literal["constant", "cosine"]


@dataclass(frozen=True)
class Plan:
    """How a client trains in one round: mini-batch SGD, momentum fresh each round.

    Rows are reshuffled for each epoch and the last, smaller batch is kept (the paper's
    Algorithm 1 splits into batches once per round).
    """

    epochs: int = 5  # E in the paper
    batch: int | None = 32  # C in the paper; None takes all rows at once
    lr: float = 0.1  # η in the paper
    momentum: float = 0.9  # of SGD
    decay: float = 5e-4  # weight decay, added to the gradient
    plain: float = 0.0  # α: share of ordinary cross-entropy in the loss
    finish: int = 0  # local steps after the last round; they stay at home
    schedule: Schedule = "constant"  # of the learning rate over the rounds
    clip: float | None = None  # largest norm of a batch gradient
    steps: int | None = None  # local steps per round, in place of epochs

    def __post_init__(self) -> None:
        _at_least("epochs", self.epochs, 1)
        _at_least("finish", self.finish, 0)
        for name in ("batch", "steps"):
            if getattr(self, name) is not None:
                _at_least(name, getattr(self, name), 1)
        _within("lr", self.lr, 0.0, math.inf)
        _within("momentum", self.momentum, 0.0, 1.0, open_end=True)
        _within("decay", self.decay, 0.0, math.inf)
        _within("plain", self.plain, 0.0, 1.0)
        if self.clip is not None and not self.clip > 0:
            raise ConfigError(f"clip must be positive, got {self.clip}")
        if self.schedule not in get_args(Schedule):
            raise ConfigError(f"schedule must be constant or cosine, got '{self.schedule}'")

    def rate(self, round: int, rounds: int) -> float:
        """The factor on the learning rate in round 1..rounds."""
        if self.schedule == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * (round - 1) / rounds))

    def local_steps(self, rows: int) -> int:
        """Steps of one client in one round."""
        if self.steps is not None:
            return self.steps
        return self.epochs * self.per_epoch(rows)

    def per_epoch(self, rows: int) -> int:
        return 1 if self.batch is None else math.ceil(rows / self.batch)


def reach(steps: int, lr: float, momentum: float) -> float:
    """How far `steps` steps along a gradient of constant size 1 go.

    With momentum β this is η·Σ_t (1-β^t)/(1-β); without, η·K.
    """
    if momentum == 0.0:
        return lr * steps
    lost = momentum * (1 - momentum**steps) / (1 - momentum)
    return lr * (steps - lost) / (1 - momentum)


def inverse(x: float | Tensor) -> float | Tensor:
    """1/x, and 0 for 0: where nothing moved there is nothing to measure."""
    if isinstance(x, Tensor):
        return torch.where(x > 0, 1.0 / torch.where(x > 0, x, 1.0), 0.0)
    return 1.0 / x if x > 0 else 0.0


def _at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value}")


def _within(name: str, value: float, low: float, high: float, *, open_end: bool = False) -> None:
    inside = low <= value < high if open_end or high == math.inf else low <= value <= high
    if not inside:
        end = ")" if open_end or high == math.inf else "]"
        raise ConfigError(f"{name} must lie in [{low:g}, {high:g}{end}, got {value}")
