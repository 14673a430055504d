"""Learners tried on a site's own rows: every row is predicted by a model that has not seen it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ...core.rng import key
from ...errors import FedloreError
from .members import Body
from .sight import Sight

FOLDS = 5


class Family(Protocol):
    """A kind of learner with a few settings."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> Sequence[Any]: ...

    def trace(self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[Any]) -> Tensor:
        """Outputs at other rows for each setting, (s, m, o)."""
        ...

    def fit(self, inputs: Tensor, target: Tensor, setting: Any) -> Body:
        """The plain model of one setting."""
        ...

    def near(self, setting: Any) -> Sequence[Any]:
        """What is still worth trying elsewhere once this setting was best: few where it is dear."""
        ...


@dataclass(frozen=True)
class Mode:
    """How a learner uses the expert."""

    words: str
    hears: bool = False  # his word is among the inputs
    over: bool = False  # what is learned is what he misses


ALONE = Mode("")
HEARING = Mode(", hearing the expert", hears=True)
OVER = Mode(", over the expert", hears=True, over=True)


@dataclass(frozen=True, eq=False)
class JudgedOutputs:
    """Out-of-fold outputs behind the range: how wide they miss, what they say, how bad it is."""

    width: float
    held: Tensor  # (n,) numbers or (n, k) log-probabilities
    error: float


@dataclass(frozen=True, eq=False)
class Tried:
    """A family in one mode at its best setting."""

    family: Family
    mode: Mode
    setting: Any
    judged: JudgedOutputs

    @property
    def name(self) -> str:
        return self.family.name + self.mode.words


_Judge = Callable[[Tensor], JudgedOutputs]  # (n, o) out-of-fold outputs


def folds(rows: int, *, seed: int, site: str = "") -> Tensor:
    """The fold that each row is held out in, (n,) int64: blocks of a random order."""
    if rows < FOLDS:
        raise FedloreError(f"own models need at least {FOLDS} rows, got {rows}")
    order = np.arange(rows)
    np.random.RandomState(fold_seed(seed, site)).shuffle(order)
    found = np.empty(rows, dtype=np.int64)
    for fold, block in enumerate(np.array_split(order, FOLDS)):
        found[block] = fold
    return torch.from_numpy(found)


def fold_seed(seed: int, site: str) -> int:
    """The 32-bit seed of a site's folds and trees."""
    return key(seed, "own", site) % (1 << 32)


def try_family(
    family: Family,
    sight: Sight,
    target: Callable[[Mode], Tensor],
    part: Tensor,  # (n,) folds
    modes: Sequence[Mode],
    judge: _Judge,
) -> list[Tried]:
    """One entry per mode; the first mode tries every setting, the others those near its best."""
    found: list[Tried] = []
    settings = family.settings
    for mode in modes:
        outputs = predict_held_out(family, sight, target(mode), part, mode, settings)
        each = [judge(one) for one in outputs]
        best = min(range(len(each)), key=lambda i: each[i].error)
        found.append(Tried(family, mode, settings[best], each[best]))
        if mode is modes[0]:
            settings = family.near(settings[best])
    return found


def predict_held_out(
    family: Family,
    sight: Sight,
    target: Tensor,
    part: Tensor,
    mode: Mode,
    settings: Sequence[Any],
) -> Tensor:
    """Out-of-fold outputs of each setting, (s, n, o), the expert's number added where due."""
    inputs = sight.inputs(hears=mode.hears)
    found: Tensor | None = None
    for fold in range(int(part.max()) + 1):
        out = part == fold
        said = family.trace(inputs[~out], target[~out], inputs[out], settings)
        if found is None:
            found = said.new_empty(len(settings), len(part), said.shape[2])
        found[:, out] = said
    assert found is not None  # there are at least two folds
    return found + sight.start[:, None] if mode.over else found


def fit_whole(tried: Tried, sight: Sight, target: Tensor) -> Body:
    """The model of a trial on all rows."""
    return tried.family.fit(sight.inputs(hears=tried.mode.hears), target, tried.setting)
