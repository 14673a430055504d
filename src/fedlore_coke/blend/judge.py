"""Blends by the thousand: what the model, its range and its scope say of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedlore.errors import KnowledgeError

from .coals import Array
from .graders import BlendTarget, Grader
from .mixing import MixingRecipe, rows_of

_CHUNK = 8192  # rows at a time, so that they stay in the cache
SAFE = 1e-6  # a batch and a single row may differ by rounding: stay on the safe side


@dataclass(frozen=True)
class Goal:
    """What makes a blend good enough."""

    place: int = 0  # which of the judge's targets
    confidence: float = 0.9  # P(target) is at least this
    worst_case: bool = False  # and everything the range allows lies in the target
    scope: bool = True  # and every feature lies where the model is declared to hold


class Limiter(Protocol):
    """Another limit that blends must keep."""

    def margins(self, shares: Array) -> tuple[Array, Array]:
        """Of blends (n, c) by how much each keeps it, below 0 where it does not, (n,).

        And how far a feature lies out of the scope of whoever says so, (n,).
        """


@dataclass(frozen=True, eq=False)
class JudgedBlends:
    """n blends as the judge saw them."""

    chance: Array  # (n, t) P(target)
    stray: Array  # (n, t) how far the range leaves the target, 0 to 1
    outside: Array  # (n,) how far a feature lies out of its scope, in widths; 0: all lie inside
    refused: NDArray[np.bool_]  # (n,) the expert's range has no answer for it: P is 0
    margins: Array  # (n, m) of other limits; below 0: broken

    def __getitem__(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> "JudgedBlends":
        return JudgedBlends(**{name: values[rows] for name, values in vars(self).items()})

    @staticmethod
    def join(parts: Sequence["JudgedBlends"]) -> "JudgedBlends":
        """All verdicts in order."""
        names = vars(parts[0])
        return JudgedBlends(**{n: np.concatenate([getattr(p, n) for p in parts]) for n in names})

    def good(self, goal: Goal) -> NDArray[np.bool_]:
        """Which blends reach the goal, (n,)."""
        met = self.chance[:, goal.place] >= min(goal.confidence + SAFE, 1.0)
        if goal.worst_case:
            met &= self.stray[:, goal.place] <= 0
        if goal.scope:
            met &= self.outside <= 0
        kept: NDArray[np.bool_] = met & (self.margins >= 0).all(1)
        return kept

    def lack(self, goal: Goal) -> Array:
        """How far each blend is from the goal, 0 where it is reached, (n,)."""
        wanted = logit(np.array(min(goal.confidence + SAFE, 1.0)))
        short = np.maximum(wanted - logit(self.chance[:, goal.place]), 0.0) / 4.0
        if goal.worst_case:
            short = short + 4.0 * self.stray[:, goal.place]
        if goal.scope:
            short = short + 4.0 * self.outside
        lack: Array = short + np.maximum(-self.margins, 0.0).sum(1)
        return lack


@dataclass(frozen=True, eq=False)
class Judge:
    """Shares in, verdicts out."""

    recipe: MixingRecipe
    grader: Grader
    targets: tuple[BlendTarget, ...]
    also: tuple[Limiter, ...] = ()

    def __call__(self, shares: Array) -> JudgedBlends:
        """(n, c) -> n verdicts."""
        if not len(shares):
            none, margins = np.empty((0, len(self.targets))), np.empty((0, len(self.also)))
            return JudgedBlends(none, none, np.empty(0), np.empty(0, dtype=bool), margins)
        seen = JudgedBlends.join(
            [self._part(shares[i : i + _CHUNK]) for i in range(0, len(shares), _CHUNK)]
        )
        if not self.also:
            return seen
        outside, margins = seen.outside, np.empty((len(shares), len(self.also)))
        for place, limit in enumerate(self.also):
            margins[:, place], beyond = limit.margins(shares)
            outside = np.maximum(outside, beyond)
        return replace(seen, outside=outside, margins=margins)

    def _part(self, shares: Array) -> JudgedBlends:
        values = self.recipe.features(shares)
        x = rows_of(values)
        outside, free = self.misses(values).max(1, initial=0.0), np.zeros((len(x), 0))
        try:
            chance, stray = self.grader.look(x, self.targets)
            return JudgedBlends(chance, stray, outside, np.zeros(len(x), dtype=bool), free)
        except KnowledgeError:  # the expert has no answer for some of them
            kept = find_answered(self.grader, x)
        chance = np.zeros((len(x), len(self.targets)))
        stray = np.ones_like(chance)
        if kept.any():
            chance[kept], stray[kept] = self.grader.look(x[torch.from_numpy(kept)], self.targets)
        return JudgedBlends(chance, stray, outside, ~kept, free)

    def misses(self, values: Array) -> Array:
        """How far each feature lies out of its scope, in widths of the scope, (n, d)."""
        low, high, width = self.scope
        return np.fmax(np.maximum(low - values, values - high), 0.0) / width  # NaN is no miss

    @property
    def scope(self) -> tuple[Array, Array, Array]:
        """Low end, high end and width of each feature's scope, (d,) each; an empty one has none."""
        features, empty = self.recipe.schema.features, self.recipe.without
        low = np.array([-np.inf if f.name in empty else f.low for f in features])
        high = np.array([np.inf if f.name in empty else f.high for f in features])
        width = high - low
        known = np.where(np.isfinite(low), np.abs(low), 0) + np.where(
            np.isfinite(high), np.abs(high), 0
        )
        return low, high, np.where(np.isfinite(width), width, np.maximum(known, 1.0))


def find_answered(grader: Grader, x: Tensor) -> NDArray[np.bool_]:
    """For which rows the expert has an answer, (n,).

    Rows with an empty range are found at once; he may have other reasons, for which halves of a
    refused batch are asked again.
    """
    try:
        kept = ~grader.empty(x).numpy()
    except KnowledgeError:
        kept = np.ones(len(x), dtype=bool)
    kept[kept] = _halve(grader, x[torch.from_numpy(kept)])
    return kept


def _halve(grader: Grader, x: Tensor) -> NDArray[np.bool_]:
    try:
        grader.annotate(x)
        return np.ones(len(x), dtype=bool)
    except KnowledgeError:
        if len(x) < 2:
            return np.zeros(len(x), dtype=bool)
    half = len(x) // 2
    return np.concatenate([_halve(grader, x[:half]), _halve(grader, x[half:])])


def logit(chance: Array) -> Array:
    """ln p / (1 - p), cut off far out so that it stays finite."""
    p = np.clip(chance, 1e-9, 1.0 - 1e-9)
    odds: Array = np.log(p) - np.log1p(-p)
    return odds


def say_chance(chance: float) -> str:
    """A probability as people read it; only what is exactly 0 or 1 is called so.

    >>> say_chance(0.99996), say_chance(1.0), say_chance(0.412), say_chance(1e-9)
    ('> 0.999', '1', '0.412', '< 0.001')
    """
    if chance in (0.0, 1.0):
        return f"{chance:.0f}"
    return "> 0.999" if chance >= 0.9995 else "< 0.001" if chance < 0.0005 else f"{chance:.3f}"


def equal(chance: float) -> str:
    """A probability with its sign: '= 0.9' or '> 0.999'."""
    text = say_chance(chance)
    return text if text[0] in "<>" else f"= {text}"
