"""How λ may be chosen, and what a client has chosen."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from ...errors import ConfigError
from .curves import GRID
from .folds import check_folds

TuningMethod = Literal["grid", "gradient", "tpe"]


@dataclass(frozen=True)
class Tuning:
    """How λ is chosen.

    grid counts right predictions over a grid of λ; gradient takes the least log-loss, by its
    closed-form slope; tpe searches both λ together by Optuna, one federated training a trial.
    Cost in trainings of the usual length: folds - 1 for each value in `training`, or `trials`
    times 1 - 1/folds for tpe, and then the final one.
    """

    method: TuningMethod = "grid"
    folds: int = 3
    training: tuple[float, ...] = (0.0, 0.3)  # λ tried in training; () keeps each client's own
    grid: tuple[float, ...] = GRID  # λ tried at prediction
    trials: int = 15  # of tpe

    def __post_init__(self) -> None:
        if self.method not in get_args(TuningMethod):
            raise ConfigError(f"method must be grid, gradient or tpe, got '{self.method}'")
        check_folds(self.folds)
        if self.trials < 1:
            raise ConfigError(f"trials must be at least 1, got {self.trials}")
        for name, values in (("training", self.training), ("grid", self.grid)):
            for value in values:
                if not 0.0 <= value < 1.0:
                    raise ConfigError(f"{name} must hold numbers in [0, 1), got {value}")
        if not self.grid:
            raise ConfigError("grid must hold at least one λ")


@dataclass(frozen=True)
class Trust:
    """What one client found out for itself."""

    trust: float  # λ in training
    reliance: float  # λ at prediction
    ta: float = math.nan  # on rows that were held out
    rows: int = 0  # how many there were
    rmse: float | None = None  # on them, where the label is a number
    formula: str = ""  # λ at prediction row by row, where that was learned


OnTraining = Callable[[int, int], None]  # trainings done, of how many
